package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicName = "LOAD"
	patience  = 30 * time.Second // for one administrative request
)

// createTopic makes sure that the topic exists. With fresh, what it held
// before is dropped. flushMessages is the topic's flush.messages: 1 syncs
// every append, 0 leaves syncing to the operating system (Kafka's default).
func createTopic(addr string, partitions, flushMessages int, fresh bool) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if fresh {
		if err := deleteTopics(ctx, cl, topicName); err != nil {
			return err
		}
		// The broker may serve the old topic for a while after it is deleted, and a client that is then told the
		// old topic's id fails.
		if err := waitForOffsets(ctx, addr, 1, kerr.UnknownTopicOrPartition); err != nil {
			return err
		}
	}
	configs := map[string]string{}
	if flushMessages > 0 {
		configs["flush.messages"] = strconv.Itoa(flushMessages)
	}
	for {
		err := createTopics(ctx, cl, []string{topicName}, partitions, configs)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists) && !fresh:
			return nil
		case errors.Is(err, kerr.TopicAlreadyExists) && ctx.Err() == nil:
			time.Sleep(10 * time.Millisecond) // the broker is still deleting the old one
		case err != nil:
			return err
		default:
			return waitForOffsets(ctx, addr, partitions, nil)
		}
	}
}

// waitForOffsets asks for the partitions' end offsets until the outcome is
// want. Partitions may be named in metadata before the broker serves them.
func waitForOffsets(ctx context.Context, addr string, partitions int, want error) error {
	for {
		_, err := endOffsets(ctx, addr, partitions)
		if errors.Is(err, want) {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func createTopics(ctx context.Context, cl kmsg.Requestor, names []string, partitions int, configs map[string]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 1
		for k, v := range configs {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = k, &v
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create %s: %w", t.Topic, err)
		}
	}
	return nil
}

func deleteTopics(ctx context.Context, cl kmsg.Requestor, names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	req.TopicNames = names
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete: %w", err)
		}
	}
	return nil
}
