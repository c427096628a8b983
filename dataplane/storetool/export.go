package storetool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
)

// ExportFilter chooses messages; zero values choose all.
type ExportFilter struct {
	Topic    string // also the name of a light queue, %LMQ%…
	Queue    int32  // -1 for all
	From, To int64  // store times in ms, From included, To not; 0 for no limit
}

// Exported is one line of an Export: a record of the commit log. It stands for
// Messages messages; when there are several, body is that of a batch as it was
// sent, and their queue offsets begin at the property INNER_BASE.
type Exported struct {
	Topic                     string            `json:"topic"`
	Queue                     int32             `json:"queue"`
	Offset                    int64             `json:"offset"`
	Messages                  int               `json:"messages"`
	PhysicalOffset            int64             `json:"physical_offset"`
	BornTimestamp             int64             `json:"born_timestamp"`  // ms
	StoreTimestamp            int64             `json:"store_timestamp"` // ms
	BornHost                  string            `json:"born_host"`
	StoreHost                 string            `json:"store_host"`
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sys_flag"`
	ReconsumeTimes            int32             `json:"reconsume_times"`
	PreparedTransactionOffset int64             `json:"prepared_transaction_offset"`
	Properties                map[string]string `json:"properties"`
	Body                      []byte            `json:"body"` // Base64; as stored, that is compressed when bit 0 of sys_flag is set
}

// ExportResult says what an Export gave and what it left out.
type ExportResult struct {
	Records  int64 // lines
	Messages int64 // that they hold
	Damaged  int   // places of the commit log that could not be read

	// Records that are no messages to anybody, of those that the filter chose.
	Half, RolledBack, Deleted int64 // Deleted: of topics that were deleted
	Impossible                int64 // a queue id or topic that nobody can have
}

// LeftOut is how many records are no messages to anybody.
func (r *ExportResult) LeftOut() int64 { return r.Half + r.RolledBack + r.Deleted + r.Impossible }

// ErrNoTopic means that nothing in a folder has the topic that was asked for.
var ErrNoTopic = errors.New("topic is not in this store")

// Export writes the messages that f chooses to out, one JSON object a line, in
// the order of the commit log. It needs nothing but the commit log: messages
// that are in no queue yet come, too, and damaged places are passed over. A
// record of several messages is one line. Half messages, rolled back ones and
// those of deleted topics are left out and counted. Errors: ErrNoStore,
// store.ErrLocked, ErrNoTopic. It ends with ctx.
func Export(ctx context.Context, o Options, f ExportFilter, out io.Writer) (ExportResult, error) {
	dir, err := openFolder(&o, true)
	if err != nil {
		return ExportResult{}, err
	}
	x := &export{folder: dir, opts: &o, want: f, out: json.NewEncoder(out), seen: map[string]bool{}}
	if err = dir.look(); err == nil {
		err = x.run(ctx)
	}
	return x.ExportResult, errors.Join(err, dir.close())
}

// export is the state of one Export.
type export struct {
	*folder
	ExportResult
	opts *Options
	want ExportFilter
	out  *json.Encoder
	seen map[string]bool // names of topics and light queues
}

func (x *export) run(ctx context.Context) error {
	for name := range x.view.Topics() {
		x.seen[name] = true
	}
	log := x.view.CommitLog()
	if bases := log.Bases(); len(bases) > 0 {
		from, limit := bases[0], log.SegmentEnd(bases[len(bases)-1])
		for _, base := range bases {
			// A file is of interest when the next one begins behind From.
			if f, err := log.Peek(base); err == nil && f.StoreTimestamp < x.want.From {
				from = base
			}
		}
		if err := x.scan(ctx, from, limit); err != nil {
			return err
		}
	}
	if x.want.Topic != "" && !x.seen[x.want.Topic] {
		return x.noTopic()
	}
	return nil
}

