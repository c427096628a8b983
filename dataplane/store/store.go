// Package store is the message store of one broker: the facade over commit log
// and consume queues, with topic and group configuration.
package store

import (
	"context"

	"github.com/sluicemq/sluice/dataplane/message"
)

type readBuffers struct{}

// Release gives the memory of Records back; the batch must not be used again.
func (b *Batch) Release() {}

// Store is an open store folder.
type Store struct{}

// Open locks and recovers a store folder.
func Open(cfg Config, deps Deps) (*Store, error) { return nil, cfg.Validate() }

// Run does the background work until ctx ends.
func (s *Store) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Close flushes, dispatches everything and releases the folder.
func (s *Store) Close() error { return nil }

// Append stores one message.
func (s *Store) Append(ctx context.Context, m *message.Message, d Durability) (Appended, error) {
	return Appended{}, ErrClosed
}

// AppendBatch stores messages of one queue, all or none, with consecutive offsets.
func (s *Store) AppendBatch(ctx context.Context, ms []*message.Message, d Durability) ([]Appended, error) {
	return nil, ErrClosed
}

// Read returns records of a queue from offset on.
func (s *Store) Read(topic string, queueID int32, offset int64, o ReadOptions) (Batch, error) {
	return Batch{}, ErrClosed
}

// ReadAt returns a copy of the record that starts at physicalOffset, or ErrNotFound.
func (s *Store) ReadAt(physicalOffset int64) ([]byte, error) { return nil, ErrClosed }

// QueueOffsets returns the first readable offset of a queue and the one after its last message.
func (s *Store) QueueOffsets(topic string, queueID int32) (min, max int64) { return 0, 0 }

// OffsetByTime returns the queue offset for a time in ms.
func (s *Store) OffsetByTime(topic string, queueID int32, ms int64, b Boundary) (int64, error) {
	return 0, ErrClosed
}

// StoreTimeAt returns when the message at a queue offset was stored.
func (s *Store) StoreTimeAt(topic string, queueID int32, offset int64) (ms int64, ok bool) {
	return 0, false
}

// OnArrival sets the function that hears of readable messages; call it before Run.
func (s *Store) OnArrival(f func(Arrival)) {}

// CommitLogRange returns the first and the next offset of the commit log.
func (s *Store) CommitLogRange() (min, max int64) { return 0, 0 }

// Topic returns a topic's configuration.
func (s *Store) Topic(name string) (TopicConfig, bool) { return TopicConfig{}, false }

// Topics returns a copy of the topic table.
func (s *Store) Topics() map[string]TopicConfig { return nil }

// PutTopic creates or replaces a topic, durably.
func (s *Store) PutTopic(t TopicConfig) error { return ErrClosed }

// DeleteTopic removes a topic and its queues, durably.
func (s *Store) DeleteTopic(name string) error { return ErrClosed }

// TopicsVersion returns the version of the topic table.
func (s *Store) TopicsVersion() DataVersion { return DataVersion{} }

// Group returns a group's configuration.
func (s *Store) Group(name string) (GroupConfig, bool) { return GroupConfig{}, false }

// Groups returns a copy of the group table.
func (s *Store) Groups() map[string]GroupConfig { return nil }

// PutGroup creates or replaces a group, durably.
func (s *Store) PutGroup(g GroupConfig) error { return ErrClosed }

// DeleteGroup removes a group, durably.
func (s *Store) DeleteGroup(name string) error { return ErrClosed }

// GroupsVersion returns the version of the group table.
func (s *Store) GroupsVersion() DataVersion { return DataVersion{} }

// SaveConfig writes config/<name> atomically, keeping the previous one as <name>.bak.
func (s *Store) SaveConfig(name string, data []byte) error { return ErrClosed }

// LoadConfig reads config/<name>, or its .bak when it is damaged.
func (s *Store) LoadConfig(name string) ([]byte, error) { return nil, ErrClosed }
