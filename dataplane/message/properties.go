package message

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"unsafe"
)

// ScheduleTopic is the topic that parks delayed messages; no client writes to
// it.
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

// TimerTopic is the topic that parks messages which wait for a time of their
// own, in its queue 0; no client writes to it.
const TimerTopic = "rmq_sys_wheel_timer"

// Keys of properties that servers and clients give a meaning to.
const (
	KeyTags                = "TAGS"
	KeyKeys                = "KEYS"
	KeyUniqueKey           = "UNIQ_KEY"
	KeyWait                = "WAIT"
	KeyDelay               = "DELAY"
	KeyTimerDelaySec       = "TIMER_DELAY_SEC"
	KeyTimerDelayMs        = "TIMER_DELAY_MS"
	KeyTimerDeliverMs      = "TIMER_DELIVER_MS"
	KeyTimerOutMs          = "TIMER_OUT_MS"
	KeyTimerEnqueueMs      = "TIMER_ENQUEUE_MS"
	KeyTimerDequeueMs      = "TIMER_DEQUEUE_MS"
	KeyTimerRollTimes      = "TIMER_ROLL_TIMES"
	KeyTimerDeleteKey      = "TIMER_DEL_UNIQKEY"
	KeyTimerDelayLevel     = "TIMER_DELAY_LEVEL"
	KeyRetryTopic          = "RETRY_TOPIC"
	KeyRealTopic           = "REAL_TOPIC"
	KeyRealQueueID         = "REAL_QID"
	KeyOriginMessageID     = "ORIGIN_MESSAGE_ID"
	KeyOriginGroup         = "ORIGIN_GROUP"
	KeyReconsumeTime       = "RECONSUME_TIME"
	KeyMaxReconsumeTimes   = "MAX_RECONSUME_TIMES"
	KeyConsumeStartTime    = "CONSUME_START_TIME"
	KeyTransactionPrepared = "TRAN_MSG"
	KeyProducerGroup       = "PGROUP"
	KeyCheckImmunityTime   = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	KeyPreparedQueueOffset = "TRAN_PREPARED_QUEUE_OFFSET"
	KeyCheckTimes          = "TRANSACTION_CHECK_TIMES"
	KeyTransactionID       = "__transactionId__"
	KeyMinOffset           = "MIN_OFFSET"
	KeyMaxOffset           = "MAX_OFFSET"
	KeyRegion              = "MSG_REGION"
	KeyTraceOn             = "TRACE_ON"
	KeyCluster             = "CLUSTER"
	KeyInstanceID          = "INSTANCE_ID"
	KeyShardingKey         = "__SHARDINGKEY"
	KeyShardingKeyGo       = "SHARDING_KEY" // what the Go client writes
	KeyMessageType         = "MSG_TYPE"
	KeyCorrelationID       = "CORRELATION_ID"
	KeyReplyToClient       = "REPLY_TO_CLIENT"
	KeyTTL                 = "TTL"
	KeyArriveTime          = "ARRIVE_TIME"
	KeyPushReplyTime       = "PUSH_REPLY_TIME"
	KeyPopCheckpoint       = "POP_CK"
	KeyPopCheckpointOffset = "POP_CK_OFFSET"
	KeyFirstPopTime        = "1ST_POP_TIME"
	KeyDLQOriginTopic      = "DLQ_ORIGIN_TOPIC"
	KeyDLQOriginMessageID  = "DLQ_ORIGIN_MESSAGE_ID"
	KeyBuyerID             = "BUYER_ID"
	KeyTransferFlag        = "TRANSFER_FLAG"
	KeyCorrectionFlag      = "CORRECTION_FLAG"
	KeyMQ2Flag             = "MQ2_FLAG"
	KeyRedirect            = "REDIRECT"
	KeyForwardQueueID      = "PROPERTY_FORWARD_QUEUE_ID"
	KeyExtendUniqueInfo    = "EXTEND_UNIQ_INFO"
	KeyDupInfo             = "DUP_INFO"
	KeyInnerNum            = "INNER_NUM"
	KeyInnerBase           = "INNER_BASE"
	KeyCRC32               = "__CRC32#"
	KeyMultiDispatch       = "INNER_MULTI_DISPATCH"
	KeyMultiQueueOffset    = "INNER_MULTI_QUEUE_OFFSET"
	KeyBornHost            = "__BORNHOST"
	KeyBornTimestamp       = "BORN_TIMESTAMP"
	KeyTraceContext        = "TRACE_CONTEXT"
	KeyPriority            = "_SYS_MSG_PRIORITY_"
	KeyLiteTopic           = "__LITE_TOPIC"
	PrefixTransient        = "__RMQ.TRANSIENT." // never stored
)

const (
	sepKeyValue = 0x01
	sepEntry    = 0x02
)

// Properties walks over the entries of an encoded property text. Keys and
// values alias props. Entries without a separator, with an empty key or with
// an empty value are skipped; the last separator may be missing; a key may
// come twice (the last one counts).
func Properties(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for len(props) > 0 {
			var k, v []byte
			k, v, props = nextProperty(props)
			if k != nil && !yield(k, v) {
				return
			}
		}
	}
}

