// Package denials brings what was refused into the audit logs of the tenants that
// it concerns: what brokers and name servers refused, which a Collector pulls, and
// what the control plane itself refused to callers without a session, which a
// Recorder counts. Both write few events for many refusals, later than the answer
// that the caller got, and each refusal once.
package denials

import (
	"cmp"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/tenant"
)

// Node is a broker or name server.
type Node interface {
	Name() string
	// Denials returns a policy.DenialReport and its signature, after it forgot the
	// one with the id ack, which may be empty.
	Denials(ctx context.Context, ack string) (body []byte, signature string, err error)
}

// Log is the audit log.
type Log interface {
	// AppendOnce adds those events of a tenant that are not there, by their ids.
	AppendOnce(ctx context.Context, tenantID tenant.ID, events ...controldb.AuditEvent) error
	// AppendOf adds an event of a person to the logs of their tenants, once.
	AppendOf(ctx context.Context, e controldb.AuditEvent) error
	// FileActs writes what people did and what waits for that.
	FileActs(ctx context.Context) error
}

// Config of a Collector.
type Config struct {
	Secret   []byte        // of the cluster: signs reports
	Interval time.Duration // between two rounds; default 5 s
	Timeout  time.Duration // of one call to a node; default 10 s
	Now      func() time.Time
	Logger   *slog.Logger
}

// Collector pulls from a fixed set of nodes. It may die between any two steps,
// and two may work at a time: a node tells a report until it is acknowledged, and
// the log takes each of its denials once.
type Collector struct {
	cfg   Config
	nodes []Node
	log   Log
}

// New makes a Collector; Run starts it.
func New(cfg Config, nodes []Node, log Log) *Collector {
	cfg.Interval, cfg.Timeout = cmp.Or(cfg.Interval, 5*time.Second), cmp.Or(cfg.Timeout, 10*time.Second)
	return &Collector{cfg: cfg, nodes: nodes, log: log}
}

// Run collects until ctx ends. A node that does not answer is asked again in the
// next round.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Interval)
	defer tick.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Error("refusals of the message path are not in the audit logs yet; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ErrSignature is returned for a report that the node did not sign.
var ErrSignature = errors.New("report of denials with a wrong signature")

// reportsPerRound bounds how long one node holds up a round.
const reportsPerRound = 100

// Collect makes one round over all nodes.
func (c *Collector) Collect(ctx context.Context) error {
	var errs []error
	for _, n := range c.nodes {
		if err := c.drain(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", n.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func (c *Collector) drain(ctx context.Context, n Node) error {
	ack := ""
	for range reportsPerRound {
		r, err := c.pull(ctx, n, ack)
		if err != nil || r.ID == "" {
			return err
		}
		if err := c.file(ctx, r.Denials); err != nil {
			return err
		}
		ack = r.ID
	}
	return nil
}

func (c *Collector) pull(ctx context.Context, n Node, ack string) (policy.DenialReport, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	var r policy.DenialReport
	body, signature, err := n.Denials(ctx, ack)
	if err != nil {
		return r, err
	}
	if !hmac.Equal([]byte(policy.SignDenials(c.cfg.Secret, body)), []byte(signature)) {
		return r, ErrSignature
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("decode report of denials: %w", err)
	}
	return r, nil
}

// file writes denials into the logs, tenant by tenant.
func (c *Collector) file(ctx context.Context, list []policy.Denial) error {
	slices.SortStableFunc(list, func(a, b policy.Denial) int { return strings.Compare(a.TenantID, b.TenantID) })
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].TenantID == list[0].TenantID {
			n++
		}
		events := make([]controldb.AuditEvent, n)
		for i, d := range list[:n] {
			events[i] = c.event(d)
		}
		if err := c.log.AppendOnce(ctx, list[0].TenantID, events...); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		list = list[n:]
	}
	return nil
}

// event says a denial in the words of the audit log. A node's clock may run ahead:
// nothing was refused in the future.
func (c *Collector) event(d policy.Denial) controldb.AuditEvent {
	now := c.cfg.Now().UTC()
	e := controldb.AuditEvent{ID: tenant.DerivedID("evt_", d.Last, d.ID), TenantID: d.TenantID, At: earlier(d.Last, now), ActorType: "api_key", ActorID: d.KeyID, KeyID: d.KeyID,
		SourceIP: d.Address, Action: d.Action, TargetType: d.Kind, TargetID: d.Name, NamespaceID: d.NamespaceID, Denied: true, Reason: d.Code,
		RequestID: d.RequestID, Count: d.Count, FirstAt: earlier(d.First, now)}
	switch {
	case d.Code == policy.CodeOthers:
		e.ActorType, e.ActorID = "system", othersID
	case strings.HasPrefix(d.OwnerID, tenant.PrefixUser):
		e.ActorType, e.ActorID = "user", d.OwnerID
	case d.OwnerID != "":
		e.ActorType, e.ActorID = "service_account", d.OwnerID
	}
	return e
}

// othersID is the actor of an event that stands for refusals of many kinds.
const othersID = "others"

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
