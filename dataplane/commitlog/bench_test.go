package commitlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func BenchmarkAppend1KiB(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, parallel := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync=%v/goroutines=%d", sync, parallel), func(b *testing.B) {
				l, err := Open(Config{Dir: b.TempDir() + "/log", SegmentBytes: 1 << 30, FlushInterval: time.Second, Preallocate: true}, testDeps(vfs.OS()))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Recover(Recovery{}); err != nil {
					b.Fatal(err)
				}
				l.Start()
				defer l.Close()
				var seq Sequence
				b.SetBytes(1024)
				b.ReportAllocs()
				b.SetParallelism(parallel)
				b.ResetTimer()
				if parallel == 1 {
					r := request(&seq, 1, 1024-overhead)
					r.Sync = sync
					for b.Loop() {
						if err := l.Append(b.Context(), r); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(func(p *testing.PB) {
					r := request(&seq, 1, 1024-overhead)
					r.Sync = sync
					for p.Next() {
						if err := l.Append(b.Context(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkScan1KiB(b *testing.B) {
	l, err := Open(Config{Dir: b.TempDir() + "/log", SegmentBytes: 1 << 30, FlushInterval: time.Second}, testDeps(vfs.OS()))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.Recover(Recovery{}); err != nil {
		b.Fatal(err)
	}
	l.Start()
	defer l.Close()
	var seq Sequence
	r := request(&seq, 1, 1024-overhead)
	for range 100_000 {
		if err := l.Append(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(1024)
	s := l.Scan(l.Range())
	for b.Loop() {
		if _, _, _, err := s.Next(); err != nil {
			s.Reset(l.Range())
		}
	}
}
