package testcluster

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/standalone"
)

// The one tenant that a bare data plane knows.
const (
	BareNamespace = "nsbare"
	BareKey       = "slk_bare"
	BareSecret    = "sls_bare"
	bareCluster   = "default"
)

// DataPlane is a name server and a broker of the real binary as processes of
// their own, without a control plane. The policy of one tenant lies in their
// folders before they start: its key may do everything in its namespace and has
// no limits.
type DataPlane struct {
	Names, Broker *Process
	System        *mqclient.Client // makes topics and groups
	Tenant        *mqclient.Client // sends and receives, signed with BareKey
}

// StartDataPlane starts both in dir; env is added to the broker's environment.
func StartDataPlane(ctx context.Context, binary, dir string, env ...string) (_ *DataPlane, err error) {
	p := &DataPlane{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	secret := make([]byte, 32)
	rand.Read(secret)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	keyFile, publicFile := filepath.Join(dir, "cluster.key"), filepath.Join(dir, "policy.pub")
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(keyFile, []byte(hex.EncodeToString(secret)), 0o600),
		os.WriteFile(publicFile, []byte(base64.StdEncoding.EncodeToString(public)), 0o644))
	if err != nil {
		return nil, err
	}
	const namesFolder, brokerFolder = "namesrv", "broker" // a node's folder in its data has the same name
	for _, name := range []string{namesFolder, brokerFolder} {
		if err := seedPolicy(filepath.Join(dir, name, name, "policy"), secret, private); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	names := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	common := []string{"SLUICE_CLUSTER_KEY_FILE=" + keyFile, "SLUICE_CLUSTER_POLICY_PUBLIC_FILE=" + publicFile, "SLUICE_TLS_MODE=disabled", "SLUICE_CLUSTER_NAME_SERVERS=" + names}
	var both errgroup.Group // each is ready when it knows the other
	both.Go(func() (err error) {
		p.Names, err = StartRole(ctx, binary, standalone.RoleNameServer, filepath.Join(dir, namesFolder), standalone.Addresses{NameSrv: names}, common...)
		return err
	})
	both.Go(func() (err error) {
		p.Broker, err = StartRole(ctx, binary, standalone.RoleBroker, filepath.Join(dir, brokerFolder), standalone.Addresses{}, append(common, env...)...)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	if p.System, err = mqclient.New(mqclient.Config{Secret: secret}); err != nil {
		return nil, err
	}
	p.Tenant, err = mqclient.New(mqclient.Config{KeyID: BareKey, Secret: []byte(BareSecret)})
	return p, err
}

// Prepare makes a topic and a group of one name, as a control plane does.
func (p *DataPlane) Prepare(ctx context.Context, name string, queues int32) error {
	node, physical := p.System.At(p.Broker.Broker), policy.PhysicalName(BareNamespace, name)
	return errors.Join(node.PutTopic(ctx, wire.TopicConfig{TopicName: physical, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6}),
		node.PutGroup(ctx, mqclient.DefaultGroup(physical)))
}

// Close kills both processes.
func (p *DataPlane) Close() error {
	var errs []error
	for _, c := range []*mqclient.Client{p.System, p.Tenant} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	for _, process := range []*Process{p.Broker, p.Names} {
		if process != nil {
			errs = append(errs, process.Close())
		}
	}
	return errors.Join(errs...)
}

// seedPolicy leaves a policy in a node's folder, as a control plane's push does.
func seedPolicy(dir string, secret []byte, key ed25519.PrivateKey) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	e, err := policy.Open(policy.Config{
		Dir: dir, Cluster: bareCluster, SystemSecret: secret, Trusted: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	all := policy.Scope{NamespaceID: BareNamespace, Permissions: []string{"PUB", "SUB"}, Topics: []string{"*"}, Groups: []string{"*"}}
	sealed, err := policy.SealSnapshot(key, bareCluster, 1, &policy.Snapshot{
		Keys:       map[string]policy.Key{BareKey: {Secret: BareSecret, TenantID: "ten_bare", Scopes: []policy.Scope{all}}},
		Namespaces: map[string]policy.Namespace{BareNamespace: {TenantID: "ten_bare"}},
	})
	if err == nil {
		_, err = e.Apply(sealed)
	}
	if err != nil {
		err = fmt.Errorf("seed policy: %w", err)
	}
	return errors.Join(err, e.Close())
}
