package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// full reports whether cases that take minutes run at the size that the public
// report asks for, and not smaller.
func full() bool { return os.Getenv("SLUICE_CASES_FULL") == "1" }

// Case B187: name server, broker and control plane are processes of their own
// that are killed with kill -9 at random; of all usage reports, of their
// acknowledgements between broker and collector, and of the commits between
// collector and billing's database, 30 % are lost; and what is billed is what
// was stored and delivered, to the last message. Full: 1,000,000 messages in 10
// minutes; otherwise 20,000 in 20 seconds.
//
// The test keeps its own books. Stored is what the queues hold, read to their
// ends: a send whose answer was lost is repeated, and what it stored counts. A
// pull asks for records that are known to be there, so that it delivers all of
// them or none; one whose answer was lost with the broker may be counted, as a
// whole: the broker counts before it answers. Every broker process is consumed
// from with a group of its own, so that the bill shows each of these apart.
func TestBilling_exactThoughAcknowledgementsAreLost_B187(t *testing.T) {
	size := billingSize{messages: 20_000, lasts: 20 * time.Second, killEvery: 2500 * time.Millisecond, groups: 16}
	if full() {
		size = billingSize{messages: 1_000_000, lasts: 10 * time.Minute, killEvery: 8 * time.Second, groups: 100}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := startParts(t, seed)
	a := p.account
	must(t, a.Do(t.Context(), "POST", "/v1/namespaces/"+a.NamespaceID+"/topics?wait=10s", map[string]any{"name": billedTopic, "type": "NORMAL", "queues": billedQueues}, nil))
	b := &books{t: t, p: p, size: size, received: make([]atomic.Int32, size.messages), seen: make([]int64, size.groups), unknown: make([][]int64, size.groups)}
	for g := range size.groups {
		must(t, a.CreateGroup(t.Context(), groupName(g)))
	}
	p.collector.on.Store(true)
	p.database.on.Store(true)

	sent, stop := make(chan struct{}), make(chan struct{})
	var senders, others sync.WaitGroup
	b.began = time.Now()
	for range 16 {
		senders.Go(b.send)
	}
	for q := range billedQueues {
		others.Go(func() { b.consume(q, sent) })
	}
	others.Go(func() { p.killAtRandom(rand.New(rand.NewPCG(seed, 1)), size.killEvery, stop, b.brokerStarts) })
	senders.Wait()
	close(stop)
	close(sent)
	others.Wait()
	if t.Failed() {
		return
	}
	took := time.Since(b.began)
	stored := b.check()
	out := p.awaitBill(b, stored)

	must(t, p.replace([]int{0, 1, 2}, func() {})) // what is reported again changes nothing
	acks, _ := p.collector.counts(kindAck)
	must(t, testcluster.Eventually(t.Context(), time.Minute, func() (bool, error) {
		now, _ := p.collector.counts(kindAck)
		return now >= acks+3, nil
	}))
	if again := p.awaitBill(b, stored); again != out {
		t.Errorf("after another restart %d deliveries are billed, before %d", again, out)
	}
	b.report(took, stored, out)
}

type billingSize struct {
	messages  int
	lasts     time.Duration
	killEvery time.Duration // on average
	groups    int           // as many as broker processes, at least
}

const (
	billedTopic  = "ledger"
	billedQueues = 4
	billedBody   = 100 // bytes
	pullMax      = 32
)

func groupName(n int) string { return fmt.Sprintf("process-%03d", n) }

// parts are the processes of a cluster and the lossy lines between them.
type parts struct {
	t                      *testing.T
	names, broker, control *testcluster.Process
	at                     standalone.Addresses // of the data plane; the same over restarts
	collector, database    *lossyLine
	account                *testcluster.Account
	kills                  [3]int // of all(), in its order
}

const lossShare = 0.3

func startParts(t *testing.T, seed uint64) *parts {
	t.Helper()
	dir, binary := t.TempDir(), testcluster.Binary(t)
	db, err := url.Parse(dbtest.DSN(t, sqldb.MySQL))
	must(t, err)
	p := &parts{t: t, at: standalone.Addresses{NameSrv: freeAddress(t), Broker: freeAddress(t), GRPC: freeAddress(t)}}
	p.collector = startLossyLine(t, p.at.Broker, lossShare, seed, remotingDialect())
	p.database = startLossyLine(t, db.Host, lossShare, seed+1, mysqlDialect())
	db.Host = p.database.addr()
	start := func(process **testcluster.Process, role standalone.Role, at standalone.Addresses, env ...string) (err error) {
		if *process, err = testcluster.StartRole(t.Context(), binary, role, filepath.Join(dir, string(role)), at, env...); err == nil {
			t.Cleanup(func() { must(t, (*process).Close()) })
		}
		return err
	}
	nameServers := "SLUICE_CLUSTER_NAME_SERVERS=" + p.at.NameSrv
	must(t, start(&p.control, standalone.RoleControlPlane, standalone.Addresses{}, nameServers, "SLUICE_CLUSTER_BROKERS="+p.collector.addr(), "SLUICE_DB="+db.String(),
		"SLUICE_CLUSTER_GRPC_ENDPOINT="+p.at.GRPC, "SLUICE_USAGE_COLLECT_INTERVAL=200ms"))
	keys := []string{"SLUICE_CLUSTER_KEY_FILE=" + filepath.Join(p.control.Data, "cluster.key"), "SLUICE_CLUSTER_POLICY_PUBLIC_FILE=" + filepath.Join(p.control.Data, "policy.pub")}
	var g errgroup.Group // a name server is ready when it knows a broker
	g.Go(func() error { return start(&p.names, standalone.RoleNameServer, p.at, keys...) })
	g.Go(func() error {
		return start(&p.broker, standalone.RoleBroker, p.at, slices.Concat(keys, []string{nameServers, "SLUICE_STORE_SEGMENT_BYTES=67108864"})...)
	})
	must(t, g.Wait())
	p.account, err = testcluster.SignUp(t.Context(), p.control.URL(), p.control.Mails(), "ledger@example.com", "Ledger")
	must(t, err)
	return p
}

// freeAddress is an address that nobody listens on now: one that must be known
// before its process is there.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, ln.Close())
	return ln.Addr().String()
}

