package node

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/namesrv"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
)

// NameServer is a name server process.
type NameServer struct {
	engine *policy.Engine
	routes *namesrv.Server
	server *remoting.Server
}

// NewNameServer opens the node's policy and takes over ln.
func NewNameServer(c Common, ln net.Listener) (*NameServer, error) {
	engine, err := c.policy(filepath.Join(c.Dir, "policy"))
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	cfg, err := c.remoting()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	m := newMetrics(c.Metrics, roleNameSrv)
	m.policyRevision(engine)
	routes := namesrv.New(namesrv.Deps{Policy: engine, Refuse: m.refused, Logger: c.Logger, Now: c.Now})
	server, err := remoting.NewServer(cfg, ln, routes, c.Logger)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &NameServer{engine: engine, routes: routes, server: server}, nil
}

// Addr is the listener's address.
func (n *NameServer) Addr() net.Addr { return n.server.Addr() }

// Run serves until ctx ends, then answers what it has and returns.
func (n *NameServer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(n.server.Serve)
	g.Go(func() error { return stopped(n.routes.Run(ctx, n.server.Conns)) })
	g.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		return errors.Join(n.server.Shutdown(grace), n.server.Close())
	})
	return errors.Join(g.Wait(), n.engine.Close())
}

// Ready returns an error until a policy is in force and a broker has
// registered.
func (n *NameServer) Ready() error {
	if n.engine.Revision() == 0 {
		return errors.New("no policy yet")
	}
	if len(n.routes.Table().Cluster().BrokerAddrTable) == 0 {
		return errors.New("no broker has registered")
	}
	return nil
}

// Close gives back what New opened, for a node that never ran.
func (n *NameServer) Close() error { return errors.Join(n.server.Close(), n.engine.Close()) }
