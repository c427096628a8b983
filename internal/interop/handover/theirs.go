package handover

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// peer is the real RocketMQ broker.
type peer struct {
	kit, run, folder string
	namesrv, broker  int
	env              []string
}

// newPeer fetches RocketMQ's jars if they are not there yet.
func newPeer(ctx context.Context, kit, run, folder string) (*peer, error) {
	home, err := filepath.Abs(".cache/peers/rocketmq")
	if err != nil {
		return nil, err
	}
	p := &peer{kit: kit, run: run, folder: folder, env: []string{"PEER_HOME=" + home}}
	if err := p.script(ctx, "setup.sh"); err != nil {
		return nil, err
	}
	// The broker takes the two ports around its own, too.
	for _, port := range []*int{&p.namesrv, &p.broker} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*port = ln.Addr().(*net.TCPAddr).Port
		if err := ln.Close(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *peer) script(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.kit, name), args...)
	cmd.Env = append(cmd.Environ(), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (p *peer) start(ctx context.Context) error {
	args := []string{"--run", p.run, "--store", p.folder, "--namesrv-port", strconv.Itoa(p.namesrv), "--broker-port", strconv.Itoa(p.broker),
		"--commitlog", strconv.Itoa(segmentBytes), "--heap", "512m", "--namesrv-heap", "128m"}
	for _, set := range []string{
		"mappedFileSizeConsumeQueue=" + strconv.Itoa(queueBytes), "maxHashSlotNum=" + strconv.Itoa(indexSlots), "maxIndexNum=" + strconv.Itoa(indexEntries),
		"mappedFileSizeTimerLog=65536", "diskMaxUsedSpaceRatio=95", "transactionCheckInterval=3600000",
	} {
		args = append(args, "--set", set)
	}
	return p.script(ctx, "start.sh", args...)
}

func (p *peer) stop(signal string) {
	// The processes are ours, by pid file; when there is none left that is fine.
	_ = p.script(context.Background(), "stop.sh", "--run", p.run, "--signal", signal)
}

// lastWords is the end of the broker's log, for people.
func (p *peer) lastWords() string {
	return tail(filepath.Join(p.run, "broker.out")) + tail(filepath.Join(p.run, "logs", "rocketmqlogs", "broker.log")) + tail(filepath.Join(p.run, "logs", "rocketmqlogs", "store.log"))
}

// theirs starts RocketMQ on the folder, reads everything from it, sends messages
// to it and ends it.
func (l *ledger) theirs(ctx context.Context, p *peer, round int, end string) (served, appended int, err error) {
	if err := p.start(ctx); err != nil {
		return 0, 0, err
	}
	defer p.stop("KILL")
	client, err := remoting.NewClient(remoting.ClientOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	c := &caller{client: client, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.broker))}
	for _, q := range l.queues() {
		n, err := l.pullAll(ctx, c, q)
		if err != nil {
			return 0, 0, err
		}
		served += n
	}
	if want := len(l.records) + len(l.bodies); served != want {
		return 0, 0, fmt.Errorf("served %d messages, want %d", served, want)
	}
	if err := l.queryAll(ctx, c); err != nil {
		return 0, 0, err
	}
	if appended, err = l.sendAll(ctx, c, round); err != nil {
		return 0, 0, err
	}
	p.stop(end)
	return served, appended, nil
}

// caller makes requests of the broker.
type caller struct {
	client *remoting.Client
	addr   string
}

// call sends a request and returns the answer, which has one of the codes.
func (c *caller) call(ctx context.Context, code int32, fields wire.Fields, body []byte, want ...int32) (*wire.Frame, error) {
	f := wire.Request(code, body)
	f.Ext = fields
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := c.client.Invoke(ctx, c.addr, f)
	if err != nil {
		return nil, err
	}
	for _, w := range want {
		if resp.Code == w {
			return resp, nil
		}
	}
	return nil, fmt.Errorf("request code %d: code %d %s", code, resp.Code, resp.Remark)
}

