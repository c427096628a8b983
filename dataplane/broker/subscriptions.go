package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

const subscriptionsFile = "sluice.subscriptions.json"

// maxRememberedBytes bounds what is remembered of one group; one that wants
// more waits for its heartbeats.
const maxRememberedBytes = 16 << 10

// subscriptions remembers what the members of groups want, over restarts and
// lost connections: clients of the remoting protocol say it in heartbeats, one
// in 30 s, and the pulls in between rely on it. The file is our own.
type subscriptions struct {
	changed chan struct{} // save now: the next heartbeat is far away

	mu     sync.Mutex                       // guards the rest
	groups map[string]map[string]remembered // by group and topic
	dirty  bool
}

// remembered is a subscription on disk.
type remembered struct {
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
	Version        int64  `json:"version"`
}

func loadSubscriptions(s Store) (*subscriptions, error) {
	out := &subscriptions{changed: make(chan struct{}, 1), groups: map[string]map[string]remembered{}}
	data, err := s.LoadConfig(subscriptionsFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &out.groups); err != nil {
		return nil, fmt.Errorf("%s: %w", subscriptionsFile, err)
	}
	return out, nil
}

// run saves the table whenever it changed, until ctx ends. What changes while
// it is written shares the next write.
func (s *subscriptions) run(ctx context.Context, b *Broker) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		if err := s.save(b.store); err != nil {
			b.log.Error("subscriptions were not saved", "err", err) // saveProgress tries again
		}
	}
}

// save writes the table if it changed.
func (s *subscriptions) save(to Store) error {
	s.mu.Lock()
	if !s.dirty {
		s.mu.Unlock()
		return nil
	}
	s.dirty = false
	data, err := json.Marshal(s.groups)
	s.mu.Unlock()
	if err == nil {
		err = to.SaveConfig(subscriptionsFile, data)
	}
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return fmt.Errorf("save %s: %w", subscriptionsFile, err)
	}
	return nil
}

// remember takes over what the members of a group want now.
func (s *subscriptions) remember(group string, subs map[string]Subscription) {
	bytes := 0
	for topic, sub := range subs {
		bytes += len(topic) + len(sub.Expression)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > maxRememberedBytes {
		s.forgetLocked(group)
		return
	}
	old := s.groups[group]
	same := len(old) == len(subs)
	for topic, sub := range subs {
		same = same && old[topic] == remembered{sub.Expression, sub.ExpressionType, sub.Version}
	}
	if same {
		return
	}
	table := make(map[string]remembered, len(subs))
	for topic, sub := range subs {
		table[topic] = remembered{sub.Expression, sub.ExpressionType, sub.Version}
	}
	s.groups[group], s.dirty = table, true
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *subscriptions) forget(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(group)
}

func (s *subscriptions) forgetLocked(group string) {
	if _, ok := s.groups[group]; ok {
		delete(s.groups, group)
		s.dirty = true
	}
}

func (s *subscriptions) get(group, topic string) (Subscription, bool) {
	s.mu.Lock()
	r, ok := s.groups[group][topic]
	s.mu.Unlock()
	if !ok {
		return Subscription{}, false
	}
	filter, err := ParseFilter(r.ExpressionType, r.Expression)
	if err != nil {
		return Subscription{}, false
	}
	return Subscription{Topic: topic, Expression: r.Expression, ExpressionType: r.ExpressionType, Version: r.Version, Filter: filter}, true
}
