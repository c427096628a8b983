// Package handover gives a store folder to a real RocketMQ broker and takes it
// back: what ours wrote is served by it, byte for byte, what it appends is found
// by ours, and so on in turn, over clean stops and kills.
package handover

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluicemq/sluice/dataplane/storetool"
)

// place is a position in a queue.
type place struct {
	topic  string
	queue  int32
	offset int64
}

// ledger is what the store must hold: whole records for what ours wrote, bodies
// for what RocketMQ did.
type ledger struct {
	records map[place][]byte
	bodies  map[place]string
	keys    map[string]string // "topic#key" -> body of the only message that has it
}

// Run hands a folder under dir over and back, and says each step on out. kit is
// the folder of RocketMQ's start scripts.
func Run(ctx context.Context, kit, dir string, out io.Writer) error {
	l := &ledger{records: map[place][]byte{}, bodies: map[place]string{}, keys: map[string]string{}}
	folder := filepath.Join(dir, "store")
	peer, err := newPeer(ctx, kit, filepath.Join(dir, "run"), folder)
	if err != nil {
		return err
	}
	defer peer.stop("KILL")
	for round, end := range []string{"TERM", "KILL", "TERM"} {
		began := time.Now()
		wrote, err := l.ours(ctx, folder, round)
		if err != nil {
			return fmt.Errorf("round %d, ours: %w", round, err)
		}
		if err := verify(ctx, folder); err != nil {
			return fmt.Errorf("round %d, before RocketMQ has the folder: %w", round, err)
		}
		served, appended, err := l.theirs(ctx, peer, round, end)
		if err != nil {
			return fmt.Errorf("round %d, RocketMQ: %w\n%s", round, err, peer.lastWords())
		}
		fmt.Fprintf(out, "handover: round %d: ours wrote %d messages; RocketMQ served %d, appended %d, was ended by %s (%.1f s)\n",
			round+1, wrote, served, appended, end, time.Since(began).Seconds())
	}
	n, err := l.takeBack(ctx, folder)
	if err != nil {
		return fmt.Errorf("taken back: %w", err)
	}
	if err := verify(ctx, folder); err != nil {
		return fmt.Errorf("taken back: %w", err)
	}
	fmt.Fprintf(out, "handover: ours found %d of %d messages after the last round\n", n, len(l.records)+len(l.bodies))
	return nil
}

// verify looks at every byte of the folder.
func verify(ctx context.Context, folder string) error {
	report, err := storetool.Verify(ctx, storetool.Options{Dir: folder, Sizes: toolSizes()})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if len(report.Faults) > 0 || len(report.Dirty) > 0 {
		return fmt.Errorf("verify: dirty %+v, faults %+v", report.Dirty, report.Faults)
	}
	return nil
}

// check compares a record with what is known of its place.
func (l *ledger) check(at place, rec []byte, body string) error {
	if want, ok := l.records[at]; ok && !bytes.Equal(rec, want) {
		return fmt.Errorf("%s queue %d offset %d: record\n%x\nwant\n%x", at.topic, at.queue, at.offset, rec, want)
	}
	if want, ok := l.bodies[at]; ok && body != want {
		return fmt.Errorf("%s queue %d offset %d: body %.60q, want %.60q", at.topic, at.queue, at.offset, body, want)
	}
	return nil
}

// queues returns all queues that hold something, sorted, with what lies behind
// their last known message.
func (l *ledger) queues() []place {
	ends := map[place]int64{}
	note := func(at place) {
		q := place{topic: at.topic, queue: at.queue}
		ends[q] = max(ends[q], at.offset+1)
	}
	for at := range l.records {
		note(at)
	}
	for at := range l.bodies {
		note(at)
	}
	out := make([]place, 0, len(ends))
	for q, end := range ends {
		out = append(out, place{q.topic, q.queue, end})
	}
	slices.SortFunc(out, func(a, b place) int {
		return bytes.Compare(fmt.Appendf(nil, "%s/%d", a.topic, a.queue), fmt.Appendf(nil, "%s/%d", b.topic, b.queue))
	})
	return out
}

func tail(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