func (p *parts) all() []*testcluster.Process {
	return []*testcluster.Process{p.names, p.broker, p.control}
}

// replace kills the parts of these numbers and starts them again. brokerStarts
// is called before a broker process starts.
func (p *parts) replace(set []int, brokerStarts func()) error {
	for _, i := range set {
		if err := p.all()[i].Kill(); err != nil {
			return err
		}
	}
	var g errgroup.Group
	for _, i := range set {
		if i == 1 {
			brokerStarts()
		}
		g.Go(func() error { return p.all()[i].Start(p.t.Context()) })
	}
	return g.Wait()
}

// killAtRandom kills parts, also several at once, and starts them again, until
// stop is closed and each was killed.
func (p *parts) killAtRandom(rnd *rand.Rand, every time.Duration, stop <-chan struct{}, brokerStarts func()) {
	sets := [][]int{{1}, {2}, {0}, {1, 2}} // of all()
	for n := 0; ; n++ {
		if n%len(sets) == 0 {
			rnd.Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
		}
		select {
		case <-stop:
			if n >= len(sets) {
				return
			}
		case <-time.After(time.Duration(rnd.Int64N(int64(2 * every)))):
		}
		set := sets[n%len(sets)]
		if err := p.replace(set, brokerStarts); err != nil {
			p.t.Error(err)
			return
		}
		for _, i := range set {
			p.kills[i]++
		}
	}
}

// books are what the tenant's own programs know.
type books struct {
	t     *testing.T
	p     *parts
	size  billingSize
	began time.Time

	next     atomic.Int64 // message to send
	resent   atomic.Int64 // sends repeated because their outcome is unknown
	received []atomic.Int32
	group    atomic.Int64 // to consume with

	mu       sync.Mutex // guards everything below
	records  int64
	seen     []int64   // delivered, by group
	unknown  [][]int64 // sizes of the pulls whose answer was lost, by group
	finished [billedQueues]int64
}

// brokerStarts switches to the next group.
func (b *books) brokerStarts() { b.group.Store(min(b.group.Load()+1, int64(b.size.groups-1))) }

func (b *books) node() (n mqclient.Node, done func()) {
	c, err := mqclient.New(mqclient.Config{KeyID: b.p.account.KeyID, Secret: []byte(b.p.account.Secret)})
	if err != nil {
		b.t.Error(err)
	}
	return c.At(b.p.at.Broker), func() { _ = c.Close() }
}

// certain reports whether a failed call had no effect for sure: the server said
// no, or was not reached.
func certain(err error) bool {
	var op *net.OpError
	_, answered := mqclient.CodeOf(err)
	return answered || errors.As(err, &op) && op.Op == "dial"
}

const callLimit = 20 * time.Second

// pause waits a little before the next try; false when the test has ended.
func (b *books) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return !b.t.Failed()
	case <-b.t.Context().Done():
		return false
	}
}

