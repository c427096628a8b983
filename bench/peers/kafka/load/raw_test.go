package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRecordBatchDecodes(t *testing.T) {
	const messages, size = 3, 1024
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(recordBatch(messages, size)); err != nil {
		t.Fatal(err)
	}
	if batch.NumRecords != messages || batch.LastOffsetDelta != messages-1 {
		t.Errorf("batch of %d records, last offset %d", batch.NumRecords, batch.LastOffsetDelta)
	}
	rest := batch.Records
	for i := range messages {
		var r kmsg.Record
		if err := r.ReadFrom(rest); err != nil {
			t.Fatal(err)
		}
		if len(r.Value) != size || r.Key != nil || r.OffsetDelta != int32(i) {
			t.Errorf("record %d: value of %d bytes, key %q, offset %d", i, len(r.Value), r.Key, r.OffsetDelta)
		}
		rest = rest[len(r.AppendTo(nil)):]
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes after the last record", len(rest))
	}
}

func TestCountIgnoresACutBatch(t *testing.T) {
	whole := recordBatch(3, 10)
	var r reader
	r.count(append(append([]byte(nil), whole...), whole[:len(whole)-1]...))
	if r.messages.Load() != 3 || r.next != 3 || r.bytes.Load() != int64(len(whole)) {
		t.Errorf("counted %d messages and %d bytes, next offset %d", r.messages.Load(), r.bytes.Load(), r.next)
	}
}
