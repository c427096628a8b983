package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// produceConfig is one produce run. Rate 0 is a closed loop: every connection keeps window requests in flight. With a
// rate it is an open loop: messages are due at fixed times whatever the server does, and latency counts from those.
type produceConfig struct {
	addr, topic         string
	queues, size, batch int
	conns, window, rate int
	warmup, duration    time.Duration
	create              bool
	cred                credentials
	drainTimeout        time.Duration
}

type produceResult struct {
	Mode   string `json:"mode"`
	Target string `json:"target"`
	Topic  string `json:"topic"`
	Size   int    `json:"size"`
	Batch  int    `json:"batch"`
	Conns  int    `json:"conns"`
	Window int    `json:"window"`
	Rate   int    `json:"rate"`
	interval
	Seconds    float64          `json:"seconds"`
	Acked      int64            `json:"acked"`
	PerSecond  int64            `json:"msgs_per_s"`
	MBPerSec   float64          `json:"body_mb_per_s"`
	latencies                   // from a request's write, or from its due time with a rate, to its reply
	Slowest    int64            `json:"slowest_second"`
	Codes      map[string]int64 `json:"reply_codes"` // requests, warm-up included
	Unanswered int64            `json:"unanswered"`
	AckedAll   int64            `json:"acked_with_warmup"`
	Stored     int64            `json:"stored_with_warmup"`
}

// sender is one connection with its requests in flight. The write side owns the free slots it takes, the read side
// those it gives back; a slot's fields pass from one to the other with its request and reply.
type sender struct {
	cfg       *produceConfig
	conn      net.Conn
	slots     []slot
	free      chan int
	stop      *atomic.Bool
	from, to  time.Time
	latency   histogram
	codes     map[int]int64
	acked     int64
	ackedAll  int64
	perSecond []int64
	inFlight  atomic.Int64
	done      chan error
}

type slot struct {
	opaque uint32
	start  time.Time
}

func produce(cfg produceConfig) (*produceResult, error) {
	a, err := dialAdmin(cfg.addr, cfg.cred)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if cfg.create {
		if err := a.createTopic(cfg.topic, cfg.queues); err != nil {
			return nil, err
		}
	}
	before, err := a.stored(cfg.topic, cfg.queues)
	if err != nil {
		return nil, err
	}

	var stop atomic.Bool
	from := time.Now().Add(cfg.warmup)
	to := from.Add(cfg.duration)
	senders := make([]*sender, cfg.conns)
	for i := range senders {
		if senders[i], err = newSender(&cfg, from, to, &stop); err != nil {
			return nil, err
		}
		defer senders[i].conn.Close()
	}
	var writers sync.WaitGroup
	writeErrs := make(chan error, cfg.conns)
	for i, s := range senders {
		go s.read()
		writers.Go(func() { writeErrs <- s.write(i) })
	}
	time.Sleep(time.Until(from))
	time.Sleep(time.Until(to))
	stop.Store(true)
	writers.Wait()
	for range cfg.conns {
		if err := <-writeErrs; err != nil {
			return nil, err
		}
	}
	return summarize(&cfg, senders, a, before)
}

func newSender(cfg *produceConfig, from, to time.Time, stop *atomic.Bool) (*sender, error) {
	conn, err := net.DialTimeout("tcp", cfg.addr, 3*time.Second)
	if err != nil {
		return nil, err
	}
	s := &sender{
		cfg: cfg, conn: conn, slots: make([]slot, cfg.window), free: make(chan int, cfg.window), stop: stop,
		from: from, to: to, codes: map[int]int64{}, perSecond: make([]int64, int(cfg.duration/time.Second)+1),
		done: make(chan error, 1),
	}
	for i := range cfg.window {
		s.free <- i
	}
	return s, nil
}

