package broker

import (
	"context"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/store"
)

// maxQueues is the most queues that a topic may have.
const maxQueues = 1024

// PutTopic creates or changes a topic; it is durable and announced to the name
// servers when the call returns.
func (b *Broker) PutTopic(ctx context.Context, t store.TopicConfig) error {
	if err := store.ValidName(t.TopicName); err != nil {
		return fromStore(err)
	}
	if t.ReadQueueNums < 1 || t.WriteQueueNums < 1 || t.ReadQueueNums > maxQueues || t.WriteQueueNums > maxQueues {
		return &Error{Code: CodeInvalidParameter, Text: "a topic has 1 to 1024 queues", Topic: t.TopicName, Limit: strconv.Itoa(maxQueues)}
	}
	if systemTopic(t.TopicName) {
		return &Error{Code: CodeInvalidParameter, Text: "the topic belongs to the broker", Topic: t.TopicName}
	}
	if err := b.store.PutTopic(t); err != nil {
		return fromStore(err)
	}
	b.register.announce(ctx, t.TopicName)
	return nil
}

// DeleteTopic removes a topic with its queues and all progress in it. Deleting
// what is not there is no error. After an error the topic may be gone, with files
// of its queues left: Topic tells, and deleting it again finishes the work.
func (b *Broker) DeleteTopic(ctx context.Context, topic string) error {
	if err := store.ValidName(topic); err != nil {
		return fromStore(err)
	}
	if systemTopic(topic) {
		return &Error{Code: CodeInvalidParameter, Text: "the topic belongs to the broker", Topic: topic}
	}
	// Also when it is not known: what an attempt that failed has left goes now.
	err := b.store.DeleteTopic(topic)
	if _, still := b.store.Topic(topic); still {
		return fromStore(err)
	}
	b.offsets.drop(func(k groupTopic) bool { return k.topic != topic })
	b.receives.drop(func(k groupTopic) bool { return k.topic != topic })
	b.register.changed()
	return fromStore(err)
}

// PutGroup creates or changes a consumer group with its retry topic.
func (b *Broker) PutGroup(ctx context.Context, g store.GroupConfig) error {
	if err := store.ValidName(g.GroupName); err != nil {
		return fromStore(err)
	}
	if strings.Contains(g.GroupName, "@") {
		return fail(CodeInvalidParameter, "a group name cannot hold '@'")
	}
	if err := b.store.PutGroup(g); err != nil {
		return fromStore(err)
	}
	return b.ensureGroupTopic(ctx, RetryTopic(g.GroupName), max(g.RetryQueueNums, 1))
}

// DeleteGroup removes a group with its retry topic, locks and members' state;
// its offsets too if asked. Dead letters stay until their topic is deleted.
func (b *Broker) DeleteGroup(ctx context.Context, group string, cleanOffsets bool) error {
	if err := store.ValidName(group); err != nil {
		return fromStore(err)
	}
	if err := b.store.DeleteGroup(group); err != nil {
		return fromStore(err)
	}
	if cleanOffsets {
		b.offsets.drop(func(k groupTopic) bool { return k.group != group })
	}
	b.receives.drop(func(k groupTopic) bool { return k.group != group })
	b.locks.dropGroup(group)
	b.subscriptions.forget(group)
	return b.DeleteTopic(ctx, RetryTopic(group))
}

// Topic returns a topic's configuration.
func (b *Broker) Topic(name string) (store.TopicConfig, bool) { return b.store.Topic(name) }

// Topics returns a copy of the topic table with its version.
func (b *Broker) Topics() (map[string]store.TopicConfig, store.DataVersion) {
	return b.store.Topics(), b.store.TopicsVersion()
}

// Group returns a group's configuration.
func (b *Broker) Group(name string) (store.GroupConfig, bool) { return b.store.Group(name) }

// Groups returns a copy of the group table with its version.
func (b *Broker) Groups() (map[string]store.GroupConfig, store.DataVersion) {
	return b.store.Groups(), b.store.GroupsVersion()
}

// systemTopic reports whether the broker itself uses a topic.
func systemTopic(name string) bool {
	return name == ScheduleTopic || strings.HasPrefix(name, "rmq_sys_") || strings.HasPrefix(name, "RMQ_SYS_")
}
