package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"sync/atomic"
)

const (
	topicsFile  = "topics.json"
	groupsFile  = "subscriptionGroup.json"
	deletedFile = "sluice.deletedTopics.json"
)

// tableState is one version of a table; it is never changed.
type tableState[T any] struct {
	rows    map[string]T
	version DataVersion
	extra   json.RawMessage // member of the file that we only keep
}

// table is a configuration table with its file. Reads take no lock.
type table[T any] struct {
	state  atomic.Pointer[tableState[T]]
	save   func(*tableState[T]) error
	now    func() int64
	saveMu sync.Mutex // held while a new version is written

	mu      sync.Mutex
	pending []*rowChange[T]
}

type rowChange[T any] struct {
	name string
	row  *T // nil removes
	done bool
	err  error
}

// change puts or removes a row, durably. Changes that come while one is being
// written share the next write. After an error nothing has changed.
func (t *table[T]) change(name string, row *T) error {
	c := &rowChange[T]{name: name, row: row}
	t.mu.Lock()
	t.pending = append(t.pending, c)
	t.mu.Unlock()
	t.saveMu.Lock()
	defer t.saveMu.Unlock()
	if c.done {
		return c.err
	}
	t.mu.Lock()
	changes := t.pending
	t.pending = nil
	t.mu.Unlock()
	old := t.state.Load()
	next := &tableState[T]{rows: maps.Clone(old.rows), version: old.version, extra: old.extra}
	next.version.Counter++
	next.version.Timestamp = t.now()
	for _, c := range changes {
		if c.row == nil {
			delete(next.rows, c.name)
		} else {
			next.rows[c.name] = *c.row
		}
	}
	err := t.save(next)
	if err == nil {
		t.state.Store(next)
	}
	for _, c := range changes {
		c.done, c.err = true, err
	}
	return err
}

func (t *table[T]) get(name string) (T, bool) {
	row, ok := t.state.Load().rows[name]
	return row, ok
}

type topicsJSON struct {
	DataVersion      DataVersion            `json:"dataVersion"`
	TopicConfigTable map[string]TopicConfig `json:"topicConfigTable"`
}

type groupsJSON struct {
	DataVersion            DataVersion            `json:"dataVersion"`
	ForbiddenTable         json.RawMessage        `json:"forbiddenTable"`
	SubscriptionGroupTable map[string]GroupConfig `json:"subscriptionGroupTable"`
}

// loadTables reads the topic and group tables; missing files are empty tables.
func (s *Store) loadTables() error {
	now := func() int64 { return s.now().UnixMilli() }
	var topics topicsJSON
	if err := s.loadTable(topicsFile, &topics); err != nil {
		return err
	}
	for name, c := range topics.TopicConfigTable {
		if c.TopicName == "" {
			c.TopicName = name
		}
		if c.Attributes == nil {
			c.Attributes = map[string]string{}
		}
		topics.TopicConfigTable[name] = c
	}
	s.topics = &table[TopicConfig]{now: now, save: func(t *tableState[TopicConfig]) error {
		return s.saveTable(topicsFile, topicsJSON{t.version, t.rows})
	}}
	s.topics.state.Store(&tableState[TopicConfig]{rows: notNil(topics.TopicConfigTable), version: topics.DataVersion})
	s.findBatchCQ()

	var groups groupsJSON
	if err := s.loadTable(groupsFile, &groups); err != nil {
		return err
	}
	for name, g := range groups.SubscriptionGroupTable {
		if g.GroupName == "" {
			g.GroupName = name
		}
		if g.Attributes == nil {
			g.Attributes = map[string]string{}
		}
		groups.SubscriptionGroupTable[name] = g
	}
	if groups.ForbiddenTable == nil {
		groups.ForbiddenTable = json.RawMessage("{}")
	}
	s.groups = &table[GroupConfig]{now: now, save: func(t *tableState[GroupConfig]) error {
		return s.saveTable(groupsFile, groupsJSON{t.version, t.extra, t.rows})
	}}
	s.groups.state.Store(&tableState[GroupConfig]{
		rows: notNil(groups.SubscriptionGroupTable), version: groups.DataVersion, extra: groups.ForbiddenTable,
	})

	deleted := map[string]int64{}
	if err := s.loadTable(deletedFile, &deleted); err != nil {
		return err
	}
	s.deleted.save = func(m map[string]int64) error { return s.saveTable(deletedFile, m) }
	s.deleted.file = maps.Clone(notNil(deleted))
	s.deleted.m.Store(&deleted)
	return nil
}

func notNil[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

func (s *Store) loadTable(name string, into any) error {
	data, err := s.LoadConfig(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

func (s *Store) saveTable(name string, from any) error {
	data, err := json.MarshalIndent(from, "", "\t")
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return s.SaveConfig(name, data)
}

// findBatchCQ remembers which topics have batch consume queues.
func (s *Store) findBatchCQ() {
	set := map[string]bool{}
	for name, c := range s.topics.state.Load().rows {
		if c.Attributes[AttributeQueueType] == "BatchCQ" {
			set[name] = true
		}
	}
	s.batchCQ.Store(&set)
}

// Topic returns a topic's configuration. Its attributes must not be changed.
func (s *Store) Topic(name string) (TopicConfig, bool) { return s.topics.get(name) }

// Topics returns a copy of the topic table; attributes must not be changed.
func (s *Store) Topics() map[string]TopicConfig { return maps.Clone(s.topics.state.Load().rows) }

// TopicsVersion returns the version of the topic table.
func (s *Store) TopicsVersion() DataVersion { return s.topics.state.Load().version }

// PutTopic creates or replaces a topic. It is durable when nil is returned;
// after an error nothing has changed. ErrName for names that cannot be folders.
func (s *Store) PutTopic(c TopicConfig) error {
	if err := s.usable(c.TopicName); err != nil {
		return fmt.Errorf("topic %w", err)
	}
	if c.Attributes = maps.Clone(c.Attributes); c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	err := s.topics.change(c.TopicName, &c)
	s.findBatchCQ()
	return err
}

// Group returns a group's configuration. Its attributes must not be changed.
func (s *Store) Group(name string) (GroupConfig, bool) { return s.groups.get(name) }

// Groups returns a copy of the group table; attributes must not be changed.
func (s *Store) Groups() map[string]GroupConfig { return maps.Clone(s.groups.state.Load().rows) }

// GroupsVersion returns the version of the group table.
func (s *Store) GroupsVersion() DataVersion { return s.groups.state.Load().version }

// PutGroup creates or replaces a consumer group; see PutTopic.
func (s *Store) PutGroup(g GroupConfig) error {
	if err := s.usable(g.GroupName); err != nil {
		return fmt.Errorf("group %w", err)
	}
	if g.Attributes = maps.Clone(g.Attributes); g.Attributes == nil {
		g.Attributes = map[string]string{}
	}
	return s.groups.change(g.GroupName, &g)
}

// DeleteGroup removes a consumer group, durably. Deleting what is not there is
// no error.
func (s *Store) DeleteGroup(name string) error {
	if err := s.usable(name); err != nil {
		return fmt.Errorf("group %w", err)
	}
	return s.groups.change(name, nil)
}

func (s *Store) usable(name string) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return ValidName(name)
}
