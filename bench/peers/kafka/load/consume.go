package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type consumeResult struct {
	Run string `json:"run"`
	target
	Fetch    int     `json:"fetch_bytes"`
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"msgs_per_s"`
	MiBPerS  float64 `json:"mib_per_s"`
	interval
}

// consume reads every partition from its beginning to the end it had when the
// run began, and again while there is time. A partition has one reader, without
// a group; connections beyond the partitions read them too.
func consume(args []string) (any, error) {
	r := consumeResult{Run: "consume"}
	fs := flag.NewFlagSet("consume", flag.ExitOnError)
	r.register(fs)
	fs.IntVar(&r.Fetch, "fetch", 1<<20, "most bytes per fetch and partition")
	warmup := fs.Duration("warmup", 2*time.Second, "time before counting starts")
	duration := fs.Duration("duration", 10*time.Second, "counted time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	read := map[string]func(context.Context, *consumeResult, *reader) error{"franz": readFranz, "raw": readRaw}[r.API]
	if read == nil {
		return nil, fmt.Errorf("unknown -api %q", r.API)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ends, err := endOffsets(ctx, r.Addr, r.Partitions)
	if err != nil {
		return nil, err
	}
	readers := make([]reader, r.Conns)
	var reading sync.WaitGroup
	var failures errorBox
	for i := range readers {
		readers[i].partition = int32(i % r.Partitions)
		readers[i].end = ends[readers[i].partition]
		reading.Go(func() {
			for ctx.Err() == nil {
				readers[i].next = 0
				if err := read(ctx, &r, &readers[i]); ctx.Err() == nil {
					failures.add(err)
				}
			}
		})
	}
	time.Sleep(*warmup)
	began, messages, bytes := time.Now(), int64(0), int64(0)
	for i := range readers {
		messages, bytes = messages-readers[i].messages.Load(), bytes-readers[i].bytes.Load()
	}
	time.Sleep(*duration)
	for i := range readers {
		messages, bytes = messages+readers[i].messages.Load(), bytes+readers[i].bytes.Load()
	}
	r.Seconds, r.interval = time.Since(began).Seconds(), since(began)
	cancel()
	reading.Wait()

	r.Messages = messages
	r.PerSec = round(float64(messages)/r.Seconds, 0)
	r.MiBPerS = round(float64(bytes)/r.Seconds/(1<<20), 1)
	r.Seconds = round(r.Seconds, 3)
	return r, failures.err()
}

// reader is how far one connection has read one partition.
type reader struct {
	partition       int32
	next, end       int64
	messages, bytes atomic.Int64
}

// endOffsets asks the broker itself, without a client's cached metadata: an
// answer means that it leads all the partitions.
func endOffsets(ctx context.Context, addr string, partitions int) ([]int64, error) {
	conn, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(listOffsetsVersion)
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topicName
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = int32(i), -1, -1 // the end
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, conn)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, partitions)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// readFranz reads with franz-go, which checks and decodes every message.
func readFranz(ctx context.Context, c *consumeResult, r *reader) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.Addr),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: {r.partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchMaxPartitionBytes(int32(c.Fetch)),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for r.next < r.end {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			r.next = rec.Offset + 1
			r.messages.Add(1)
			r.bytes.Add(int64(len(rec.Value)))
		})
	}
	return nil
}

// readRaw reads one fetch after the other and looks only at the batches'
// headers. Its bytes are the batches', headers included.
func readRaw(ctx context.Context, c *consumeResult, r *reader) error {
	conn, err := dialRaw(c.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 100, 1, int32(c.Fetch)
	req.SessionEpoch = -1 // no fetch session
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topicName
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = r.partition, int32(c.Fetch), -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	for r.next < r.end && ctx.Err() == nil {
		req.Topics[0].Partitions[0].FetchOffset = r.next
		resp, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		fetched := resp.(*kmsg.FetchResponse)
		if err := kerr.ErrorForCode(fetched.ErrorCode); err != nil {
			return err
		}
		for _, t := range fetched.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
				r.count(p.RecordBatches)
			}
		}
	}
	return nil
}

// count walks the complete batches of a fetch; the last may be cut short.
func (r *reader) count(batches []byte) {
	const header = 61
	be := binary.BigEndian
	for len(batches) >= header {
		size := 12 + int(be.Uint32(batches[8:]))
		if size > len(batches) {
			return
		}
		first, last := int64(be.Uint64(batches)), int64(be.Uint32(batches[23:]))
		r.next = first + last + 1
		r.messages.Add(int64(be.Uint32(batches[57:])))
		r.bytes.Add(int64(size))
		batches = batches[size:]
	}
}
