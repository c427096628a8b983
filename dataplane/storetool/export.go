package storetool

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sluicemq/sluice/dataplane/message"
)

// ExportFilter chooses messages; zero values choose all.
type ExportFilter struct {
	Topic    string
	Queue    int32 // -1 for all
	From, To int64 // store times in ms, From included, To not; 0 for no limit
}

// Exported is one line of an Export.
type Exported struct {
	Topic                     string            `json:"topic"`
	Queue                     int32             `json:"queue"`
	Offset                    int64             `json:"offset"`
	PhysicalOffset            int64             `json:"physicalOffset"`
	BornTimestamp             int64             `json:"bornTimestamp"`  // ms
	StoreTimestamp            int64             `json:"storeTimestamp"` // ms
	BornHost                  string            `json:"bornHost"`
	StoreHost                 string            `json:"storeHost"`
	Flag                      int32             `json:"flag"`
	SysFlag                   int32             `json:"sysFlag"`
	ReconsumeTimes            int32             `json:"reconsumeTimes"`
	PreparedTransactionOffset int64             `json:"preparedTransactionOffset"`
	Properties                map[string]string `json:"properties"`
	Body                      []byte            `json:"body"` // Base64; as stored, that is compressed when bit 0 of sysFlag is set
}

// ExportResult says what an Export gave.
type ExportResult struct {
	Messages int64
	Damaged  int // places of the commit log that could not be read
}

// Export writes the messages that f chooses to out, one JSON object a line, in
// the order of the commit log. It needs nothing but the commit log: messages
// that are in no queue yet come, too, and damaged places are passed over. Half
// messages, rolled back ones and those of deleted topics are left out. It ends
// with ctx.
func Export(ctx context.Context, o Options, f ExportFilter, out io.Writer) (ExportResult, error) {
	var r ExportResult
	dir, err := openFolder(&o, true)
	if err != nil {
		return r, err
	}
	if err = dir.look(); err == nil {
		err = dir.export(ctx, &o, &f, json.NewEncoder(out), &r)
	}
	return r, errors.Join(err, dir.close())
}

func (d *folder) export(ctx context.Context, o *Options, want *ExportFilter, out *json.Encoder, r *ExportResult) error {
	log := d.view.CommitLog()
	bases := log.Bases()
	if len(bases) == 0 {
		return nil
	}
	from, limit := bases[0], log.SegmentEnd(bases[len(bases)-1])
	for _, base := range bases {
		// Store times never fall: a file is of interest when the next one
		// begins behind From.
		if f, err := log.Peek(base); err == nil && f.StoreTimestamp < want.From {
			from = base
		}
	}
	sc := log.ScanVerified(from, limit)
	var f message.Fields // one for all: it escapes
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			o.progress(sc.Offset()-from, limit-from)
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
			r.Damaged++
			sc.Reset(next, limit)
			continue
		case err != nil:
			return err
		case want.To > 0 && f.StoreTimestamp >= want.To:
			return nil
		case f.StoreTimestamp < want.From, want.Topic != "" && string(f.Topic) != want.Topic, want.Queue >= 0 && f.QueueID != want.Queue, !d.view.Queued(off, &f):
			continue
		}
		m, err := message.Decode(rec)
		if err != nil {
			return err
		}
		r.Messages++
		if err := out.Encode(Exported{
			m.Topic, m.QueueID, m.QueueOffset, m.PhysicalOffset, m.BornTimestamp, m.StoreTimestamp, m.BornHost.String(), m.StoreHost.String(),
			m.Flag, m.SysFlag, m.ReconsumeTimes, m.PreparedTransactionOffset, message.ParseProperties(m.Properties), m.Body,
		}); err != nil {
			return err
		}
	}
}
