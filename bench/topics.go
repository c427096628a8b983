package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// The row of a store with very many topics. The store is opened by a process of
// its own, this program with -topics, which can be killed and whose memory and
// files can be counted. It answers each line of its input with one line:
//
//	            -> ready <seconds that opening took>
//	fill        -> done: every queue has got a message
//	send <n> <s> -> sent <messages> <processor seconds>: of 1 KiB each to n topics in turn for s seconds, and dispatched

const (
	manyTopics  = 100_000
	fewTopics   = 10
	topicQueues = 4
)

// logTopics measures start, memory, files and speed with 100,000 topics.
func logTopics(ctx context.Context, w *workplace) (_ []figure, err error) {
	dir := filepath.Join(w.dir, "topics")
	if err := writeTopics(dir); err != nil {
		return nil, err
	}
	p, _, err := openTopics(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	if _, err := p.ask("fill"); err != nil {
		return nil, err
	}
	if err := p.close(); err != nil {
		return nil, err
	}
	p, clean, err := openTopics(ctx, dir)
	if err != nil {
		return nil, err
	}
	// In turn, so that what else happens on the machine hits both.
	slice := max(1, int(w.seconds.Seconds()/5))
	var sent, spent [2]float64
	for range 5 {
		for i, n := range []int{fewTopics, manyTopics} {
			said, err := p.ask(fmt.Sprintf("send %d %d", n, slice))
			if err != nil {
				return nil, err
			}
			var messages, seconds float64
			if _, err := fmt.Sscanf(said, "sent %f %f", &messages, &seconds); err != nil {
				return nil, err
			}
			sent[i] += messages
			spent[i] += seconds
		}
	}
	memory := float64(number(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), "VmRSS:")) / 1024
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	if err := p.kill(); err != nil {
		return nil, err
	}
	p, killed, err := openTopics(ctx, dir)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("log-topics %d x %d queues, ", manyTopics, topicQueues)
	cost := func(i int) float64 { return spent[i] / sent[i] * 1e6 }
	return []figure{
		{Row: what + "start after a clean stop", Ours: clean, Unit: "s", Goal: 5},
		{Row: what + "start after kill -9", Ours: killed, Unit: "s", Goal: 5, Note: "under load"},
		{Row: what + "resident, under load", Ours: memory, Unit: "MiB", Goal: 2048},
		{Row: what + "open files", Ours: float64(len(files)), Goal: 10_000},
		{Row: what + "sends, share of those with 10 topics", Ours: sent[1] / sent[0], Goal: 0.8, More: true,
			Note: fmt.Sprintf("%.0f/s of %.0f/s; processor time %.2f us of %.2f us each", sent[1]/float64(5*slice), sent[0]/float64(5*slice), cost(1), cost(0))},
	}, p.close()
}

func topicName(i int) string { return fmt.Sprintf("aaaaaaaa%%topic-%06d", i) }

// writeTopics makes the topic table of a store, which one by one would take long.
func writeTopics(dir string) error {
	rows := map[string]store.TopicConfig{}
	for i := range manyTopics {
		c := store.DefaultTopicConfig(topicName(i))
		c.ReadQueueNums, c.WriteQueueNums = topicQueues, topicQueues
		rows[c.TopicName] = c
	}
	text, err := json.Marshal(map[string]any{"dataVersion": store.DataVersion{Counter: 1}, "topicConfigTable": rows})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config", "topics.json"), text, 0o600)
}

// topicsProcess is a running process with an open store.
type topicsProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openTopics(ctx context.Context, dir string) (*topicsProcess, float64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	p := &topicsProcess{cmd: exec.CommandContext(ctx, self, "-topics", dir)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, 0, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, 0, err
	}
	var seconds float64
	said, err := p.out.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(said, "ready %f", &seconds)
	}
	if err != nil {
		return nil, 0, errors.Join(err, p.kill())
	}
	return p, seconds, nil
}

func (p *topicsProcess) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", err
	}
	said, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	return said, nil
}

// close has the store closed and waits for the end.
func (p *topicsProcess) close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// kill ends the process at once; it is no error when it has ended already.
func (p *topicsProcess) kill() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState == nil {
		return err
	}
	return nil
}

// serveTopics is the process with the open store.
func serveTopics(ctx context.Context, dir string) (err error) {
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.StoreHost, cfg.QueueLayout = dir, netip.MustParseAddrPort("127.0.0.1:10911"), store.LayoutCompact
	began := time.Now()
	s, err := store.Open(cfg, store.Deps{})
	if err != nil {
		return err
	}
	fmt.Printf("ready %f\n", time.Since(began).Seconds())
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, s.Close())
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 1 && f[0] == "fill":
			err = fillTopics(ctx, s)
			fmt.Println("done")
		case len(f) == 3 && f[0] == "send":
			var topics, seconds int
			if _, err = fmt.Sscan(f[1]+" "+f[2], &topics, &seconds); err == nil {
				err = sendTopics(ctx, s, topics, time.Duration(seconds)*time.Second)
			}
		default:
			err = fmt.Errorf("unknown command %q", lines.Text())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillTopics gives every queue a message.
func fillTopics(ctx context.Context, s *store.Store) error {
	_, err := eachSender(func(sender int) (int, error) {
		m := processMessage()
		m.Body = m.Body[:16]
		for i := sender; i < manyTopics; i += senders {
			m.Topic = topicName(i)
			for m.QueueID = range int32(topicQueues) {
				if _, err := s.Append(ctx, m, store.DurabilityAsync); err != nil {
					return 0, err
				}
			}
		}
		return 0, nil
	})
	awaitDispatch(s)
	return err
}

// sendTopics sends for a time, then waits until everything can be read.
func sendTopics(ctx context.Context, s *store.Store, topics int, d time.Duration) error {
	names := make([]string, topics)
	for i := range names {
		names[i] = topicName(i)
	}
	began, spent := time.Now(), processTime(os.Getpid())
	sent, err := eachSender(func(sender int) (int, error) {
		m := processMessage()
		n := 0
		for ; time.Since(began) < d; n++ {
			i := n*senders + sender
			// A step that shares no factor with the number of topics visits all.
			m.Topic, m.QueueID = names[i*7919%topics], int32(n%topicQueues)
			if _, err := s.Append(ctx, m, store.DurabilityAsync); err != nil {
				return n, err
			}
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	awaitDispatch(s)
	// The wait is part of the time: per second of it, so many.
	share := d.Seconds() / time.Since(began).Seconds()
	fmt.Printf("sent %f %f\n", float64(sent)*share, (processTime(os.Getpid())-spent).Seconds()*share)
	return nil
}

const senders = 64

// eachSender runs f for every sender and adds up what they did.
func eachSender(f func(sender int) (int, error)) (int, error) {
	var wg sync.WaitGroup
	var total atomic.Int64
	errs := make([]error, senders)
	for sender := range senders {
		wg.Go(func() {
			n, err := f(sender)
			total.Add(int64(n))
			errs[sender] = err
		})
	}
	wg.Wait()
	return int(total.Load()), errors.Join(errs...)
}

func awaitDispatch(s *store.Store) {
	for {
		if _, end := s.CommitLogRange(); s.Dispatched() >= end {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
