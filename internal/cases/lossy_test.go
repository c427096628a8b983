package cases

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// lossyLine forwards TCP connections to target and breaks a share of those on
// which something passes whose loss the test is about: half of them before the
// request arrives, half after it took effect, so that only the answer is lost.
// Everything of the line ends with the test.
type lossyLine struct {
	target string
	share  float64
	speaks dialect
	on     atomic.Bool // nothing is lost before

	ln net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex // guards everything below
	rnd    *rand.Rand
	closed bool
	conns  map[net.Conn]bool
	passed map[string]int // by kind
	lost   map[string]int
}

// dialect cuts a byte stream into units. Each call makes a reader with a
// state of its own, for one connection.
type dialect struct {
	requests, answers func() func(*bufio.Reader) (unit, error)
}

// unit is something that arrives whole or not at all. kind is empty when its
// loss is of no interest; an answer has the id of its request.
type unit struct {
	raw  []byte
	kind string
	id   int32
}

func startLossyLine(t *testing.T, target string, share float64, seed uint64, speaks dialect) *lossyLine {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &lossyLine{target: target, share: share, speaks: speaks, ln: ln, rnd: rand.New(rand.NewPCG(seed, 187)), conns: map[net.Conn]bool{},
		passed: map[string]int{}, lost: map[string]int{}}
	l.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil { // the listener is closed
				return
			}
			l.wg.Go(func() { l.forward(nc) })
		}
	})
	t.Cleanup(func() {
		l.mu.Lock()
		l.closed = true
		for c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		_ = ln.Close()
		l.wg.Wait()
	})
	return l
}

func (l *lossyLine) addr() string { return l.ln.Addr().String() }

// counts returns how many units of the kind passed and how many were lost.
func (l *lossyLine) counts(kind string) (passed, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed[kind], l.lost[kind]
}

// hold keeps a connection until drop, unless the line has ended.
func (l *lossyLine) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.conns[c] = true
	}
	return !l.closed
}

func (l *lossyLine) drop(cs ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs {
		_ = c.Close()
		delete(l.conns, c)
	}
}

type fate int

const (
	arrives fate = iota
	requestLost
	answerLost
)

func (l *lossyLine) decide(kind string) fate {
	if kind == "" {
		return arrives
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rnd.Float64()
	if !l.on.Load() || r >= l.share {
		l.passed[kind]++
		return arrives
	}
	l.lost[kind]++
	if r < l.share/2 {
		return requestLost
	}
	return answerLost
}

// forward serves one connection until either side, or the line, ends it.
func (l *lossyLine) forward(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil { // the part behind the line is down
		_ = client.Close()
		return
	}
	if !l.hold(client) || !l.hold(server) {
		_ = client.Close()
		_ = server.Close()
		return
	}
	defer l.drop(client, server)
	var doomed sync.Map // ids whose answer is lost
	done := make(chan struct{})
	go func() { // ends when either connection is closed; awaited below
		defer close(done)
		defer l.drop(client, server)
		next, br := l.speaks.answers(), bufio.NewReader(server)
		for {
			u, err := next(br)
			if err != nil {
				return
			}
			if _, lost := doomed.Load(u.id); lost {
				return
			}
			if _, err := client.Write(u.raw); err != nil {
				return
			}
		}
	}()
	next, br := l.speaks.requests(), bufio.NewReader(client)
	for {
		u, err := next(br)
		if err != nil {
			break
		}
		fate := l.decide(u.kind)
		if fate == requestLost {
			break
		}
		if fate == answerLost {
			doomed.Store(u.id, true)
		}
		if _, err := server.Write(u.raw); err != nil {
			break
		}
	}
	l.drop(client, server)
	<-done
}

// The kinds of units.
const (
	kindReport = "report" // of usage, from broker to collector
	kindAck    = "ack"    // of a report
	kindCommit = "commit" // of usage to the database
)

// remotingDialect knows usage reports and their acknowledgements.
func remotingDialect() dialect {
	read := func() func(*bufio.Reader) (unit, error) {
		return func(br *bufio.Reader) (unit, error) {
			prefix := make([]byte, wire.PrefixSize)
			if _, err := io.ReadFull(br, prefix); err != nil {
				return unit{}, err
			}
			p, err := wire.ParsePrefix(prefix, 0)
			if err != nil {
				return unit{}, err
			}
			raw := append(prefix, make([]byte, p.HeaderLen+p.BodyLen)...)
			if _, err := io.ReadFull(br, raw[wire.PrefixSize:]); err != nil {
				return unit{}, err
			}
			f, err := wire.Decode(raw)
			if err != nil {
				return unit{}, err
			}
			u := unit{raw: raw, id: f.Opaque}
			switch {
			case f.IsResponse():
			case f.Code == wire.AckUsage:
				u.kind = kindAck
			case f.Code == wire.PullUsage:
				u.kind = kindReport
			}
			return u, nil
		}
	}
	return dialect{requests: read, answers: read}
}

// usageWrite is a statement that changes a table of billing.
var usageWrite = regexp.MustCompile("^(INSERT INTO|UPDATE|DELETE FROM) `?usage_")

// mysqlDialect knows commits of transactions that changed usage. The client
// sends a request only after the answer to the last, so that one id does for
// all.
func mysqlDialect() dialect {
	return dialect{
		requests: func() func(*bufio.Reader) (unit, error) {
			changed := false // the open transaction has changed usage
			return func(br *bufio.Reader) (unit, error) {
				const headerSize, commandQuery = 4, 3
				raw := make([]byte, headerSize) // payload length u24 little-endian, sequence u8
				if _, err := io.ReadFull(br, raw); err != nil {
					return unit{}, err
				}
				size := int(binary.LittleEndian.Uint32(raw) & 0xFFFFFF)
				raw = append(raw, make([]byte, size)...)
				if _, err := io.ReadFull(br, raw[headerSize:]); err != nil {
					return unit{}, err
				}
				u := unit{raw: raw}
				if size == 0 || raw[headerSize] != commandQuery {
					return u, nil
				}
				switch text := raw[headerSize+1:]; {
				case string(text) == "COMMIT":
					if changed {
						u.kind = kindCommit
					}
					changed = false
				case string(text) == "ROLLBACK":
					changed = false
				case usageWrite.Match(text):
					changed = true
				}
				return u, nil
			}
		},
		answers: func() func(*bufio.Reader) (unit, error) {
			buffer := make([]byte, 64<<10)
			return func(br *bufio.Reader) (unit, error) {
				n, err := br.Read(buffer)
				return unit{raw: buffer[:n]}, err
			}
		},
	}
}

// share prints lost of all as a share.
func share(passed, lost int) string {
	return fmt.Sprintf("%d of %d (%.1f %%)", lost, passed+lost, 100*float64(lost)/float64(max(1, passed+lost)))
}