// write sends until the run stops. Requests gather in a buffer while slots are free, and leave in one write.
func (s *sender) write(index int) error {
	templates := make([]*template, s.cfg.queues)
	for q := range templates {
		templates[q] = newTemplate(s.cfg.topic, q, s.cfg.size, s.cfg.batch, s.cfg.cred)
	}
	var interval time.Duration
	due := time.Now()
	if s.cfg.rate > 0 {
		interval = time.Second * time.Duration(s.cfg.conns*s.cfg.batch) / time.Duration(s.cfg.rate)
		due = due.Add(interval * time.Duration(index) / time.Duration(s.cfg.conns)) // connections take turns
	}
	ids := newUniqKeys()
	var buf []byte
	flush := func() error {
		_, err := s.conn.Write(buf)
		buf = buf[:0]
		return err
	}
	rounds := make([]uint32, s.cfg.window)
	for n := index; !s.stop.Load(); n++ {
		if interval > 0 {
			if time.Until(due) > 0 {
				if err := flush(); err != nil {
					return err
				}
				sleep(time.Until(due))
			}
		}
		var i int
		select {
		case i = <-s.free:
		default:
			if err := flush(); err != nil {
				return err
			}
			select {
			case i = <-s.free:
			case err := <-s.done:
				return err
			}
		}
		now := time.Now()
		opaque := firstOpaque + uint32(i) + rounds[i]*uint32(s.cfg.window)
		if rounds[i]++; opaque > lastOpaque {
			rounds[i] = 0
		}
		s.slots[i] = slot{opaque: opaque, start: now}
		if interval > 0 {
			s.slots[i].start = due
			due = due.Add(interval)
		}
		buf = templates[n%s.cfg.queues].append(buf, opaque, now, ids)
		s.inFlight.Add(1)
		if len(buf) >= 64<<10 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// sleep is more exact than the runtime's timers, which may be a millisecond late in an idle process.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&ts, nil)
}

// read takes the replies until the connection ends.
func (s *sender) read() {
	r := bufio.NewReaderSize(s.conn, 64<<10)
	var buf []byte
	for {
		rep, b, err := readReply(r, buf)
		if err != nil {
			s.done <- err
			return
		}
		buf = b
		s.inFlight.Add(-1) // also orders the reads below after the writes of the slot
		i := int((rep.opaque - firstOpaque) % uint32(s.cfg.window))
		if s.slots[i].opaque != rep.opaque {
			s.done <- fmt.Errorf("reply to unknown request %d", rep.opaque)
			return
		}
		now := time.Now()
		s.codes[rep.code]++
		if rep.code == replySuccess {
			s.ackedAll += int64(s.cfg.batch)
			if now.After(s.from) && now.Before(s.to) {
				s.acked += int64(s.cfg.batch)
				s.latency.record(now.Sub(s.slots[i].start))
				s.perSecond[int(now.Sub(s.from)/time.Second)] += int64(s.cfg.batch)
			}
		}
		s.slots[i].opaque = 0 // a second reply to the same request is an error
		s.free <- i
	}
}

func summarize(cfg *produceConfig, senders []*sender, a *admin, before int64) (*produceResult, error) {
	res := &produceResult{
		Mode: "produce", Target: cfg.addr, Topic: cfg.topic, Size: cfg.size, Batch: cfg.batch, Conns: cfg.conns,
		Window: cfg.window, Rate: cfg.rate, Seconds: cfg.duration.Seconds(), Codes: map[string]int64{},
		interval: between(senders[0].from, senders[0].to),
	}
	var all histogram
	codes := map[int]int64{}
	perSecond := make([]int64, len(senders[0].perSecond))
	for deadline := time.Now().Add(cfg.drainTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !busy(senders) {
			break
		}
	}
	for _, s := range senders {
		res.Unanswered += s.inFlight.Load()
		s.conn.Close()
		if err := <-s.done; !errors.Is(err, net.ErrClosed) { // the reader has ended: its counters can be read
			return nil, err
		}
		all.add(&s.latency)
		res.Acked += s.acked
		res.AckedAll += s.ackedAll
		for c, n := range s.codes {
			codes[c] += n
		}
		for i, n := range s.perSecond {
			perSecond[i] += n
		}
	}
	for c, n := range codes {
		res.Codes[fmt.Sprint(c)] = n
	}
	full := perSecond[:len(perSecond)-1]
	for i, n := range full {
		if i == 0 || n < res.Slowest {
			res.Slowest = n
		}
	}
	res.latencies = all.latencies()
	res.PerSecond = int64(float64(res.Acked) / res.Seconds)
	res.MBPerSec = float64(res.PerSecond*int64(cfg.size)) / 1e6
	after, err := a.storedAtLeast(cfg.topic, cfg.queues, before+res.AckedAll)
	res.Stored = after - before
	return res, err
}

func busy(senders []*sender) bool {
	for _, s := range senders {
		if s.inFlight.Load() > 0 {
			return true
		}
	}
	return false
}
