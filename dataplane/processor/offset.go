package processor

import (
	"fmt"
	"math"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// progress reads the fields that offset requests share and maps the names.
func (p *Processor) progress(r *request, fields *wire.FieldReader) (group, topic string, queueID int32, err error) {
	groupName, topicName := fields.Text("consumerGroup"), fields.Text("topic")
	queueID = fields.Int32("queueId")
	if err := fields.Err(); err != nil {
		return "", "", 0, err
	}
	v, err := p.view(r, topicName, groupName)
	if err != nil {
		return "", "", 0, err
	}
	if topic, err = v.Topic(topicName, policy.OperationSub); err != nil {
		return "", "", 0, err
	}
	group, err = v.Group(groupName, policy.OperationSub)
	return group, topic, queueID, err
}

func (p *Processor) queryOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	zero := fields.OptionalBool("setZeroIfNotFound", true)
	group, topic, queueID, err := p.progress(r, &fields)
	if err != nil {
		return nil, err
	}
	offset, found, err := p.b.Offset(group, topic, queueID, !zero)
	if err != nil {
		return nil, err
	}
	if !found {
		return p.reply(r, wire.QueryNotFound, "offset_not_found", "the group has no offset for this queue", ""), nil
	}
	return r.number("offset", offset), nil
}

// updateOffset follows the rule of the core: an offset outside of the queue is
// refused, a move backwards is taken and logged.
func (p *Processor) updateOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	offset := fields.Int64("commitOffset")
	group, topic, queueID, err := p.progress(r, &fields)
	if err != nil {
		return nil, err
	}
	if err := p.b.CommitOffset(group, topic, queueID, offset); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

func (r *request) number(field string, n int64) *wire.Frame {
	resp := r.ok()
	resp.Ext.AddInt(field, n)
	return resp
}

// anyReader are the operations that let a key look at a topic.
var anyReader = []policy.Operation{policy.OperationSub, policy.OperationDescribe, policy.OperationPub}

func (p *Processor) queueOf(r *request, fields *wire.FieldReader) (topic string, queueID int32, err error) {
	name := fields.Text("topic")
	queueID = fields.Int32("queueId")
	if err := fields.Err(); err != nil {
		return "", 0, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return "", 0, err
	}
	topic, err = v.TopicAny(name, anyReader...)
	return topic, queueID, err
}

func (p *Processor) maxOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topic, queueID, err := p.queueOf(r, &fields)
	if err != nil {
		return nil, err
	}
	_, top, err := p.b.QueueRange(topic, queueID)
	if err != nil {
		return nil, err
	}
	return r.number("offset", top), nil
}

func (p *Processor) minOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topic, queueID, err := p.queueOf(r, &fields)
	if err != nil {
		return nil, err
	}
	low, _, err := p.b.QueueRange(topic, queueID)
	if err != nil {
		return nil, err
	}
	return r.number("offset", low), nil
}

func (p *Processor) earliestTime(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topic, queueID, err := p.queueOf(r, &fields)
	if err != nil {
		return nil, err
	}
	ms, err := p.b.EarliestTime(topic, queueID)
	if err != nil {
		return nil, err
	}
	return r.number("timestamp", ms), nil
}

func (p *Processor) searchOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	ms := fields.Int64("timestamp")
	boundary := store.BoundaryLower
	switch fields.Optional("boundaryType") {
	case "", "LOWER", "lower":
	case "UPPER", "upper":
		boundary = store.BoundaryUpper
	default:
		return nil, &wire.FieldError{Field: "boundaryType", Problem: "is neither LOWER nor UPPER"}
	}
	topic, queueID, err := p.queueOf(r, &fields)
	if err != nil {
		return nil, err
	}
	offset, err := p.b.OffsetByTime(topic, queueID, ms, boundary)
	if err != nil {
		return nil, err
	}
	return r.number("offset", offset), nil
}

// viewMessage finds a record by its place in the log, which names no topic:
// the record's own topic must be one that the caller may read.
func (p *Processor) viewMessage(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	offset := fields.Int64("offset")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, fields.Optional("topic"))
	if err != nil {
		return nil, err
	}
	rec, err := p.b.View(offset, readable(v))
	if err != nil {
		return nil, err
	}
	resp := r.ok()
	if resp.Body, err = (&shown{v: v}).append(nil, rec); err != nil {
		return nil, err
	}
	return resp, nil
}

// readable decides whether the view's caller may read a physical topic.
func readable(v *policy.View) func(string) bool {
	return func(physical string) bool {
		shown := v.ShowTopic(physical)
		if shown == "" {
			return false
		}
		_, err := v.TopicAny(shown, policy.OperationSub, policy.OperationDescribe)
		return err == nil
	}
}

// keyKinds are the values of indexType; older clients send none.
var keyKinds = map[string]store.KeyKind{"": store.KeyAny, "U": store.KeyUnique, "K": store.KeyWord, "T": store.KeyTag}

// uniqueKeyQuery is the field by which older clients ask for a unique id.
const uniqueKeyQuery = "_UNIQUE_KEY_QUERY"

// beforeField is ours: the system asks for records in front of a commit log
// offset, to turn pages.
const beforeField = "__SLUICE_BEFORE"

// queryMessage looks for messages by key. For a unique id the times do not
// count: clients guess them from the id, by their own clock.
func (p *Processor) queryMessage(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	q := store.KeyQuery{Key: fields.Text("key"), Max: int(fields.Int32("maxNum")), From: fields.Int64("beginTimestamp"), To: fields.Int64("endTimestamp")}
	kind, known := keyKinds[fields.Optional("indexType")]
	unique := fields.OptionalBool(uniqueKeyQuery, false)
	before := fields.OptionalInt64(beforeField, 0)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	switch {
	case q.Key == "":
		return nil, &wire.FieldError{Field: "key", Problem: "is empty"}
	case !known:
		return nil, &wire.FieldError{Field: "indexType", Problem: "is none of U, K and T"}
	case q.Max < 1:
		return nil, &wire.FieldError{Field: "maxNum", Problem: "is less than 1"}
	}
	if q.Kind = kind; unique {
		q.Kind = store.KeyUnique
	}
	if q.Kind == store.KeyUnique {
		q.From, q.To, q.Max = 0, math.MaxInt64, store.MaxFound
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	if q.Topic, err = v.TopicAny(name, policy.OperationSub, policy.OperationDescribe); err != nil {
		return nil, err
	}
	if v.System() {
		q.Before = before // a place in the log is nobody's but ours
	}
	recs, err := p.b.FindByKey(r.ctx, q)
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return p.reply(r, wire.QueryNotFound, "message_not_found", "no message of the topic has this key in this time", ""), nil
	}
	resp := r.ok()
	for _, rec := range recs {
		if resp.Body, err = (&shown{v: v}).append(resp.Body, rec); err != nil {
			return nil, err
		}
	}
	// How far the index is, is nobody's business: the newest record stands for it.
	newest, err := message.Parse(recs[len(recs)-1])
	if err != nil {
		return nil, fmt.Errorf("record to show: %w", err)
	}
	resp.Ext.AddInt("indexLastUpdateTimestamp", newest.StoreTimestamp)
	resp.Ext.AddInt("indexLastUpdatePhyoffset", newest.PhysicalOffset)
	return resp, nil
}
