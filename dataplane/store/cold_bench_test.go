package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/dataplane/message"
)

// BenchmarkTail_besideColdScan measures how long a message of 1 KiB takes from
// its append to its reader at the tail, 2,000 a second, alone and beside four
// readers of a group that go through 2 GiB which are on the disk only. Each
// round takes ten seconds: run it with -benchtime 1x.
func BenchmarkTail_besideColdScan(b *testing.B) {
	const old, body, second = 2 << 30, 1 << 10, 2000
	cfg := DefaultConfig()
	cfg.Dir, cfg.StoreHost, cfg.HotBytes = b.TempDir(), testConfig().StoreHost, 64<<20
	s, err := Open(cfg, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ms := make([]*message.Message, 512)
	for i := range ms {
		ms[i] = msg("old", int32(0), strings.Repeat("x", body))
	}
	for _, end := s.CommitLogRange(); end < old; _, end = s.CommitLogRange() {
		if _, err := s.AppendBatch(ctx, ms, DurabilityAsync); err != nil {
			b.Fatal(err)
		}
	}
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	arrived := make(chan int64, 1<<16)
	s.OnArrival(func(a Arrival) {
		if a.Topic == "tail" {
			arrived <- a.NextOffset - 1
		}
	})
	go func() { done <- s.Run(run) }()
	defer func() {
		stop()
		<-done
	}()
	for s.Dispatched() < old {
		time.Sleep(10 * time.Millisecond)
	}
	var tail int64
	for _, c := range []struct {
		name  string
		scans int
		set   func()
	}{
		{"alone", 0, func() {}},
		{"scan_without_budget", 4, func() { s.cold.hot = 1 << 50 }},
		{"scan_with_budget", 4, func() { s.cold.hot = cfg.HotBytes }},
		{"scan_of_200_MiB_a_second", 4, func() { s.cold.limit.rate = 200 << 20 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.set()
			clear(s.cold.groups)
			for b.Loop() {
				if _, err := s.Append(ctx, msg("tail", 0, "sync"), DurabilitySync); err != nil {
					b.Fatal(err)
				}
				<-arrived
				tail++
				_, end := s.CommitLogRange()
				for _, base := range s.clog.Bases() {
					s.clog.Forget(base, cfg.SegmentBytes)
				}
				scanning, halt := context.WithCancel(ctx)
				read := make(chan int64)
				for i := range c.scans {
					go func() {
						var n int64
						next := int64(i) * (old / 4 / 1200)
						for scanning.Err() == nil {
							batch, err := s.Read("old", 0, next, ReadOptions{Group: "g", MaxMessages: 256})
							if err != nil {
								b.Error(err)
								break
							}
							if batch.Status == ReadLater {
								time.Sleep(batch.Wait)
								continue
							}
							for _, rec := range batch.Records {
								n += int64(len(rec))
							}
							if next = batch.Next; batch.Status == ReadNotFound {
								next = 0
							}
							batch.Release()
						}
						read <- n
					}()
				}
				times := make([]time.Duration, 0, 10*second)
				began := time.Now()
				for i := range cap(times) {
					due := began.Add(time.Duration(i) * time.Second / second)
					time.Sleep(time.Until(due))
					if _, err := s.Append(ctx, msg("tail", 0, strings.Repeat("x", body)), DurabilityAsync); err != nil {
						b.Fatal(err)
					}
					<-arrived
					batch, err := s.Read("tail", 0, tail, ReadOptions{Group: "t"})
					if err != nil || len(batch.Records) != 1 {
						b.Fatal(batch.Status, err)
					}
					batch.Release()
					tail++
					times = append(times, time.Since(due))
				}
				took := time.Since(began)
				halt()
				var n int64
				for range c.scans {
					n += <-read
				}
				slices.Sort(times)
				for name, share := range map[string]float64{"p50-µs": 0.5, "p99-µs": 0.99, "p99.9-µs": 0.999} {
					b.ReportMetric(float64(times[int(share*float64(len(times)))].Microseconds()), name)
				}
				b.ReportMetric(float64(n)/took.Seconds()/(1<<20), "scan-MiB/s")
				b.ReportMetric(float64(s.cachedUpTo(end))/(1<<20), "old-MiB-cached")
			}
		})
	}
}

// cachedUpTo is how many bytes of the commit log in front of an offset the page
// cache of a Linux from 6.5 on holds; 0 for others.
func (s *Store) cachedUpTo(end int64) (n int64) {
	for _, base := range s.clog.Bases() {
		f, err := os.Open(s.path("commitlog", fmt.Sprintf("%020d", base)))
		if err != nil || base >= end {
			continue
		}
		var stat unix.Cachestat_t
		if unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(min(s.cfg.SegmentBytes, end-base))}, &stat, 0) == nil {
			n += int64(stat.Cache) * int64(os.Getpagesize())
		}
		f.Close()
	}
	return n
}