// scan looks at all records between two commit log offsets.
func (x *export) scan(ctx context.Context, from, limit int64) error {
	log := x.view.CommitLog()
	sc := log.ScanVerified(from, limit)
	var f message.Fields // one for all: it escapes
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			x.opts.progress(sc.Offset()-from, limit-from)
		}
		off, fields, rec, err := sc.Next()
		f = fields
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, message.ErrCorrupt):
			next, ok := log.Resync(off, limit)
			if !ok {
				return nil
			}
			x.Damaged++
			sc.Reset(next, limit)
			continue
		case err != nil:
			return err
		}
		if !x.chosen(&f) || !x.message(off, &f) {
			continue
		}
		if err := x.write(&f, rec); err != nil {
			return err
		}
	}
}

// chosen tells whether the filter wants a record, and notes its names.
func (x *export) chosen(f *message.Fields) bool {
	topic := string(f.Topic)
	x.seen[topic] = true
	is := x.want.Topic == "" || topic == x.want.Topic
	queue := f.QueueID
	if names, ok := message.FindProperty(f.Properties, message.KeyMultiDispatch); ok {
		for name := range strings.SplitSeq(string(names), ",") {
			if !strings.HasPrefix(name, lightPrefix) {
				continue
			}
			x.seen[name] = true
			if name == x.want.Topic {
				is, queue = true, 0 // of a light queue there is one
			}
		}
	}
	return is && (x.want.Queue < 0 || queue == x.want.Queue) && f.StoreTimestamp >= x.want.From && (x.want.To == 0 || f.StoreTimestamp < x.want.To)
}

// message tells whether a record is a message to somebody, and counts those
// that are not.
func (x *export) message(off int64, f *message.Fields) bool {
	switch {
	case x.view.Queued(off, f), x.view.Batched(off, f):
		return true
	case f.SysFlag&message.SysFlagTransaction == message.SysFlagPrepared:
		x.Half++
	case f.SysFlag&message.SysFlagTransaction == message.SysFlagRollback:
		x.RolledBack++
	case x.view.Deleted(off, f):
		x.Deleted++
	case f.SysFlag&message.SysFlagInnerBatch != 0:
		return true // its topic has no batch consume queues any more, but it is there
	default:
		x.Impossible++
	}
	return false
}

func (x *export) write(f *message.Fields, rec []byte) error {
	m, err := message.Decode(rec)
	if err != nil {
		return err
	}
	count := 1
	if v, ok := message.FindProperty(f.Properties, message.KeyInnerNum); ok && f.SysFlag&message.SysFlagInnerBatch != 0 {
		if n, err := strconv.ParseInt(string(v), 10, 16); err == nil && n > 0 {
			count = int(n)
		}
	}
	x.Records++
	x.Messages += int64(count)
	return x.out.Encode(Exported{
		m.Topic, m.QueueID, m.QueueOffset, count, m.PhysicalOffset, m.BornTimestamp, m.StoreTimestamp, m.BornHost.String(), m.StoreHost.String(),
		m.Flag, m.SysFlag, m.ReconsumeTimes, m.PreparedTransactionOffset, message.ParseProperties(m.Properties), m.Body,
	})
}

// noTopic names the topics whose names are near.
func (x *export) noTopic() error {
	want := strings.ToLower(x.want.Topic)
	var near []string
	for name := range x.seen {
		lower := strings.ToLower(name)
		if bare := lower[strings.LastIndexByte(lower, '%')+1:]; lower == want || bare == want || strings.HasSuffix(want, "%"+bare) {
			near = append(near, strconv.Quote(name))
		}
	}
	if slices.Sort(near); len(near) > 0 {
		return fmt.Errorf("topic %q: %w; as stored, with the namespace in front, there are: %s", x.want.Topic, ErrNoTopic, strings.Join(near[:min(len(near), 10)], ", "))
	}
	return fmt.Errorf("topic %q: %w; see: sluice store inspect %s", x.want.Topic, ErrNoTopic, x.cfg.Dir)
}