// send stores messages at an even pace, each until the broker said that it has
// it.
func (b *books) send() {
	node, done := b.node()
	defer done()
	for {
		n := b.next.Add(1) - 1
		if n >= int64(b.size.messages) || b.t.Failed() {
			return
		}
		if early := time.Until(b.began.Add(b.size.lasts * time.Duration(n) / time.Duration(b.size.messages))); early > time.Millisecond && !b.pause(early) {
			return
		}
		h := wire.SendHeader{ProducerGroup: "ledger", Topic: billedTopic, DefaultTopic: "TBW102", DefaultTopicQueueNums: billedQueues,
			QueueID: int32(n % billedQueues), BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1}
		body := fmt.Appendf(nil, "%0*d", billedBody, n)
		for {
			ctx, cancel := context.WithTimeout(b.t.Context(), callLimit)
			_, err := node.Call(ctx, wire.SendMessageV2, h.Fields(wire.SendMessageV2).Map(), body)
			cancel()
			if err == nil {
				break
			}
			if !certain(err) {
				b.resent.Add(1)
			}
			if !b.pause(20 * time.Millisecond) {
				return
			}
		}
	}
}

// consume reads a queue to its end, which is final once sent is closed.
func (b *books) consume(queue int, sent <-chan struct{}) {
	node, done := b.node()
	defer done()
	offset := int64(0)
	for {
		last := false
		select {
		case <-sent:
			last = true
		default:
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), callLimit)
		top, err := node.MaxOffset(ctx, billedTopic, int32(queue))
		cancel()
		for err == nil && offset < top {
			n := min(pullMax, top-offset)
			if err = b.pull(node, queue, offset, n); err == nil {
				offset += n
			}
		}
		if err == nil && last {
			b.mu.Lock()
			b.finished[queue] = offset
			b.mu.Unlock()
			return
		}
		if !b.pause(10 * time.Millisecond) {
			return
		}
	}
}

// pull takes n records that are known to be there.
func (b *books) pull(node mqclient.Node, queue int, offset, n int64) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), callLimit)
	defer cancel()
	group := b.group.Load()
	h := wire.PullHeader{ConsumerGroup: groupName(int(group)), Topic: billedTopic, QueueID: int32(queue), QueueOffset: offset, MaxMessages: int32(n),
		SysFlag: wire.PullFlagSubscription, Subscription: "*", ExpressionType: "TAG"}
	resp, err := node.Call(ctx, wire.PullMessage, h.Fields().Map(), nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if !certain(err) {
			b.unknown[group] = append(b.unknown[group], n)
		}
		return err
	}
	for body := resp.Body; len(body) > 0; {
		size, _, ok := message.Head(body)
		if !ok || size <= 0 || int(size) > len(body) {
			b.t.Errorf("queue %d at %d: the answer holds no records", queue, offset)
			return message.ErrCorrupt
		}
		r, err := message.Parse(body[:size])
		if err != nil {
			b.t.Error(err)
			return err
		}
		body = body[size:]
		id, err := strconv.Atoi(string(r.Body))
		if err != nil {
			b.t.Error(err)
			return err
		}
		b.received[id].Add(1)
		b.seen[group]++
		b.records++
		n--
	}
	if n != 0 {
		b.t.Errorf("queue %d at %d: %d records are missing in the answer", queue, offset, n)
		return errors.New("short answer")
	}
	return nil
}

// check compares the consumers' books with the senders' and with the queues,
// and returns how many messages are stored.
func (b *books) check() (stored int64) {
	node, done := b.node()
	defer done()
	for q := range billedQueues {
		top, err := node.MaxOffset(b.t.Context(), billedTopic, int32(q))
		must(b.t, err)
		if top != b.finished[q] {
			b.t.Errorf("queue %d ends at %d and was consumed to %d", q, top, b.finished[q])
		}
		stored += top
	}
	if b.records != stored {
		b.t.Errorf("%d records were received, %d are stored", b.records, stored)
	}
	twice := int64(0)
	for id := range b.received {
		n := b.received[id].Load()
		if n == 0 {
			b.t.Fatalf("message %d was acknowledged and is lost", id)
		}
		twice += int64(n) - 1
	}
	if twice > b.resent.Load() {
		b.t.Errorf("%d messages are stored twice, but only %d sends had no answer", twice, b.resent.Load())
	}
	return stored
}

// bill is what the tenant is shown.
type bill struct {
	testcluster.Totals
	bytesOut, units int64
	byGroup         map[string]int64 // deliveries
	costs           map[string]int64 // quantities of the cost lines, by meter
}

// awaitBill waits until the bill agrees with the books and returns the billed
// deliveries.
func (p *parts) awaitBill(b *books, stored int64) (out int64) {
	p.t.Helper()
	var got bill
	err := testcluster.Eventually(p.t.Context(), 2*time.Minute, func() (bool, error) {
		var err error
		if got, err = p.bill(); err != nil {
			return false, err
		}
		out, err = b.disagreement(got, stored)
		return err == nil, err
	})
	if err != nil {
		p.t.Fatalf("the bill is wrong: %v\n%+v", err, got)
	}
	return out
}

