package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// pullConfig is one pull run. Every reader has a cursor for each queue with one pull in flight, as a consumer has, and
// reads the whole topic. Duration 0: once from the first message to the last. Otherwise: over and over for that time.
type pullConfig struct {
	addr, topic, group     string
	queues, readers, conns int
	maxMsgs, maxBytes      int
	warmup, duration       time.Duration
	create                 bool
	cred                   credentials
}

type pullResult struct {
	Mode    string `json:"mode"`
	Target  string `json:"target"`
	Topic   string `json:"topic"`
	Readers int    `json:"readers"`
	Conns   int    `json:"conns"`
	MaxMsgs int    `json:"max_msgs"`
	interval
	Seconds   float64          `json:"seconds"`
	Messages  int64            `json:"messages"`
	PerSecond int64            `json:"msgs_per_s"`
	MBPerSec  float64          `json:"record_mb_per_s"`
	PerPull   float64          `json:"msgs_per_pull"`
	latencies                  // of one pull
	Codes     map[string]int64 `json:"reply_codes"` // pulls, warm-up included
}

// cursor is one reader's place in one queue.
type cursor struct {
	queue  int
	offset int64
	sent   time.Time
	done   bool
}

// puller is one connection and the cursors that use it; one goroutine reads a reply and sends the cursor's next pull.
type puller struct {
	cfg      *pullConfig
	conn     net.Conn
	w        *bufio.Writer
	cursors  []*cursor
	from, to time.Time
	messages int64
	bytes    int64
	pulls    int64
	codes    map[int]int64
	latency  histogram
	frame    []byte
}

func pull(cfg pullConfig) (*pullResult, error) {
	if cfg.create {
		a, err := dialAdmin(cfg.addr, cfg.cred)
		if err != nil {
			return nil, err
		}
		defer a.close()
		if err := a.createGroup(cfg.group); err != nil {
			return nil, err
		}
	}
	if cfg.duration == 0 {
		cfg.warmup = 0
	}
	from := time.Now().Add(cfg.warmup)
	to := from.Add(cfg.duration)
	pullers := make([]*puller, cfg.conns)
	for i := range pullers {
		conn, err := net.DialTimeout("tcp", cfg.addr, 3*time.Second)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		pullers[i] = &puller{cfg: &cfg, conn: conn, w: bufio.NewWriterSize(conn, 64<<10), from: from, to: to, codes: map[int]int64{}}
	}
	for i := range cfg.readers * cfg.queues {
		p := pullers[i%cfg.conns]
		p.cursors = append(p.cursors, &cursor{queue: i % cfg.queues})
	}
	var running sync.WaitGroup
	errs := make([]error, cfg.conns)
	for i, p := range pullers {
		running.Go(func() { errs[i] = p.run() })
	}
	time.Sleep(time.Until(from))
	start := time.Now()
	if cfg.duration > 0 {
		time.Sleep(time.Until(to))
	} else {
		running.Wait()
	}
	end := time.Now()
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return summarizePull(&cfg, pullers, start, end), nil
}

func summarizePull(cfg *pullConfig, pullers []*puller, start, end time.Time) *pullResult {
	res := &pullResult{
		Mode: "pull", Target: cfg.addr, Topic: cfg.topic, Readers: cfg.readers, Conns: cfg.conns, MaxMsgs: cfg.maxMsgs,
		Seconds: end.Sub(start).Seconds(), Codes: map[string]int64{}, interval: between(start, end),
	}
	var all histogram
	var bytes, pulls int64
	for _, p := range pullers {
		res.Messages += p.messages
		bytes += p.bytes
		pulls += p.pulls
		all.add(&p.latency)
		for c, n := range p.codes {
			res.Codes[strconv.Itoa(c)] += n
		}
	}
	res.PerSecond = int64(float64(res.Messages) / res.Seconds)
	res.MBPerSec = float64(int64(float64(bytes)/res.Seconds/1e4)) / 100
	if pulls > 0 {
		res.PerPull = float64(res.Messages*100/pulls) / 100
	}
	res.latencies = all.latencies()
	return res
}

