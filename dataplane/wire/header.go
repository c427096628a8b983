package wire

import (
	"fmt"
	"slices"
	"strconv"
)

// FieldError says which header field a request lacks or got wrong.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("header field %q %s", e.Field, e.Problem) }

// FieldReader takes typed values out of header fields. The first problem
// poisons it: later reads return zero values and Err names the field.
type FieldReader struct {
	fields Fields
	err    error
}

// ReadFields starts reading f.
func ReadFields(f Fields) FieldReader { return FieldReader{fields: f} }

// Err returns the first problem, a *FieldError, or nil.
func (r *FieldReader) Err() error { return r.err }

func (r *FieldReader) problem(key, text string) {
	if r.err == nil {
		r.err = &FieldError{Field: key, Problem: text}
	}
}

// Text returns a required, non-empty text.
func (r *FieldReader) Text(key string) string { return r.text(key, r.fields.Value(key)) }

// Optional returns a text or "".
func (r *FieldReader) Optional(key string) string { return r.fields.Value(key) }

// Int64 returns a required number.
func (r *FieldReader) Int64(key string) int64 { return r.number(key, r.fields.Value(key), 64) }

// Int32 returns a required number of 32 bits.
func (r *FieldReader) Int32(key string) int32 { return int32(r.number(key, r.fields.Value(key), 32)) }

// OptionalInt64 returns a number, or def when the field is absent or empty.
func (r *FieldReader) OptionalInt64(key string, def int64) int64 {
	return r.optional(key, r.fields.Value(key), def, 64)
}

// OptionalInt32 is OptionalInt64 for 32 bits.
func (r *FieldReader) OptionalInt32(key string, def int32) int32 {
	return int32(r.optional(key, r.fields.Value(key), int64(def), 32))
}

// OptionalBool returns true or false, or def when the field is absent or
// empty.
func (r *FieldReader) OptionalBool(key string, def bool) bool {
	return r.bool(key, r.fields.Value(key), def)
}

func (r *FieldReader) text(key, v string) string {
	if v == "" {
		r.problem(key, "is missing")
	}
	return v
}

func (r *FieldReader) number(key, v string, bits int) int64 {
	if v == "" {
		r.problem(key, "is missing")
		return 0
	}
	return r.parse(key, v, bits)
}

func (r *FieldReader) optional(key, v string, def int64, bits int) int64 {
	if v == "" {
		return def
	}
	return r.parse(key, v, bits)
}

func (r *FieldReader) bool(key, v string, def bool) bool {
	switch v {
	case "":
		return def
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	default:
		r.problem(key, fmt.Sprintf("is not true or false: %.40q", v))
		return def
	}
}

func (r *FieldReader) parse(key, v string, bits int) int64 {
	n, err := strconv.ParseInt(v, 10, bits)
	if err != nil {
		r.problem(key, fmt.Sprintf("is not a %d-bit number: %.40q", bits, v))
		return 0
	}
	return n
}

// SendHeader is the header of SendMessage, SendMessageV2, SendBatchMessage
// and of the two reply messages.
type SendHeader struct {
	ProducerGroup         string
	Topic                 string
	DefaultTopic          string
	DefaultTopicQueueNums int32
	QueueID               int32
	SysFlag               int32
	BornTimestamp         int64
	Flag                  int32
	Properties            string
	ReconsumeTimes        int32
	UnitMode              bool
	MaxReconsumeTimes     int32 // -1 when absent
	Batch                 bool
}

// sendNames are the field names of the long form, sendLetters those of V2, in
// the same order.
var (
	sendNames = [...]string{"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
		"bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"}
	sendLetters = [...]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"}
)

// sendField returns the place of a field in names, -1 for none.
func sendField(names *[len(sendNames)]string, key string) int {
	if names == &sendLetters {
		if len(key) == 1 && key[0] >= 'a' && key[0] <= 'm' {
			return int(key[0] - 'a')
		}
		return -1
	}
	return slices.Index(names[:], key)
}

// usesLetters reports whether a send request code has the short field names.
func usesLetters(code int32) bool {
	return code == SendMessageV2 || code == SendBatchMessage || code == SendReplyMessageV2
}