// disagreement is the first difference between the bill and the books.
func (b *books) disagreement(got bill, stored int64) (out int64, err error) {
	for g, seen := range b.seen {
		more := got.byGroup[groupName(g)] - seen
		if !sumOfSome(b.unknown[g], more) {
			return 0, fmt.Errorf("%s: billed %d deliveries, received %d, and answers with %v were lost", groupName(g), seen+more, seen, b.unknown[g])
		}
		out += seen + more
	}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"messages in", got.MessagesIn, stored}, {"bytes in", got.BytesIn, stored * billedBody},
		{"messages out", got.MessagesOut, out}, {"bytes out", got.bytesOut, out * billedBody},
		{"units", got.units, stored + out}, // a small message is one
		{"cost line of units", got.costs["billable_units"], stored + out}, {"cost line of egress", got.costs["egress_bytes"], out * billedBody},
	} {
		if c.got != c.want {
			return 0, fmt.Errorf("%s: billed %d, true %d", c.what, c.got, c.want)
		}
	}
	return out, nil
}

// sumOfSome reports whether some of the numbers, or none, add up to sum.
func sumOfSome(numbers []int64, sum int64) bool {
	if sum == 0 || len(numbers) == 0 || sum < 0 {
		return sum == 0
	}
	return sumOfSome(numbers[1:], sum) || sumOfSome(numbers[1:], sum-numbers[0])
}

// bill reads the bill as a person who signs in again: what ran is longer than
// an access token lives.
func (p *parts) bill() (out bill, err error) {
	ctx, a := p.t.Context(), p.account
	var session struct {
		AccessToken string `json:"access_token"`
	}
	if err := a.Do(ctx, "GET", "/v1/costs", nil, nil); err != nil {
		if err := a.Do(ctx, "POST", "/v1/auth/sign-in", map[string]any{"email": a.Email, "password": a.Password}, &session); err != nil {
			return out, err
		}
		a.Token = session.AccessToken
	}
	type counters struct {
		testcluster.Totals
		Group    string `json:"group"`
		BytesOut int64  `json:"bytes_out,string"`
		UnitsIn  int64  `json:"units4k_in,string"`
		UnitsOut int64  `json:"units4k_out,string"`
	}
	var usage struct {
		Totals counters   `json:"totals"`
		Items  []counters `json:"items"`
	}
	if err := a.Do(ctx, "GET", "/v1/usage?grain=month&group_by=group&page_size=200&namespace_id="+a.NamespaceID+"&topic="+billedTopic, nil, &usage); err != nil {
		return out, err
	}
	out = bill{Totals: usage.Totals.Totals, bytesOut: usage.Totals.BytesOut, units: usage.Totals.UnitsIn + usage.Totals.UnitsOut,
		byGroup: map[string]int64{}, costs: map[string]int64{}}
	for _, row := range usage.Items {
		out.byGroup[row.Group] += row.MessagesOut
	}
	var costs struct {
		Lines []struct {
			Meter    string `json:"meter"`
			Quantity int64  `json:"quantity,string"`
		} `json:"lines"`
	}
	if err := a.Do(ctx, "GET", "/v1/costs", nil, &costs); err != nil {
		return out, err
	}
	for _, line := range costs.Lines {
		out.costs[line.Meter] += line.Quantity
	}
	return out, nil
}

// report prints the figures.
func (b *books) report(took time.Duration, stored, out int64) {
	lostPulls, settled := 0, out
	for g := range b.unknown {
		lostPulls += len(b.unknown[g])
		settled -= b.seen[g]
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("%d messages sent in %.0f s: stored %d, %d sends without an answer; received %d", b.size.messages, took.Seconds(), stored, b.resent.Load(), b.records)
	add("billed in %d, billed out %d: %d pulls without an answer, %d deliveries of them counted", stored, out, lostPulls, settled)
	add("kill -9: name server %d, broker %d, control plane %d, and all at once at the end", b.p.kills[0], b.p.kills[1], b.p.kills[2])
	for _, x := range []struct {
		line *lossyLine
		kind string
	}{{b.p.collector, kindReport}, {b.p.collector, kindAck}, {b.p.database, kindCommit}} {
		passed, lost := x.line.counts(x.kind)
		add("lost of kind %s: %s", x.kind, share(passed, lost))
		if lost == 0 {
			b.t.Errorf("nothing of kind %s was lost", x.kind)
		}
	}
	if slices.Contains(b.p.kills[:], 0) {
		b.t.Errorf("a part was never killed: %v", b.p.kills)
	}
	b.t.Log(strings.Join(lines, "\n"))
}
