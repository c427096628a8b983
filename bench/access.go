package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// server starts a fresh Sluice with one tenant.
func (w *workplace) server(ctx context.Context, name string, env ...string) (*testcluster.Process, *testcluster.Account, error) {
	p, err := testcluster.StartProcess(ctx, w.binary, filepath.Join(w.dir, name), env...)
	if err != nil {
		return nil, nil, err
	}
	a, err := testcluster.SignUp(ctx, p.URL(), p.Mails(), "bench@example.com", "Bench")
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return p, a, nil
}

type issuedKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func newKey(ctx context.Context, a *testcluster.Account, in map[string]any) (issuedKey, error) {
	var k issuedKey
	in["name"] = fmt.Sprint("k", time.Now().UnixNano())
	return k, a.Do(ctx, "POST", "/v1/api-keys", in, &k)
}

func scopes(a *testcluster.Account) []map[string]any {
	return []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB", "SUB"}}}
}

// until asks every millisecond until want says that the state is reached, and
// returns how long that took.
func until(ctx context.Context, ask func() error, want func(error) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	begin := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if want(err) {
			return time.Since(begin), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("still not after 30 s: %w", errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

const revocations = 100

// revocation measures the way of a key from its creation to a broker, and of its
// end: for the next request, for a parked poll, and for a narrowing rule.
func revocation(ctx context.Context, w *workplace) (_ []figure, err error) {
	p, a, err := w.server(ctx, "revocation")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var usable, refused, ended, narrowed []time.Duration
	for range revocations {
		k, err := newKey(ctx, a, map[string]any{"scopes": scopes(a)})
		if err != nil {
			return nil, err
		}
		took, err := oneKey(ctx, p, a, k)
		if err != nil {
			return nil, err
		}
		if err := a.Do(ctx, "DELETE", "/v1/api-keys/"+k.ID, nil, nil); err != nil {
			return nil, err
		}
		usable, refused, ended, narrowed = append(usable, took[0]), append(refused, took[1]), append(ended, took[2]), append(narrowed, took[3])
	}
	note := fmt.Sprint(revocations, " keys, counted from the answer of the API")
	return []figure{
		{Row: "access/revocation new key usable, p99", Ours: quantile(usable, 0.99).Seconds(), Unit: "s", Goal: 1, Note: note},
		{Row: "access/revocation narrowed by a rule, p99", Ours: quantile(narrowed, 0.99).Seconds(), Unit: "s", Goal: 1},
		{Row: "access/revocation revoked, refused, p99", Ours: quantile(refused, 0.99).Seconds(), Unit: "s", Goal: 1},
		{Row: "access/revocation parked poll ended, p99", Ours: quantile(ended, 0.99).Seconds(), Unit: "s", Goal: 3},
	}, nil
}

func oneKey(ctx context.Context, p *testcluster.Process, a *testcluster.Account, k issuedKey) (took [4]time.Duration, err error) {
	client, err := mqclient.New(mqclient.Config{KeyID: k.ID, Secret: []byte(k.Secret)})
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	parked, err := mqclient.New(mqclient.Config{KeyID: k.ID, Secret: []byte(k.Secret)}) // a connection of its own
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, parked.Close()) }()
	broker := client.At(p.Broker)
	ask := func() error {
		_, err := broker.MaxOffset(ctx, "hello", 0)
		return err
	}
	fine := func(err error) bool { return err == nil }
	denied := func(err error) bool { return err != nil && strings.Contains(err.Error(), "[SLUICE:") }
	if took[0], err = until(ctx, ask, fine); err != nil {
		return took, err
	}
	var rule struct {
		ID string `json:"id"`
	}
	acls := "/v1/namespaces/" + a.NamespaceID + "/acls"
	if err := a.Do(ctx, "POST", acls, map[string]any{"effect": "deny", "principal": k.ID, "resource": "namespace", "pattern": "*", "operations": []string{"PUB", "SUB", "DESCRIBE"}}, &rule); err != nil {
		return took, err
	}
	if took[3], err = until(ctx, ask, denied); err != nil {
		return took, err
	}
	if err := a.Do(ctx, "DELETE", acls+"/"+rule.ID, nil, nil); err != nil {
		return took, err
	}
	if _, err := until(ctx, ask, fine); err != nil {
		return took, err
	}
	poll := make(chan error, 1)
	go func() { // awaited below
		h := wire.PullHeader{ConsumerGroup: "hello-group", Topic: "hello", QueueID: 3, QueueOffset: 0, MaxMessages: 1, Subscription: "*", ExpressionType: "TAG",
			SysFlag: wire.PullFlagSuspend | wire.PullFlagSubscription, SuspendTimeoutMillis: 30_000}
		_, err := parked.At(p.Broker).Call(ctx, wire.PullMessage, h.Fields().Map(), nil)
		poll <- err
	}()
	if _, err := parked.At(p.Broker).MaxOffset(ctx, "hello", 3); err != nil { // behind the poll on its connection
		return took, err
	}
	if err := a.Do(ctx, "POST", "/v1/api-keys/"+k.ID+"/actions/revoke", map[string]any{}, nil); err != nil {
		return took, err
	}
	revoked := time.Now()
	if took[1], err = until(ctx, ask, func(err error) bool { return err != nil }); err != nil {
		return took, err
	}
	select {
	case err := <-poll:
		if err == nil {
			return took, errors.New("a parked poll of a revoked key was answered with success")
		}
		took[2] = time.Since(revoked)
	case <-time.After(30 * time.Second):
		return took, errors.New("a parked poll of a revoked key went on")
	}
	return took, nil
}

const (
	readers        = 40 // keys: each may ask 100 times a second
	readsPerSecond = 2000
	readTime       = 20 * time.Second
)

// authenticatedReads asks for a topic at a fixed rate, with keys, on MariaDB.
func authenticatedReads(ctx context.Context, w *workplace) (_ []figure, err error) {
	if w.mysql == "" {
		return nil, errors.New("SLUICE_TEST_MYSQL is not set; run under scripts/test-services.sh")
	}
	db, drop, err := freshDatabase(ctx, w.mysql)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	p, a, err := w.server(ctx, "reads", "SLUICE_DB="+db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var keys []issuedKey
	for range readers {
		k, err := newKey(ctx, a, map[string]any{"control_role": "viewer"})
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: readers * 4}, Timeout: 10 * time.Second}
	path := p.URL() + "/v1/namespaces/" + a.NamespaceID + "/topics/hello"
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	var wg sync.WaitGroup
	total := readsPerSecond * int(readTime/time.Second)
	begin := time.Now()
	for i := range total {
		due := begin.Add(time.Duration(i) * time.Second / readsPerSecond)
		time.Sleep(time.Until(due))
		wg.Go(func() {
			err := get(ctx, client, path, keys[i%readers])
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due)) // from when it was due: a server that stalls is not spared
			if err != nil {
				failed++
			}
		})
	}
	wg.Wait()
	rate := float64(total-failed) / time.Since(begin).Seconds()
	return []figure{
		{Row: "access/reads rate", Ours: rate, Unit: "/s", Goal: readsPerSecond * 0.99, More: true, Note: fmt.Sprintf("GET of one topic with an API key, MariaDB, load on the same cores; %d failed", failed)},
		{Row: "access/reads p99", Ours: quantile(took, 0.99).Seconds() * 1000, Unit: "ms", Goal: 20, Note: fmt.Sprintf("p50 %.2g ms", quantile(took, 0.5).Seconds()*1000)},
	}, nil
}

