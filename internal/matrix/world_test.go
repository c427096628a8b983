package matrix

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/node"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

const (
	ownNS, foreignNS = "aaaaaaaa", "bbbbbbbb"
	topic, group     = "orders", "workers"
)

// foreignMark is in everything that the other tenant has; no answer may hold it.
const foreignMark = "of-the-other-tenant"

// caller is one API key of the own tenant with what it may do.
type caller struct {
	id, secret string
	ops        string // of P, S, M, D
	topics     string // the only pattern
	groups     string
	refusal    string // what every request of it is answered with; "" for a live key
	rule       *policy.Rule
}

var patterns = []string{"*", topic, "ord*", "none"}
var groupPatterns = []string{"*", group, "work*", "none"}

var operationLetters = map[rune]string{'P': "PUB", 'S': "SUB", 'M': "MANAGE", 'D': "DESCRIBE"}

// callers are all scopes of a live key, and keys that are not live.
func callers(now time.Time) ([]caller, map[string]policy.Key) {
	var all []caller
	keys := map[string]policy.Key{}
	add := func(c caller, change func(*policy.Key)) {
		c.id, c.secret = nextID(len(all)), fmt.Sprintf("sls_%032d", len(all))
		k := policy.Key{Secret: c.secret, TenantID: "ten_own", OwnerID: "sa_own",
			Scopes: []policy.Scope{{NamespaceID: ownNS, Topics: []string{c.topics}, Groups: []string{c.groups}}}}
		for _, op := range c.ops {
			k.Scopes[0].Permissions = append(k.Scopes[0].Permissions, operationLetters[op])
		}
		if change != nil {
			change(&k)
		}
		keys[c.id] = k
		all = append(all, c)
	}
	for bits := range 16 {
		ops := ""
		for i, op := range "PSMD" {
			if bits&(1<<i) != 0 {
				ops += string(op)
			}
		}
		for _, t := range patterns {
			for _, g := range groupPatterns {
				add(caller{ops: ops, topics: t, groups: g}, nil)
			}
		}
	}
	for op, name := range operationLetters {
		for _, resource := range []string{"topic", "group", "namespace"} {
			for _, deny := range []bool{true, false} {
				c := caller{topics: "*", groups: "*", rule: &policy.Rule{ID: fmt.Sprint("acl_", resource, op, deny), Deny: deny, Resource: resource, Pattern: "*", Operations: []string{name}}}
				if deny {
					c.ops = "PSMD"
				}
				c.rule.Principal = nextID(len(all))
				add(c, nil)
			}
		}
	}
	past := now.Add(-time.Hour)
	for refusal, change := range map[string]func(*policy.Key){
		policy.CodeKeyRevoked:        func(k *policy.Key) { k.Revoked = true },
		policy.CodeKeyDisabled:       func(k *policy.Key) { k.Disabled = true },
		policy.CodeKeyExpired:        func(k *policy.Key) { k.ExpiresAt = &past },
		policy.CodeAddressNotAllowed: func(k *policy.Key) { k.AllowedCIDRs = []string{"192.0.2.0/24"} },
		policy.CodeUnauthenticated:   func(k *policy.Key) { k.Secret = "another" },
	} {
		add(caller{ops: "PSMD", topics: "*", groups: "*", refusal: refusal}, change)
	}
	return all, keys
}

func nextID(n int) string { return fmt.Sprintf("slk_%016d", n) }

// need is one thing that a request touches: any of ops on it is enough.
type need struct {
	group bool
	name  string
	ops   string
}

func (n need) met(c *caller) bool {
	return strings.ContainsFunc(n.ops, func(op rune) bool { return n.granted(c, op) })
}

// granted is the order of evaluation in plain words: a rule that denies, else
// one that allows, else the scope.
func (n need) granted(c *caller, op rune) bool {
	if r := c.rule; r != nil && r.Operations[0] == operationLetters[op] && (r.Resource == "namespace" || (r.Resource == "group") == n.group) {
		return !r.Deny
	}
	pattern := c.topics
	if n.group {
		pattern = c.groups
	}
	prefix, wild := strings.CutSuffix(pattern, "*")
	return strings.ContainsRune(c.ops, op) && (pattern == n.name || wild && strings.HasPrefix(n.name, prefix))
}

func met(c *caller, needs []need) bool {
	for _, n := range needs {
		if !n.met(c) {
			return false
		}
	}
	return true
}

