package broker

import (
	"github.com/sluicemq/sluice/dataplane/filter"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// Filter selects the messages of a subscription; nil takes all.
type Filter = filter.Filter

// ParseFilter compiles a subscription of type TAG or SQL92; "" is TAG. The
// result is nil when it takes everything. The error has CodeBadFilter and says
// where the expression is wrong.
func ParseFilter(expressionType, expression string) (*Filter, error) {
	f, err := filter.Parse(expressionType, expression, OwnerKey)
	if err != nil {
		return nil, fail(CodeBadFilter, "the filter is wrong: %v", err)
	}
	return f, nil
}

// wants reports whether a filter takes a stored record.
func wants(f *Filter, rec []byte) bool {
	if f == nil {
		return true
	}
	fields, err := message.Parse(rec)
	return err == nil && f.Match(fields.Properties)
}

// match is the function for the store, nil to take all.
func match(f *Filter) func(int64) bool {
	if f == nil || f.SQL() {
		return nil
	}
	return f.MatchCode
}

// What one call may read in search of a message that its filter takes, at
// least one step of the store, and how many bytes of properties its filter may
// look at, at least those of one message: an expression may look at them
// thousands of times.
const (
	searchMessages = 2000
	searchBytes    = 4 << 20
	searchWork     = 64 << 20
)

// readMatching is Store.Read for a filter that needs more than the tag's hash:
// records that it does not take are left out. It goes on behind them until it
// has found one, or has read enough for one call; then the status is
// ReadNoMatch, as it is for tags.
func (b *Broker) readMatching(topic string, queueID int32, offset int64, f *Filter, o store.ReadOptions) (store.Batch, error) {
	o.Match = match(f)
	messages, bytes, work := 0, 0, 0
	for {
		batch, err := b.store.Read(topic, queueID, offset, o)
		if err == nil && batch.Status == store.ReadLater && messages > 0 {
			batch.Status = store.ReadNoMatch // up to there it was looked at
		}
		if err != nil || f == nil || batch.Status != store.ReadFound {
			return batch, err
		}
		messages += len(batch.Records)
		kept := batch.Records[:0]
		for _, rec := range batch.Records {
			bytes += len(rec)
			fields, err := message.Parse(rec)
			if err != nil {
				continue
			}
			if f.Match(fields.Properties) {
				kept = append(kept, rec)
			}
			if work += f.Work(len(fields.Properties)); work >= searchWork {
				batch.Next = fields.QueueOffset + 1
				break
			}
		}
		if batch.Records = kept; len(kept) > 0 {
			return batch, nil
		}
		offset = batch.Next
		if messages >= searchMessages || bytes >= searchBytes || work >= searchWork || offset >= batch.Max {
			batch.Release()
			batch.Status = store.ReadNoMatch
			return batch, nil
		}
		batch.Release()
	}
}