// nextProperty splits the first entry off props; k is nil for one to skip.
func nextProperty(props []byte) (k, v, rest []byte) {
	entry := props
	if i := bytes.IndexByte(props, sepEntry); i >= 0 {
		entry, rest = props[:i], props[i+1:]
	}
	i := bytes.IndexByte(entry, sepKeyValue)
	if i <= 0 || i == len(entry)-1 {
		return nil, nil, rest
	}
	return entry[:i:i], entry[i+1 : len(entry) : len(entry)], rest
}

// FindProperty returns the value of key as a slice of props, without
// allocation. Of several entries with that key the last one counts.
func FindProperty(props []byte, key string) (value []byte, ok bool) {
	text := unsafe.String(unsafe.SliceData(props), len(props))
	for at := 0; ; {
		i := strings.Index(text[at:], key)
		if i < 0 || key == "" {
			return value, ok
		}
		i += at
		at = i + len(key)
		if i > 0 && text[i-1] != sepEntry || at == len(text) || text[at] != sepKeyValue {
			// Nothing else of this entry can be the key; what clients put into values
			// must not make the search slow.
			n := strings.IndexByte(text[i:], sepEntry)
			if n < 0 {
				return value, ok
			}
			at = i + n + 1
			continue
		}
		at++
		end := len(text)
		if n := strings.IndexByte(text[at:], sepEntry); n >= 0 {
			end = at + n
		}
		if end > at {
			value, ok = props[at:end:end], true
		}
		at = end
	}
}

// GetProperty is FindProperty with a copy of the value.
func GetProperty(props []byte, key string) (string, bool) {
	v, ok := FindProperty(props, key)
	return string(v), ok
}

// ParseProperties decodes a property text into a map.
func ParseProperties(props []byte) map[string]string {
	m := make(map[string]string, bytes.Count(props, []byte{sepEntry})+1)
	for k, v := range Properties(props) {
		m[string(k)] = string(v)
	}
	return m
}

// AppendProperty adds one entry to the property text dst, closing an entry
// that was left open at its end. Key and value must not contain the bytes 0x01
// and 0x02.
func AppendProperty(dst []byte, key, value string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != sepEntry {
		dst = append(dst, sepEntry)
	}
	dst = append(dst, key...)
	dst = append(dst, sepKeyValue)
	dst = append(dst, value...)
	return append(dst, sepEntry)
}

// AppendProperties adds the entries of m, sorted by key.
func AppendProperties(dst []byte, m map[string]string) []byte {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		dst = AppendProperty(dst, k, m[k])
	}
	return dst
}

// AppendPropertiesWithout adds the entries of props whose key is not one of
// keys to dst, in their order. Malformed entries are dropped. dst must not
// overlap props.
func AppendPropertiesWithout(dst, props []byte, keys ...string) []byte {
next:
	for len(props) > 0 {
		var k, v []byte
		k, v, props = nextProperty(props)
		if k == nil {
			continue
		}
		for _, drop := range keys {
			if string(k) == drop {
				continue next
			}
		}
		if n := len(dst); n > 0 && dst[n-1] != sepEntry {
			dst = append(dst, sepEntry)
		}
		dst = append(dst, k...)
		dst = append(dst, sepKeyValue)
		dst = append(dst, v...)
		dst = append(dst, sepEntry)
	}
	return dst
}

// SystemKey reports whether key is a property of servers and clients; all
// others are the user's own.
func SystemKey(key []byte) bool {
	switch string(key) {
	case KeyTags, KeyKeys, KeyUniqueKey, KeyWait, KeyDelay, KeyTimerDelaySec, KeyTimerDelayMs, KeyTimerDeliverMs, KeyTimerOutMs, KeyTimerEnqueueMs,
		KeyTimerDequeueMs, KeyTimerRollTimes, KeyTimerDeleteKey, KeyTimerDelayLevel, KeyRetryTopic, KeyRealTopic, KeyRealQueueID, KeyOriginMessageID,
		KeyOriginGroup, KeyReconsumeTime, KeyMaxReconsumeTimes, KeyConsumeStartTime, KeyTransactionPrepared, KeyProducerGroup, KeyCheckImmunityTime,
		KeyPreparedQueueOffset, KeyCheckTimes, KeyTransactionID, KeyMinOffset, KeyMaxOffset, KeyRegion, KeyTraceOn, KeyCluster, KeyInstanceID,
		KeyShardingKey, KeyShardingKeyGo, KeyMessageType, KeyCorrelationID, KeyReplyToClient, KeyTTL, KeyArriveTime, KeyPushReplyTime, KeyPopCheckpoint,
		KeyPopCheckpointOffset, KeyFirstPopTime, KeyDLQOriginTopic, KeyDLQOriginMessageID, KeyBuyerID, KeyTransferFlag, KeyCorrectionFlag, KeyMQ2Flag,
		KeyRedirect, KeyForwardQueueID, KeyExtendUniqueInfo, KeyDupInfo, KeyInnerNum, KeyInnerBase, KeyCRC32, KeyMultiDispatch, KeyMultiQueueOffset,
		KeyBornHost, KeyBornTimestamp, KeyTraceContext, KeyPriority, KeyLiteTopic:
		return true
	}
	return bytes.HasPrefix(key, []byte(PrefixTransient))
}
