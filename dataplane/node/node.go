// Package node puts the parts of the data plane together into processes: a
// broker (store, core, both protocols, meter) and a name server. It owns the
// order in which parts start and stop, the metrics, and nothing else.
package node

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/proxy"
	"github.com/sluicemq/sluice/dataplane/remoting"
)

// Common is what every node of a cluster is given.
type Common struct {
	Dir     string              // folder for everything the node writes
	Cluster string              // name that policy must be for
	Secret  []byte              // of the system principal, shared by the whole cluster
	Trusted []ed25519.PublicKey // who signs policy
	TLSMode TLSMode
	TLS     *tls.Config // needed unless TLSDisabled
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// TLSMode says which first bytes a listener takes.
type TLSMode string

// The modes.
const (
	TLSDisabled   TLSMode = "disabled"
	TLSPermissive TLSMode = "permissive"
	TLSRequired   TLSMode = "required"
)

// Valid reports whether m is one of the modes.
func (m TLSMode) Valid() bool { return m == TLSDisabled || m == TLSPermissive || m == TLSRequired }

func (c *Common) remoting() (remoting.Config, error) {
	cfg := remoting.DefaultConfig()
	mode, err := remoting.ParseTLSMode(string(c.TLSMode))
	cfg.TLSMode, cfg.TLS = mode, c.TLS
	return cfg, err
}

func (m TLSMode) proxy() proxy.TLSMode {
	switch m {
	case TLSRequired:
		return proxy.TLSRequired
	case TLSPermissive:
		return proxy.TLSPermissive
	case TLSDisabled:
	}
	return proxy.TLSDisabled
}

func (c *Common) policy(dir string) (*policy.Engine, error) {
	return policy.Open(policy.Config{Dir: dir, Cluster: c.Cluster, SystemSecret: c.Secret, Trusted: c.Trusted, Now: c.Now, Logger: c.Logger})
}

// hostPort is the address that clients are told: the advertised host, or the
// listener's, with the listener's port.
func hostPort(advertise string, addr net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", fmt.Errorf("listener address %s: %w", addr, err)
	}
	if advertise != "" {
		host = advertise
	}
	return net.JoinHostPort(host, port), nil
}

// stopped makes the end of a context no error.
func stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
