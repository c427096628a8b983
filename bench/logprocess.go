package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

const processTopic = "bench"

// logProcess appends to a store and reads from it without a network between.
func logProcess(ctx context.Context, w *workplace) (_ []figure, err error) {
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.StoreHost = filepath.Join(w.dir, "process"), netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(cfg, store.Deps{})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, s.Close())
	}()
	if err := s.PutTopic(store.DefaultTopicConfig(processTopic)); err != nil {
		return nil, err
	}
	var failed error
	appends := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(64)
		b.RunParallel(func(p *testing.PB) {
			m := processMessage()
			for p.Next() {
				if _, err := s.Append(ctx, m, store.DurabilityAsync); err != nil {
					failed = err
					return
				}
			}
		})
	})
	for {
		if _, end := s.CommitLogRange(); s.Dispatched() >= end {
			break
		}
		time.Sleep(time.Millisecond)
	}
	_, most := s.QueueOffsets(processTopic, 0)
	reads := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		at := int64(0)
		for n := 0; n < b.N; { // one iteration is one message
			batch, err := s.Read(processTopic, 0, at, store.ReadOptions{MaxMessages: 32})
			if err != nil || len(batch.Records) == 0 {
				failed = errors.Join(err, errors.New("nothing was read"))
				return
			}
			n += len(batch.Records)
			if at = batch.Next; at >= most {
				at = 0
			}
			batch.Release()
		}
	})
	return []figure{
		{Row: "log-process append, allocations a message", Ours: float64(appends.AllocsPerOp()), Unit: "", Goal: 0, Note: "128 goroutines, dispatch and index beside it"},
		{Row: "log-process pull, allocations a message", Ours: float64(reads.AllocsPerOp()), Unit: "", Goal: 0},
		{Row: "log-process append 1 KiB", Ours: float64(appends.NsPerOp()), Unit: "ns", Open: true},
		{Row: "log-process pull 1 KiB, 32 at a time", Ours: float64(reads.NsPerOp()), Unit: "ns", Open: true},
	}, failed
}

// processMessage is what a producer sends: a body of 1 KiB and a unique key.
func processMessage() *message.Message {
	born := netip.MustParseAddrPort("127.0.0.1:50000")
	return &message.Message{Topic: processTopic, Body: bytes.Repeat([]byte("b"), 1024), BornHost: born, BornTimestamp: time.Now().UnixMilli(),
		Properties: message.AppendProperty(nil, message.KeyUniqueKey, "0A0B0C0D0E0F00010203040506070809")}
}
