package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Statements 9, 12, 20 and 32: what a store is made with unless it is told
// otherwise is what RocketMQ's brokers expect to find.
func TestDefaultConfig_sizesOfRocketMQ(t *testing.T) {
	c := DefaultConfig()
	if c.SegmentBytes != 1<<30 || c.QueueSegmentBytes != 6_000_000 || c.IndexSlots != 5_000_000 || c.IndexEntries != 20_000_000 || c.MaxMessageBytes != 4_194_304 {
		t.Errorf("%+v", c)
	}
}

// Statement 9.
func TestAppend_largestBody(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes, cfg.MaxMessageBytes = 16<<20, DefaultConfig().MaxMessageBytes
	h := start(t, cfg, Deps{})
	m := msg("T", 0, "x")
	m.Body = make([]byte, 4_194_304)
	h.append(m)
	m.Body = make([]byte, 4_194_305)
	if _, err := h.Append(t.Context(), m, DurabilityDefault); !errors.Is(err, ErrMessageTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// Statement 7: what is prepared or rolled back has no place in the queue; what
// comes after it takes the next one.
func TestAppend_halfMessagesHaveNoQueueOffset(t *testing.T) {
	h := start(t, testConfig(), Deps{})
	h.append(msg("T", 0, "a"))
	for _, kind := range []int32{message.SysFlagPrepared, message.SysFlagRollback} {
		m := msg("T", 0, "half")
		m.SysFlag = kind
		a := h.append(m)
		rec, err := h.ReadAt(a.PhysicalOffset)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := message.Parse(rec); err != nil || f.QueueOffset != 0 || a.QueueOffset != 0 {
			t.Errorf("kind %d: queue offset %d in the record, %d answered, %v", kind, f.QueueOffset, a.QueueOffset, err)
		}
	}
	if a := h.append(msg("T", 0, "b")); a.QueueOffset != 1 {
		t.Errorf("the next message has queue offset %d", a.QueueOffset)
	}
}

// Statement 23: the third level is ten seconds.
func TestTagsCode_ofDelayedMessages(t *testing.T) {
	h := start(t, testConfig(), Deps{Now: newClock().Now})
	m := msg(message.ScheduleTopic, 2, "d")
	m.Properties = message.AppendProperty(m.Properties, message.KeyDelay, "3")
	a := h.append(m)
	h.await(message.ScheduleTopic, 2, 1)
	u, ok, err := h.findQueue(message.ScheduleTopic, 2).log.At(0)
	if err != nil || !ok || u.TagsCode != a.StoreTimestamp+10_000 {
		t.Errorf("unit %+v %v %v, stored at %d", u, ok, err, a.StoreTimestamp)
	}
}

// Statement 38: five numbers in their order in a file of 4096 bytes; ours and
// its checksum are behind them.
func TestCheckpoint_bytes(t *testing.T) {
	mem := vfs.NewMem(nil)
	if err := mem.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	var c checkpoint
	if err := c.load(mem, "/store/checkpoint"); err != nil {
		t.Fatal(err)
	}
	if err := c.update(func(v *checkpointValues) { *v = checkpointValues{1, 2, 3, 4, 5, 6, 7} }); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(mem, "/store/checkpoint")
	if err != nil || len(b) != 4096 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	for i := range 4096 / 8 {
		want := uint64(i + 1)
		switch {
		case i == 7:
			want = uint64(crc32.ChecksumIEEE(b[40:56])) << 32
		case i > 7:
			want = 0
		}
		if got := binary.BigEndian.Uint64(b[8*i:]); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
	if err := c.file.Close(); err != nil {
		t.Fatal(err)
	}
}