func get(ctx context.Context, client *http.Client, url string, k issuedKey) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(k.ID, k.Secret)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d", url, resp.StatusCode)
	}
	return errors.Join(err, drain(resp.Body))
}

// drain reads a body to its end, so that its connection is used again.
func drain(body io.ReadCloser) error {
	_, err := io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

const (
	stuffingTime    = 20 * time.Second
	stuffingSources = 200
	stuffingGoal    = 10_000
	honestPeople    = 6 // so that each stays within the limits of an account
)

// stuffing tries passwords as fast as this machine can, from many addresses of
// one network, while an honest person signs in from another one now and then.
func stuffing(ctx context.Context, w *workplace) (_ []figure, err error) {
	p, _, err := w.server(ctx, "stuffing")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for n := range honestPeople {
		if _, err := testcluster.SignUp(ctx, p.URL(), p.Mails(), honestAddress(n), "Honest"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stuffingTime)
	defer cancel()
	var mu sync.Mutex
	tries, let := 0, 0
	var wg sync.WaitGroup
	for i := range stuffingSources {
		client := from(fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250))
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				status, err := signIn(ctx, client, p.URL(), fmt.Sprintf("victim%d-%d@example.com", i, n%50), "Passw0rd!Passw0rd!")
				if err != nil {
					continue
				}
				mu.Lock()
				tries++
				if status == http.StatusOK {
					let++
				}
				mu.Unlock()
			}
		})
	}
	var honest []time.Duration
	refused := 0
	client := from("127.9.9.9")
	for ctx.Err() == nil {
		begin := time.Now()
		status, err := signIn(ctx, client, p.URL(), honestAddress(len(honest)%honestPeople), testcluster.Password)
		if ctx.Err() != nil {
			break
		}
		honest = append(honest, time.Since(begin))
		if err != nil || status != http.StatusOK {
			refused++
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second / 4):
		}
	}
	wg.Wait()
	rate := float64(tries) / stuffingTime.Seconds()
	return []figure{
		{Row: "access/stuffing tries answered", Ours: rate, Unit: "/s", Goal: stuffingGoal, More: true, Note: fmt.Sprintf("%d let in, attacker on the same cores", let)},
		{Row: "access/stuffing honest sign-in p99", Ours: quantile(honest, 0.99).Seconds() * 1000, Unit: "ms", Goal: 500,
			Note: fmt.Sprintf("%d sign-ins, %d refused, p50 %.3g ms", len(honest), refused, quantile(honest, 0.5).Seconds()*1000)},
	}, nil
}

func honestAddress(n int) string { return fmt.Sprintf("honest%d@example.com", n) }

// from is a client whose connections come from an address of the loopback
// network.
func from(addr string) *http.Client {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}, Timeout: 5 * time.Second}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 2}, Timeout: 10 * time.Second}
}

func signIn(ctx context.Context, client *http.Client, base, email, password string) (int, error) {
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/auth/sign-in", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, drain(resp.Body)
}
