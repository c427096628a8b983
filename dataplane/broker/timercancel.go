package broker

import (
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// A cancellation is a parked message itself, with the time of the one that it
// takes back, so that RocketMQ finds both in the same slot. Here all of them are
// in memory from the moment that they are taken in until a window behind their
// time: a message that is written again on its long way is then found, too,
// wherever its cancellation is just now.

// cancelKey stands for a message of a topic.
type cancelKey [16]byte

func makeCancelKey(topic, unique []byte) cancelKey {
	h := sha256.New()
	h.Write(topic)
	h.Write([]byte{'+'})
	h.Write(unique)
	return cancelKey(h.Sum(nil)[:16])
}

// loadCancels reads which messages the cancellations at places take back.
func (t *timers) loadCancels(places []store.Place) error {
	for part := range slices.Chunk(places, 256) {
		batch, err := t.b.store.ReadPlaces(part)
		if err != nil {
			return err
		}
		n := len(batch.Records)
		for _, rec := range batch.Records {
			t.cancelBy(rec)
		}
		batch.Release()
		if n == len(part) {
			continue
		}
		for _, p := range part {
			rec, err := t.b.store.ReadAt(p.Offset)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			t.cancelBy(rec)
		}
	}
	return nil
}

// cancelBy takes in a cancellation. It is for a message of the topic that it was
// sent to itself, whatever topic it names: who may send there may take back.
func (t *timers) cancelBy(rec []byte) {
	f, err := message.Parse(rec)
	if err != nil || string(f.Topic) != TimerTopic {
		return
	}
	topic, _ := message.FindProperty(f.Properties, message.KeyRealTopic)
	unique, isCancel := message.FindProperty(f.Properties, message.KeyTimerDeleteKey)
	out, ok := timeProperty(f.Properties, message.KeyTimerOutMs)
	if isCancel && ok {
		t.cancels[makeCancelKey(topic, uniqueOf(string(topic), unique))] = out
	}
}

// uniqueOf is the unique key in a value of TIMER_DEL_UNIQKEY: "<topic>+<key>",
// or the key alone.
func uniqueOf(topic string, value []byte) []byte {
	if n := len(topic); len(value) > n+1 && string(value[:n]) == topic && value[n] == '+' {
		return value[n+1:]
	}
	return value
}

// isCancelled tells whether a message was taken back.
func (t *timers) isCancelled(topic string, props []byte) bool {
	if len(t.cancels) == 0 {
		return false
	}
	unique, ok := message.FindProperty(props, message.KeyUniqueKey)
	if !ok {
		return false
	}
	_, ok = t.cancels[makeCancelKey([]byte(topic), unique)]
	return ok
}

// forgetCancels drops cancellations whose messages are no more.
func (t *timers) forgetCancels() {
	for key, out := range t.cancels {
		if out < t.read-t.window*timerStep-readPeriod {
			delete(t.cancels, key)
		}
	}
}
