package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// The one tenant that a bare data plane knows, and what the load generator uses of it.
const (
	bareNamespace = "nsbench"
	bareKey       = "slk_bench"
	bareSecret    = "sls_bench"
	bareCluster   = "default"
	bareTopic     = "load" // the group's name, too
	bareQueues    = 8
)

// dataPlane is a name server and a broker of ours as processes of their own,
// without a control plane. The policy of one tenant lies in their folders before
// they start: its key may do everything in its namespace and has no limits.
// Requests are signed, as those of all users are.
type dataPlane struct {
	binary string
	dir    string
	load   string // the load generator

	profiles string // folder for a processor profile of each load; "": none
	profiled int    // loads so far

	broker *testcluster.Process
	names  *testcluster.Process
	client *mqclient.Client
}

// Start implements server.
func (p *dataPlane) Start(ctx context.Context, sync bool) error {
	secret := make([]byte, 32)
	rand.Read(secret)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	keyFile, publicFile := filepath.Join(p.dir, "cluster.key"), filepath.Join(p.dir, "policy.pub")
	if err := errors.Join(os.WriteFile(keyFile, []byte(hex.EncodeToString(secret)), 0o600),
		os.WriteFile(publicFile, []byte(base64.StdEncoding.EncodeToString(public)), 0o644)); err != nil {
		return err
	}
	for _, role := range []string{"namesrv", "broker"} {
		if err := seedPolicy(filepath.Join(p.dir, role, role, "policy"), secret, private); err != nil {
			return err
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	names := fmt.Sprint("127.0.0.1:", port)
	env := []string{"SLUICE_CLUSTER_KEY_FILE=" + keyFile, "SLUICE_CLUSTER_POLICY_PUBLIC_FILE=" + publicFile, "SLUICE_TLS_MODE=disabled", "SLUICE_CLUSTER_NAME_SERVERS=" + names}
	if sync {
		env = append(env, "SLUICE_STORE_FLUSH=sync")
	}
	var both errgroup.Group // each is ready when it knows the other
	both.Go(func() (err error) {
		p.names, err = testcluster.StartRole(ctx, p.binary, standalone.RoleNameServer, filepath.Join(p.dir, "namesrv"), standalone.Addresses{NameSrv: names}, env...)
		return err
	})
	both.Go(func() (err error) {
		p.broker, err = testcluster.StartRole(ctx, p.binary, standalone.RoleBroker, filepath.Join(p.dir, "broker"), standalone.Addresses{}, env...)
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	if p.client, err = mqclient.New(mqclient.Config{Secret: secret}); err != nil {
		return err
	}
	return p.prepare(ctx)
}

// prepare makes the topic and the group, as a control plane does.
func (p *dataPlane) prepare(ctx context.Context) error {
	node, name := p.client.At(p.broker.Broker), bareNamespace+"%"+bareTopic
	return errors.Join(node.PutTopic(ctx, wire.TopicConfig{TopicName: name, ReadQueueNums: bareQueues, WriteQueueNums: bareQueues, Perm: 6}), node.PutGroup(ctx, mqclient.DefaultGroup(name)))
}

// seedPolicy leaves a policy in a node's folder, as a control plane's push does.
func seedPolicy(dir string, secret []byte, key ed25519.PrivateKey) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	e, err := policy.Open(policy.Config{Dir: dir, Cluster: bareCluster, SystemSecret: secret, Trusted: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	sealed, err := policy.SealSnapshot(key, bareCluster, 1, &policy.Snapshot{
		Keys:       map[string]policy.Key{bareKey: {Secret: bareSecret, TenantID: "ten_bench", Scopes: []policy.Scope{{NamespaceID: bareNamespace, Permissions: []string{"PUB", "SUB"}, Topics: []string{"*"}, Groups: []string{"*"}}}}},
		Namespaces: map[string]policy.Namespace{bareNamespace: {TenantID: "ten_bench"}},
	})
	if err == nil {
		_, err = e.Apply(sealed)
	}
	return errors.Join(err, e.Close())
}

// PID implements server.
func (p *dataPlane) PID() int { return p.broker.PID }

// Folder implements server.
func (p *dataPlane) Folder() string { return p.path("store") }

func (p *dataPlane) generator() *remotingLoad {
	return &remotingLoad{p.load, p.PID(), []string{"-broker", p.broker.Broker, "-access-key", bareKey, "-secret-key", bareSecret, "-create=false"}}
}

// warm is long enough for caches to fill; nothing is compiled on the way.
const warm = 2 * time.Second

// Produce implements server.
func (p *dataPlane) Produce(ctx context.Context, s shape) (measured, error) {
	return p.profile(ctx, "produce", s.seconds, func() (measured, error) { return p.generator().produce(ctx, s, warm) })
}

// Consume implements server.
func (p *dataPlane) Consume(ctx context.Context, c consumption) (measured, error) {
	return p.profile(ctx, "consume", c.seconds, func() (measured, error) { return p.generator().consume(ctx, c, warm) })
}

// profile keeps a processor profile of the counted time of a load, for a row that
// is not met to say where the time goes.
func (p *dataPlane) profile(ctx context.Context, name string, seconds time.Duration, run func() (measured, error)) (m measured, err error) {
	if p.profiles == "" || seconds < time.Second {
		return run()
	}
	p.profiled++
	kept := make(chan error, 1)
	go func() {
		kept <- p.keepProfile(ctx, filepath.Join(p.profiles, fmt.Sprintf("%s-%d.pprof", name, p.profiled)), seconds)
	}()
	m, err = run()
	return m, errors.Join(err, <-kept)
}

func (p *dataPlane) keepProfile(ctx context.Context, path string, seconds time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(warm):
	}
	token, err := os.ReadFile(filepath.Join(p.broker.Data, "operator.token"))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.broker.Admin, int(seconds/time.Second)), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(p.profiles, 0o755), os.WriteFile(path, raw, 0o644))
}

// Restart implements server. Of an empty store's first message its topic is a part.
func (p *dataPlane) Restart(ctx context.Context, empty bool) (took time.Duration, err error) {
	if err := p.broker.Kill(); err != nil {
		return 0, err
	}
	if empty {
		for _, name := range []string{"store", "meter", "core"} {
			if err := os.RemoveAll(p.path(name)); err != nil {
				return 0, err
			}
		}
	}
	began := time.Now()
	var both errgroup.Group
	both.Go(func() error { return p.broker.Start(ctx) })
	both.Go(func() error {
		if empty {
			fine := func(err error) bool { return err == nil }
			if _, err := until(ctx, func() error { return p.prepare(ctx) }, fine); err != nil {
				return err
			}
		}
		took, err = p.generator().ready(ctx, began)
		return err
	})
	return took, both.Wait()
}

// path is a folder of the broker's data.
func (p *dataPlane) path(name string) string { return filepath.Join(p.dir, "broker", "broker", name) }

// Stop implements server.
func (p *dataPlane) Stop() error {
	var errs []error
	if p.client != nil {
		errs = append(errs, p.client.Close())
	}
	for _, process := range []*testcluster.Process{p.broker, p.names} {
		if process != nil {
			errs = append(errs, process.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}

// serve runs a bare data plane until ctx ends, and says how to load it and where
// its profile is.
func serve(ctx context.Context, out io.Writer, binary, dir string) (err error) {
	p := &dataPlane{binary: binary, dir: dir}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.Start(ctx, os.Getenv("SLUICE_STORE_FLUSH") == "sync"); err != nil {
		return err
	}
	for _, word := range p.generator().broker {
		fmt.Fprint(out, word, " ")
	}
	fmt.Fprintf(out, "\npid %d\nprofile: http://%s/debug/pprof/profile?seconds=10 with the token of %s\n", p.PID(), p.broker.Admin, filepath.Join(p.broker.Data, "operator.token"))
	<-ctx.Done()
	return nil
}