// world is a broker and a name server with two tenants that have the same names.
type world struct {
	t                     *testing.T
	callers               []caller
	broker, names, grpc   string
	ownOffset, theirs     int64 // in the commit log, of a message of each tenant
	ownHalf               mqclient.SendResult
	ownHalfOffset         int64 // in the commit log
	ownMessage, hisSecret string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	w := &world{t: t, hisSecret: "sls_" + foreignMark}
	secret := bytes.Repeat([]byte("s"), 32)
	common := func(dir string) node.Common {
		return node.Common{Dir: filepath.Join(t.TempDir(), dir), Cluster: "c", Secret: secret, Trusted: []ed25519.PublicKey{public}, TLSMode: node.TLSDisabled,
			Now: time.Now, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
	}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		return ln
	}
	names, err := node.NewNameServer(common("names"), listen())
	check(t, err)
	cfg := node.BrokerConfig{Name: "b", NameServers: []string{names.Addr().String()}, Store: store.DefaultConfig()}
	cfg.Store.SegmentBytes, cfg.Store.IndexSlots, cfg.Store.IndexEntries = 256<<20, 1000, 4000
	b, err := node.NewBroker(common("broker"), cfg, listen(), listen())
	check(t, err)
	w.names, w.broker, w.grpc = names.Addr().String(), b.Addr().String(), b.GRPCAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- names.Run(ctx) }()
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	w.fill(private, secret)
	return w
}

// fill makes what both tenants have and tells brokers of their keys.
func (w *world) fill(sign ed25519.PrivateKey, secret []byte) {
	t := w.t
	system, err := mqclient.New(mqclient.Config{Secret: secret})
	check(t, err)
	t.Cleanup(func() { _ = system.Close() })
	snapshot := &policy.Snapshot{Namespaces: map[string]policy.Namespace{ownNS: {TenantID: "ten_own"}, foreignNS: {TenantID: "ten_other"}}}
	w.callers, snapshot.Keys = callers(time.Now())
	own := snapshot.Namespaces[ownNS]
	for i := range w.callers {
		if r := w.callers[i].rule; r != nil {
			own.ACL = append(own.ACL, *r)
		}
	}
	snapshot.Namespaces[ownNS] = own
	snapshot.Keys["slk_other"] = policy.Key{Secret: w.hisSecret, TenantID: "ten_other"}
	envelope, err := policy.SealSnapshot(sign, "c", 1, snapshot)
	check(t, err)
	ctx := t.Context()
	for _, addr := range []string{w.names, w.broker} {
		_, err := system.At(addr).ApplyPolicy(ctx, envelope)
		check(t, err)
	}
	broker := system.At(w.broker)
	for _, ns := range []string{ownNS, foreignNS} {
		names := []string{topic}
		if ns == foreignNS {
			names = append(names, foreignMark)
		}
		for _, name := range names {
			check(t, broker.PutTopic(ctx, wire.TopicConfig{TopicName: ns + "%" + name, ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}))
			check(t, broker.PutGroup(ctx, mqclient.DefaultGroup(ns+"%"+strings.Replace(name, topic, group, 1))))
		}
	}
	send := func(ns, body string) int64 {
		properties := message.AppendProperty(message.AppendProperty(nil, message.KeyKeys, "key"), message.KeyTags, body)
		sent, err := broker.Send(ctx, mqclient.SendRequest{Topic: ns + "%" + topic, QueueID: 0, Body: []byte(body), Properties: properties})
		check(t, err)
		w.ownMessage = sent.MessageID
		var offset int64
		_, err = fmt.Sscanf(sent.MessageID[len(sent.MessageID)-16:], "%x", &offset)
		check(t, err)
		return offset
	}
	w.theirs = send(foreignNS, foreignMark)
	w.ownOffset = send(ownNS, "own")
	half := message.AppendProperty(message.AppendProperty(nil, message.KeyTransactionPrepared, "true"), message.KeyProducerGroup, ownNS+"%p")
	w.ownHalf, err = broker.Send(ctx, mqclient.SendRequest{Topic: ownNS + "%" + topic, QueueID: 0, Body: []byte("half"), Properties: half})
	check(t, err)
	_, w.ownHalfOffset, err = message.ParseOffsetID(w.ownHalf.MessageID)
	check(t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