// ParseSendHeader reads the header of a send request, by its code in the long
// or the short form. Errors name the field in the form that was sent.
func ParseSendHeader(f *Frame) (SendHeader, error) {
	n := &sendNames
	if usesLetters(f.Code) {
		n = &sendLetters
	}
	// One pass over the fields: the last one of a name counts.
	var v [len(sendNames)]string
	for i := range f.Ext {
		if at := sendField(n, f.Ext[i].Key); at >= 0 {
			v[at] = f.Ext[i].Value
		}
	}
	var r FieldReader
	h := SendHeader{
		ProducerGroup:         r.text(n[0], v[0]),
		Topic:                 r.text(n[1], v[1]),
		DefaultTopic:          r.text(n[2], v[2]),
		DefaultTopicQueueNums: int32(r.number(n[3], v[3], 32)),
		QueueID:               int32(r.number(n[4], v[4], 32)),
		SysFlag:               int32(r.number(n[5], v[5], 32)),
		BornTimestamp:         r.number(n[6], v[6], 64),
		Flag:                  int32(r.number(n[7], v[7], 32)),
		Properties:            v[8],
		ReconsumeTimes:        int32(r.optional(n[9], v[9], 0, 32)),
		UnitMode:              r.bool(n[10], v[10], false),
		MaxReconsumeTimes:     int32(r.optional(n[11], v[11], -1, 32)),
		Batch:                 r.bool(n[12], v[12], false),
	}
	return h, r.Err()
}

// Fields encodes the header for a request of the given code.
func (h *SendHeader) Fields(code int32) Fields {
	n := &sendNames
	if usesLetters(code) {
		n = &sendLetters
	}
	f := make(Fields, 0, 14)
	f.Add(n[0], h.ProducerGroup)
	f.Add(n[1], h.Topic)
	f.Add(n[2], h.DefaultTopic)
	f.AddInt(n[3], int64(h.DefaultTopicQueueNums))
	f.AddInt(n[4], int64(h.QueueID))
	f.AddInt(n[5], int64(h.SysFlag))
	f.AddInt(n[6], h.BornTimestamp)
	f.AddInt(n[7], int64(h.Flag))
	f.AddOptional(n[8], h.Properties)
	f.AddInt(n[9], int64(h.ReconsumeTimes))
	f.AddBool(n[10], h.UnitMode)
	if h.MaxReconsumeTimes >= 0 {
		f.AddInt(n[11], int64(h.MaxReconsumeTimes))
	}
	f.AddBool(n[12], h.Batch)
	return f
}

// SysFlag bits of PullHeader.
const (
	PullFlagCommit       int32 = 1
	PullFlagSuspend      int32 = 2
	PullFlagSubscription int32 = 4
	PullFlagClassFilter  int32 = 8
	PullFlagLite         int32 = 16
)

// PullHeader is the header of PullMessage and LitePullMessage.
type PullHeader struct {
	ConsumerGroup        string
	Topic                string
	QueueID              int32
	QueueOffset          int64
	MaxMessages          int32
	SysFlag              int32
	CommitOffset         int64
	SuspendTimeoutMillis int64
	Subscription         string
	SubVersion           int64
	ExpressionType       string
	MaxBytes             int32
}

// pullNames are the field names of a pull, in the order of PullHeader.
var pullNames = [...]string{"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
	"suspendTimeoutMillis", "subscription", "subVersion", "expressionType", "maxMsgBytes"}

// ParsePullHeader reads the header of a pull request.
func ParsePullHeader(f *Frame) (PullHeader, error) {
	// One pass over the fields: the last one of a name counts.
	var v [len(pullNames)]string
	for i := range f.Ext {
		if at := slices.Index(pullNames[:], f.Ext[i].Key); at >= 0 {
			v[at] = f.Ext[i].Value
		}
	}
	n := &pullNames
	var r FieldReader
	h := PullHeader{
		ConsumerGroup:        r.text(n[0], v[0]),
		Topic:                r.text(n[1], v[1]),
		QueueID:              int32(r.number(n[2], v[2], 32)),
		QueueOffset:          r.number(n[3], v[3], 64),
		MaxMessages:          int32(r.number(n[4], v[4], 32)),
		SysFlag:              int32(r.number(n[5], v[5], 32)),
		CommitOffset:         r.number(n[6], v[6], 64),
		SuspendTimeoutMillis: r.number(n[7], v[7], 64),
		Subscription:         v[8],
		SubVersion:           r.number(n[9], v[9], 64),
		ExpressionType:       v[10],
		MaxBytes:             int32(r.optional(n[11], v[11], 0, 32)),
	}
	return h, r.Err()
}

// Fields encodes the header.
func (h *PullHeader) Fields() Fields {
	f := make(Fields, 0, 12)
	f.Add("consumerGroup", h.ConsumerGroup)
	f.Add("topic", h.Topic)
	f.AddInt("queueId", int64(h.QueueID))
	f.AddInt("queueOffset", h.QueueOffset)
	f.AddInt("maxMsgNums", int64(h.MaxMessages))
	f.AddInt("sysFlag", int64(h.SysFlag))
	f.AddInt("commitOffset", h.CommitOffset)
	f.AddInt("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	f.AddOptional("subscription", h.Subscription)
	f.AddInt("subVersion", h.SubVersion)
	f.AddOptional("expressionType", h.ExpressionType)
	if h.MaxBytes > 0 {
		f.AddInt("maxMsgBytes", int64(h.MaxBytes))
	}
	return f
}
