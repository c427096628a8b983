package main

import (
	"fmt"
	"time"
)

type readyResult struct {
	Mode     string `json:"mode"`
	Target   string `json:"target"`
	Millis   int64  `json:"ms"`
	Attempts int    `json:"attempts"`
}

// ready tries to send a message every five milliseconds until one is acknowledged.
func ready(addr, topic string, queues int, since int64, timeout time.Duration, create bool, cred credentials) (*readyResult, error) {
	start := time.Now()
	if since > 0 {
		start = time.UnixMilli(since)
	}
	var last error
	for n, deadline := 1, time.Now().Add(timeout); time.Now().Before(deadline); n++ {
		if last = tryOnce(addr, topic, queues, create, cred); last == nil {
			return &readyResult{Mode: "ready", Target: addr, Millis: time.Since(start).Milliseconds(), Attempts: n}, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, fmt.Errorf("not ready: %w", last)
}

func tryOnce(addr, topic string, queues int, create bool, cred credentials) error {
	a, err := dialAdmin(addr, cred)
	if err != nil {
		return err
	}
	defer a.close()
	rep, err := a.sendOne(topic)
	if err == nil && create && rep.code == replyTopicNotExist {
		if err = a.createTopic(topic, queues); err == nil {
			rep, err = a.sendOne(topic)
		}
	}
	if err == nil && rep.code != replySuccess {
		err = fmt.Errorf("send answered %s", rep.header)
	}
	return err
}
