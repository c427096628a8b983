package cases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

// keysUnderLoad are senders of both protocols that sign with one credential
// after the other, and that stop at the first message that fails.
type keysUnderLoad struct {
	t       *testing.T
	ctx     context.Context
	next    []chan signer // one for each sender
	changed chan struct{} // a sender has sent with its new credential
	refused chan error
	sent    atomic.Int64
	wg      sync.WaitGroup
}

// overlap is how many messages a sender still sends with the old credential
// after it was handed the new one.
const overlap = 2

// load starts senders.
func load(t *testing.T, at standalone.Addresses, first signer, each int) *keysUnderLoad {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &keysUnderLoad{t: t, ctx: ctx, changed: make(chan struct{}, 2*each), refused: make(chan error, 2*each)}
	for i := range each {
		conn, of, client := dialLine(t, at.Broker), first.id, dialRPC(t, at.GRPC)
		l.start(first, func(s signer, n int) error {
			if s.id != of { // another key, another client; a token is renewed where it is
				_ = conn.conn.Close()
				c, err := net.Dial("tcp", at.Broker)
				if err != nil {
					return err
				}
				conn, of = &line{conn: c}, s.id
			}
			return conn.produce(s, "hello", fmt.Sprint("remoting ", n))
		})
		l.start(first, func(s signer, n int) error {
			return client.produce(s.signed(ctx, fmt.Sprint("raw", i)), "hello", fmt.Sprintf("01A2B3C4D5%02d%020d", i, n), fmt.Sprint("grpc ", n))
		})
	}
	t.Cleanup(func() { stop(); l.wg.Wait() })
	return l
}

func (l *keysUnderLoad) start(s signer, produce func(s signer, n int) error) {
	next := make(chan signer, 1)
	l.next = append(l.next, next)
	l.wg.Go(func() {
		for n, left := 0, 0; l.ctx.Err() == nil; n++ {
			fresh := false
			var waits *signer
			select {
			case to := <-next:
				left, waits = overlap, &to
			default:
			}
			for ; waits != nil && left > 0; left-- {
				if !l.try(produce(s, n)) {
					return
				}
				n++
			}
			if waits != nil {
				s, fresh = *waits, true
			}
			if !l.try(produce(s, n)) {
				return
			}
			if fresh {
				l.changed <- struct{}{}
			}
		}
	})
}

func (l *keysUnderLoad) try(err error) bool {
	if err == nil {
		l.sent.Add(1)
		return true
	}
	if l.ctx.Err() == nil {
		l.refused <- err
	}
	return false
}

// change hands a new credential to all senders and returns once each has sent
// with the old one and with the new one.
func (l *keysUnderLoad) change(to signer) {
	l.t.Helper()
	for _, c := range l.next {
		c <- to
	}
	for range l.next {
		select {
		case <-l.changed:
		case err := <-l.refused:
			l.t.Fatalf("a message failed during a rotation: %v", err)
		case <-l.ctx.Done():
			l.t.Fatal("the senders do not go on")
		}
	}
}