func (p *puller) run() error {
	for i := range p.cursors {
		p.send(i)
	}
	r := bufio.NewReaderSize(p.conn, 256<<10)
	var buf []byte
	open := len(p.cursors)
	for open > 0 {
		if r.Buffered() == 0 {
			if err := p.w.Flush(); err != nil {
				return err
			}
		}
		p.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		rep, b, err := readReply(r, buf)
		if err != nil {
			return err
		}
		buf = b
		again, err := p.handle(rep)
		if err != nil {
			return err
		}
		if !again {
			open--
		}
	}
	return nil
}

// handle counts one reply and sends the cursor's next pull; it reports whether it did.
func (p *puller) handle(rep reply) (bool, error) {
	i := int(rep.opaque - firstOpaque)
	if i < 0 || i >= len(p.cursors) || p.cursors[i].done {
		return false, fmt.Errorf("reply to unknown request %d", rep.opaque)
	}
	c, now := p.cursors[i], time.Now()
	p.codes[rep.code]++
	next, ok := ext(rep.header, "nextBeginOffset")
	switch rep.code {
	case replySuccess:
		n, err := countRecords(rep.body, c.queue, c.offset)
		if err != nil {
			return false, err
		}
		if !ok || next != c.offset+n {
			return false, fmt.Errorf("next offset %d after %d messages from %d", next, n, c.offset)
		}
		if p.cfg.duration == 0 || now.After(p.from) && now.Before(p.to) {
			p.messages += n
			p.bytes += int64(len(rep.body))
			p.pulls++
			p.latency.record(now.Sub(c.sent))
		}
		c.offset = next
	case replyPullRetry:
		c.offset = next
	case replyPullNotFound:
		if p.cfg.duration == 0 {
			c.done = true
			return false, nil
		}
		c.offset = 0
	default:
		return false, fmt.Errorf("pull answered %s", rep.header)
	}
	if p.cfg.duration > 0 && now.After(p.to) {
		c.done = true
		return false, nil
	}
	p.send(i)
	return true, nil
}

// send asks for the messages at the cursor's offset, without waiting for new ones.
func (p *puller) send(i int) {
	c := p.cursors[i]
	const subscriptionInRequest = 4
	fields := map[string]string{
		"consumerGroup": p.cfg.group, "topic": p.cfg.topic, "queueId": strconv.Itoa(c.queue),
		"queueOffset": strconv.FormatInt(c.offset, 10), "maxMsgNums": strconv.Itoa(p.cfg.maxMsgs),
		"maxMsgBytes": strconv.Itoa(p.cfg.maxBytes), "sysFlag": strconv.Itoa(subscriptionInRequest), "commitOffset": "0",
		"suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1", "expressionType": "TAG",
	}
	p.frame = appendFrame(p.frame[:0], codePull, firstOpaque+uint32(i), fields, nil, p.cfg.cred)
	p.w.Write(p.frame) // an error comes back from Flush
	c.sent = time.Now()
}

// countRecords walks the records of a pull reply and checks that they are those of the queue from the offset on.
//
//	4 bytes  size of the record        4 bytes  flag
//	4 bytes  magic                     8 bytes  offset in the queue
//	4 bytes  CRC of the body           …
//	4 bytes  queue
func countRecords(body []byte, queue int, offset int64) (n int64, err error) {
	for len(body) > 0 {
		if len(body) < 88 {
			return n, fmt.Errorf("record of %d bytes", len(body))
		}
		size := binary.BigEndian.Uint32(body)
		magic := binary.BigEndian.Uint32(body[4:])
		if size < 88 || int(size) > len(body) || magic != 0xDAA320A7 && magic != 0xDAA320AB {
			return n, fmt.Errorf("record of %d bytes with magic %x", size, magic)
		}
		if q, o := binary.BigEndian.Uint32(body[12:]), int64(binary.BigEndian.Uint64(body[20:])); int(q) != queue || o != offset+n {
			return n, fmt.Errorf("record of queue %d, offset %d in place of %d, %d", q, o, queue, offset+n)
		}
		n++
		body = body[size:]
	}
	return n, nil
}
