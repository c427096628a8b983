package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The rows of the log engine: the same load on ours and on each peer, in turn,
// each freshly started on an empty store on the same disk. The figures are those
// of a machine that server and load program share, so what counts are the ratios
// and the server's processor time per message.

// results are what one load did on each server, by name.
type results map[string]measured

// each starts the servers one after the other and runs f on them. Ours is always
// among them, peers only as far as they are wanted.
func (w *workplace) each(ctx context.Context, sync bool, peers []string, f func(name string, s server) error) error {
	for _, name := range append([]string{ours}, peers...) {
		if name != ours && !slices.Contains(w.peers, name) {
			continue
		}
		if err := w.one(ctx, name, sync, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w *workplace) one(ctx context.Context, name string, sync bool, f func(name string, s server) error) (err error) {
	s, err := w.broker(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := s.Start(ctx, sync); err != nil {
		return err
	}
	return f(name, s)
}

// times is a goal: this many times what the peers by these names reach.
type times map[string]float64

// compare makes a figure of ours and the peers'. The goal is the strictest that
// follows from what the peers reached; without any of them there is none.
func compare(row, unit string, got results, value func(measured) float64, more bool, want times, notes ...string) figure {
	f := figure{Row: row, Unit: unit, Ours: value(got[ours]), Peers: map[string]float64{}, More: more}
	for name, m := range got {
		if name != ours {
			f.Peers[name] = value(m)
		}
	}
	var goals []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := f.Peers[name]; !ok {
			f.Missing = append(f.Missing, name)
			goals = append(goals, fmt.Sprintf("%s was not measured", name))
			continue
		}
		goal := want[name] * f.Peers[name]
		if f.Goal == 0 || more && goal > f.Goal || !more && goal < f.Goal {
			f.Goal = goal
		}
		goals = append(goals, fmt.Sprintf("%.3g x %s", want[name], name))
	}
	if len(goals) > 0 {
		notes = append([]string{"goal " + strings.Join(goals, ", ")}, notes...)
	}
	var beside []string
	for _, name := range append([]string{ours}, f.peerNames()...) {
		if other := got[name].Other; other > disturbed {
			beside = append(beside, fmt.Sprintf("%s %.1f", name, other))
		}
	}
	if len(beside) > 0 {
		notes = append(notes, "cores of other work beside "+strings.Join(beside, ", "))
	}
	f.Open = f.Goal == 0
	f.Note = strings.Join(notes, "; ")
	return f
}

// spent says what each server used for a message.
func spent(got results) string {
	var all []string
	for _, name := range order {
		if m := got[name]; m.CPU > 0 {
			all = append(all, fmt.Sprintf("%s %.3g", name, m.CPU))
		}
	}
	return "us of server time a message: " + strings.Join(all, ", ")
}

func perSecond(m measured) float64 { return m.PerSecond }
func cpu(m measured) float64       { return m.CPU }

const pipelined = 1024 // requests in flight

func logProduce(ctx context.Context, w *workplace) ([]figure, error) {
	got := results{}
	err := w.each(ctx, false, []string{rocketMQ, rocketMQSigned, jetStream, kafka}, func(name string, s server) (err error) {
		got[name], err = s.Produce(ctx, shape{inFlight: pipelined, batch: 1, seconds: w.seconds})
		return err
	})
	return []figure{
		compare("log-produce 1 KiB, one a request", "/s", got, perSecond, true, times{rocketMQ: 3, jetStream: 1.5}, "ours checks signatures, peers do not unless their name says so"),
		compare("log-produce server time per message", "us", got, cpu, false, times{jetStream: 1}),
	}, err
}

func logBatch(ctx context.Context, w *workplace) (all []figure, err error) {
	for _, b := range []struct {
		size, inFlight int
		peers          []string
		want           times
	}{
		{32, 64, []string{rocketMQ}, times{rocketMQ: 4}},
		{512, 16, []string{rocketMQ, kafka}, times{rocketMQ: 4, kafka: 1}},
	} {
		got := results{}
		err := w.each(ctx, false, b.peers, func(name string, s server) (err error) {
			got[name], err = s.Produce(ctx, shape{inFlight: b.inFlight, batch: b.size, seconds: w.seconds})
			return err
		})
		if err != nil {
			return all, err
		}
		all = append(all,
			compare(fmt.Sprintf("log-batch 1 KiB, %d a request", b.size), "/s", got, perSecond, true, b.want),
			compare(fmt.Sprintf("log-batch server time per message, %d", b.size), "us", got, cpu, false, nil))
	}
	return all, nil
}

// filling is a quick way to fill a store.
func (w *workplace) filling() shape {
	return shape{inFlight: 16, batch: 128, seconds: min(w.seconds, 4*time.Second)}
}

func logConsume(ctx context.Context, w *workplace) ([]figure, error) {
	one, eight, raw := results{}, results{}, results{}
	err := w.each(ctx, false, []string{rocketMQ, jetStream, kafka}, func(name string, s server) (err error) {
		fill := w.filling()
		if name == jetStream {
			fill.batch, fill.inFlight = 1, pipelined
		}
		if _, err := s.Produce(ctx, fill); err != nil {
			return err
		}
		if one[name], err = s.Consume(ctx, consumption{readers: 1, full: true, seconds: w.seconds}); err != nil {
			return err
		}
		if name == kafka || name == ours {
			if raw[name], err = s.Consume(ctx, consumption{readers: 1, fetch: fetchOf32, seconds: w.seconds}); err != nil {
				return err
			}
		}
		if name != jetStream {
			eight[name], err = s.Consume(ctx, consumption{readers: 8, full: true, seconds: w.seconds})
		}
		return err
	})
	return []figure{
		compare("log-consume page cache, 1 reader", "/s", one, perSecond, true, times{rocketMQ: 2, kafka: 1}, "32 a pull; Kafka and JetStream by complete clients"),
		compare("log-consume page cache, 8 readers", "/s", eight, perSecond, true, times{rocketMQ: 2, kafka: 1}, spent(eight)),
		compare("log-consume Kafka by a raw client", "/s", raw, perSecond, true, times{kafka: 0.6}, "40 KiB a fetch", spent(raw)),
		compare("log-consume server time per message", "us", one, cpu, false, times{rocketMQ: 1. / 3}),
	}, err
}

// fetchOf32 is the bytes of 32 messages.
const fetchOf32 = 32 * 1250

func logSync(ctx context.Context, w *workplace) ([]figure, error) {
	flights := []int{1, 64, 256}
	got := map[int]results{}
	for _, n := range flights {
		got[n] = results{}
	}
	err := w.each(ctx, true, []string{rocketMQ, jetStream, kafka}, func(name string, s server) (err error) {
		for _, n := range flights {
			if name == ours { // a disk is not the same from one minute to the next
				if got[n]["model"], err = w.limit(ctx, fmt.Sprintf("^group_commit_1kib_%d$", n)); err != nil {
					return err
				}
			}
			if got[n][name], err = s.Produce(ctx, shape{inFlight: n, batch: 1, seconds: w.seconds}); err != nil {
				return err
			}
		}
		return nil
	})
	var all []figure
	for _, n := range flights {
		want := times{"model": 0.8}
		if n == 64 {
			want = times{"model": 0.8, rocketMQ: 4, jetStream: 15, kafka: 15}
		}
		all = append(all, compare(fmt.Sprintf("log-sync 1 KiB, %d in flight", n), "/s", got[n], perSecond, true, want, fmt.Sprintf("p99 %.3g ms", got[n][ours].P99/1000), spent(got[n])))
	}
	return all, err
}

func logLatency(ctx context.Context, w *workplace) ([]figure, error) {
	most := defaultMost
	if slices.Contains(w.peers, rocketMQ) {
		err := w.one(ctx, rocketMQ, false, func(_ string, s server) error {
			m, err := s.Produce(ctx, shape{inFlight: pipelined, batch: 1, seconds: w.seconds})
			most = int(m.PerSecond)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	got := results{}
	err := w.each(ctx, false, []string{rocketMQ, jetStream}, func(name string, s server) (err error) {
		got[name], err = s.Produce(ctx, shape{inFlight: 16 * pipelined, batch: 1, rate: most / 2, seconds: 2 * w.seconds})
		return err
	})
	millis := func(f func(measured) float64) func(measured) float64 {
		return func(m measured) float64 { return f(m) / 1000 }
	}
	return []figure{
		compare("log-latency p50", "ms", got, millis(func(m measured) float64 { return m.P50 }), false, nil, fmt.Sprintf("open loop, %d messages/s, half of what RocketMQ takes", most/2), spent(got)),
		compare("log-latency p99", "ms", got, millis(func(m measured) float64 { return m.P99 }), false, times{rocketMQ: 1. / 3}),
		compare("log-latency p99.9", "ms", got, millis(func(m measured) float64 { return m.P999 }), false, nil),
	}, err
}

// defaultMost stands for what RocketMQ takes where it is not measured.
const defaultMost = 96_000

func logMemory(ctx context.Context, w *workplace) ([]figure, error) {
	idle, busy := results{}, results{}
	err := w.each(ctx, false, []string{rocketMQ, jetStream}, func(name string, s server) (err error) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Second): // what the start needed is given back
		}
		idle[name] = measured{Anon: anonymous(s.PID())}
		busy[name], err = s.Produce(ctx, shape{inFlight: pipelined, batch: 1, seconds: w.seconds})
		return err
	})
	anon := func(m measured) float64 { return m.Anon }
	return []figure{
		compare("log-memory anonymous, idle", "MiB", idle, anon, false, times{rocketMQ: 0.1}, "RocketMQ with a heap of 2 GiB"),
		compare("log-memory anonymous, under load", "MiB", busy, anon, false, times{rocketMQ: 0.2}),
	}, err
}

// order is how servers are named one after the other.
var order = []string{ours, "model", "disk", rocketMQ, rocketMQSigned, jetStream, kafka}

func (f *figure) peerNames() []string {
	return slices.SortedFunc(maps.Keys(f.Peers), func(a, b string) int {
		return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
	})
}