// pullAll reads a queue from its begin up to what is known of it.
func (l *ledger) pullAll(ctx context.Context, c *caller, q place) (n int, err error) {
	for offset := int64(0); offset < q.offset; {
		h := wire.PullHeader{
			ConsumerGroup: "handover", Topic: q.topic, QueueID: q.queue, QueueOffset: offset, MaxMessages: 32,
			SysFlag: wire.PullFlagSubscription, Subscription: "*", ExpressionType: "TAG",
		}
		resp, err := c.call(ctx, wire.PullMessage, h.Fields(), nil, wire.Success)
		if err != nil {
			return n, fmt.Errorf("%s queue %d offset %d: %w", q.topic, q.queue, offset, err)
		}
		for body := resp.Body; len(body) > 0; {
			size, _, ok := message.Head(body)
			if !ok || int(size) > len(body) {
				return n, fmt.Errorf("%s queue %d offset %d: the answer is not a row of records", q.topic, q.queue, offset)
			}
			m, err := message.Decode(body[:size])
			if err != nil {
				return n, err
			}
			at := place{q.topic, q.queue, m.QueueOffset}
			if at.offset < q.offset {
				n++
			}
			if err := l.check(at, body[:size], string(m.Body)); err != nil {
				return n, err
			}
			body = body[size:]
			offset = m.QueueOffset + 1
		}
	}
	return n, nil
}

// queryAll asks for messages by key.
func (l *ledger) queryAll(ctx context.Context, c *caller) error {
	for name, body := range l.keys {
		topic, key, _ := strings.Cut(name, "#")
		var f wire.Fields
		f.Add("topic", topic)
		f.Add("key", key)
		f.Add("maxNum", "32")
		f.Add("beginTimestamp", "0")
		f.AddInt("endTimestamp", time.Now().Add(time.Hour).UnixMilli())
		resp, err := c.call(ctx, wire.QueryMessage, f, nil, wire.Success)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		found := 0
		for rest := resp.Body; len(rest) > 0; {
			size, _, ok := message.Head(rest)
			if !ok || int(size) > len(rest) {
				return fmt.Errorf("key %s: the answer is not a row of records", key)
			}
			if m, err := message.Decode(rest[:size]); err != nil {
				return err
			} else if string(m.Body) == body {
				found++
			}
			rest = rest[size:]
		}
		if found != 1 {
			return fmt.Errorf("key %s: found %d times", key, found)
		}
	}
	return nil
}

// sendAll sends single messages and a batch, and takes down where they went.
func (l *ledger) sendAll(ctx context.Context, c *caller, round int) (int, error) {
	n := 0
	send := func(code int32, queue int32, props string, body []byte, bodies ...string) error {
		h := wire.SendHeader{
			ProducerGroup: "handover", Topic: plainTopic, DefaultTopic: "TBW102", DefaultTopicQueueNums: queues, QueueID: queue,
			BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1, Properties: props, Batch: code == wire.SendBatchMessage,
		}
		resp, err := c.call(ctx, code, h.Fields(code), body, wire.Success)
		if err != nil {
			return err
		}
		r := wire.ReadFields(resp.Ext)
		at := place{plainTopic, r.Int32("queueId"), r.Int64("queueOffset")}
		if r.Err() != nil {
			return r.Err()
		}
		for _, b := range bodies {
			l.bodies[at] = b
			at.offset++
			n++
		}
		return nil
	}
	for i := range int32(60) {
		body := fmt.Sprintf("theirs %d of round %d", i, round)
		key := fmt.Sprintf("t-%d-%d", round, i)
		props := string(message.AppendProperty(nil, message.KeyKeys, key))
		if err := send(wire.SendMessageV2, i%queues, props, []byte(body), body); err != nil {
			return n, err
		}
		if i%20 == 0 {
			l.keys[plainTopic+"#"+key] = body
		}
	}
	var batch []byte
	var bodies []string
	for i := range 7 {
		b := fmt.Sprintf("their batch %d of round %d", i, round)
		var err error
		if batch, err = message.AppendBatchEntry(batch, message.BatchEntry{Body: []byte(b), Properties: []byte("A\x01b\x02")}); err != nil {
			return n, err
		}
		bodies = append(bodies, b)
	}
	if err := send(wire.SendBatchMessage, 2, "", batch, bodies...); err != nil {
		return n, err
	}
	for range 6 { // over the end of a commit log file
		body := strings.Repeat("b", 200<<10)
		if err := send(wire.SendMessageV2, 3, "", []byte(body), body); err != nil {
			return n, err
		}
	}
	return n, nil
}