// Complaint 5: keys are replaced one after the other while clients of both
// protocols send, which change over at their leisure: not one message fails,
// and the old key ends with its grace period.
func TestRotateKey_underLoad(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("rotate@example.com")
	ctx := t.Context()
	rotations := 100
	if full() {
		rotations = 1000
	}
	type made struct {
		ID       string `json:"id"`
		Secret   string `json:"secret"`
		Revision int64  `json:"revision"`
	}
	var k made
	must(t, a.Do(ctx, "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "rotated",
		"scopes": []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB"}}}}, &k))
	l := load(t, c.Addresses, signer{id: k.ID, secret: k.Secret}, 2)
	for i := range rotations {
		var fresh made
		must(t, a.Do(ctx, "POST", "/v1/api-keys/"+k.ID+"/actions/rotate?wait=10s", map[string]any{"grace_period": "5m"}, &fresh))
		l.change(signer{id: fresh.ID, secret: fresh.Secret})
		if i < rotations-1 {
			must(t, a.Do(ctx, "DELETE", "/v1/api-keys/"+k.ID, nil, nil)) // a plan has fewer keys than rotations
		}
		k = fresh
	}
	var last made
	must(t, a.Do(ctx, "POST", "/v1/api-keys/"+k.ID+"/actions/rotate?wait=10s", map[string]any{"grace_period": "3s"}, &last))
	l.change(signer{id: last.ID, secret: last.Secret})
	old := signer{id: k.ID, secret: k.Secret}
	must(t, testcluster.Eventually(ctx, 20*time.Second, func() (bool, error) {
		over := dialLine(t, c.Broker).produce(old, "hello", "late")
		return over != nil && dialRPC(t, c.GRPC).produce(old.signed(ctx, "late"), "hello", "01A2B3C4D5FF00000000000000000000", "late") != nil, nil
	}))
	t.Logf("rotations=%d messages=%d failed=0", rotations+1, l.sent.Load())
}

// The keys that tokens are signed with turn under load, by another control plane
// on the same database: clients of both protocols send with the tokens of before
// and after, and none is refused at a broker.
func TestRotateSigningKeys_underLoad(t *testing.T) {
	redis := os.Getenv("SLUICE_TEST_REDIS")
	if redis == "" {
		t.Fatal("SLUICE_TEST_REDIS is not set: run the tests with scripts/test-services.sh")
	}
	dsn := dbtest.DSN(t, sqldb.MySQL)
	c := testcluster.Start(t, testcluster.With(func(cfg *standalone.Config) {
		cfg.DB, cfg.Redis, cfg.TokenAlgorithms = dsn, redis, "EdDSA,RS256"
	}))
	a := c.SignUp("turn@example.com")
	ctx := t.Context()
	db, err := sqldb.Open(ctx, dsn, nil)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	master, err := tenant.OpenKMS(ctx, "file:"+filepath.Join(c.Data, "master.key"))
	must(t, err)
	ring, _, err := tenant.OpenKeyring(ctx, controldb.NewRootKeys(db), []tenant.KMS{master}, time.Now)
	must(t, err)
	first := token(t, a, "data")
	outbox := controldb.NewOutbox(db, time.Now)
	replica := auth.New(auth.Config{Issuer: claimsOf(t, first).Issuer, Algorithms: []string{"EdDSA", "RS256"}, KeyRotation: time.Nanosecond},
		auth.Deps{Store: controldb.NewAuthStore(db, outbox), Keyring: ring, Now: time.Now,
			Tenants: tenant.New(tenant.Deps{Store: tenantdb.New(db, outbox), Keyring: ring, Now: time.Now})})

	l := load(t, c.Addresses, signer{jwt: first}, 2)
	seen := map[string]bool{}
	rotations := 12
	if full() {
		rotations = 100
	}
	for i := range rotations {
		must(t, replica.RotateKeys(ctx))
		// A change behind the rotation, which brokers have once they have that.
		must(t, a.CreateTopic(ctx, fmt.Sprint("behind-", i)))
		must(t, a.Do(ctx, "DELETE", "/v1/namespaces/"+a.NamespaceID+"/topics/"+fmt.Sprint("behind-", i), nil, nil))
		// The first control plane signs with the key that it remembers, the other
		// one with the newest.
		fresh, err := replica.Exchange(ctx, a.KeyID, a.Secret, auth.AudienceData, netip.MustParseAddr("127.0.0.1"))
		must(t, err)
		for _, jwt := range []string{token(t, a, "data"), fresh.AccessToken} {
			seen[claimsOf(t, jwt).SigningKey] = true
			l.change(signer{jwt: jwt})
		}
	}
	if len(seen) < rotations {
		t.Errorf("only %d keys signed: the rotation is not felt", len(seen))
	}
	t.Logf("rotations=%d signing keys=%d messages=%d refused=0", rotations, len(seen), l.sent.Load())
}

// Revoked or disabled: what is open ends, and the next request is refused at
// name server and broker, over both protocols.
func TestRevoke_endsStreamsAndParkedPolls(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("ends@example.com")
	ctx := t.Context()
	// How long it takes is measured by `make bench ROWS=access`; this is the bound.
	const limit = 3 * time.Second
	create := func(owner string) key {
		t.Helper()
		in := map[string]any{"name": "k", "scopes": []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB", "SUB"}}}}
		if owner != "" {
			in["owner_id"] = owner
		}
		var made struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		}
		must(t, a.Do(ctx, "POST", "/v1/api-keys?wait=10s", in, &made))
		return key{c.Addresses, made.ID, made.Secret}
	}
	must(t, errors.Join(a.CreateTopic(ctx, "quiet"), a.CreateGroup(ctx, "waiters")))
	revoke := func(k key) error { return a.Do(ctx, "POST", "/v1/api-keys/"+k.id+"/actions/revoke?wait=10s", nil, nil) }
	for name, start := range map[string]func() (s signer, end func() error){
		"key": func() (signer, func() error) {
			k := create("")
			return signer{id: k.id, secret: k.secret}, func() error { return revoke(k) }
		},
		"key without grace": func() (signer, func() error) {
			k := create("")
			return signer{id: k.id, secret: k.secret}, func() error {
				return a.Do(ctx, "POST", "/v1/api-keys/"+k.id+"/actions/rotate?wait=10s", map[string]any{}, nil)
			}
		},
		"disabled account": func() (signer, func() error) {
			var account struct {
				ID string `json:"id"`
			}
			must(t, a.Do(ctx, "POST", "/v1/service-accounts", map[string]any{"name": "robot"}, &account))
			k := create(account.ID)
			return signer{id: k.id, secret: k.secret}, func() error {
				return a.Do(ctx, "PATCH", "/v1/service-accounts/"+account.ID, map[string]any{"disabled": true}, nil)
			}
		},
		"token": func() (signer, func() error) {
			jwt := token(t, a, "data")
			return signer{jwt: jwt}, func() error { return revokeToken(t, a, jwt) }
		},
		"token of a key": func() (signer, func() error) {
			k := create("")
			of := *a
			of.KeyID, of.Secret = k.id, k.secret
			return signer{jwt: token(t, &of, "data")}, func() error { return revoke(k) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, end := start()
			names, broker, idle, client := dialLine(t, c.NameSrv), dialLine(t, c.Broker), dialLine(t, c.Broker), dialRPC(t, c.GRPC)
			calls, cancel := context.WithTimeout(s.signed(ctx, "client of "+name), time.Minute)
			defer cancel()
			queues, err := client.queues(calls, "quiet")
			must(t, errors.Join(err, names.route(s, "quiet"), idle.produce(s, "hello", "open"), broker.park(s, "quiet", "waiters", 30*time.Second)))
			stream, err := client.telemetry(calls, "quiet", "waiters")
			must(t, err)
			ended := map[string]chan error{"parked pull": make(chan error, 1), "idle connection": make(chan error, 1), "connection to the name server": make(chan error, 1), "parked receive": make(chan error, 1), "stream": make(chan error, 1)}
			closed := func(l *line) error {
				for {
					if _, err := l.read(time.Minute); err != nil {
						return err
					}
				}
			}
			go func() { ended["parked pull"] <- closed(broker) }()
			go func() { ended["idle connection"] <- closed(idle) }()
			go func() { ended["connection to the name server"] <- closed(names) }()
			go func() { ended["parked receive"] <- client.receive(calls, queues[0], "waiters", 30*time.Second) }()
			go func() {
				for {
					if _, err := stream.Recv(); err != nil {
						ended["stream"] <- err
						return
					}
				}
			}()
			for what, ch := range ended {
				select {
				case err := <-ch:
					t.Fatalf("%s ended before anything happened: %v", what, err)
				default:
				}
			}
			must(t, end())
			late := time.NewTimer(limit)
			defer late.Stop()
			for what, ch := range ended {
				select {
				case err := <-ch:
					if err == nil {
						t.Errorf("%s ended as if nothing had happened", what)
					}
				case <-late.C:
					t.Fatalf("%s goes on", what)
				}
			}
			again := s.signed(ctx, "another client")
			for what, err := range map[string]error{"name server": dialLine(t, c.NameSrv).route(s, "quiet"), "broker": dialLine(t, c.Broker).produce(s, "quiet", "x"),
				"grpc": dialRPC(t, c.GRPC).produce(again, "quiet", "01A2B3C4D5EE00000000000000000000", "x")} {
				if err == nil {
					t.Errorf("%s takes it still", what)
				}
			}
		})
	}
}
