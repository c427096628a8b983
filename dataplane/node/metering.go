package node

import (
	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// counted brings what core and fronts count to the meter and the metrics.
type counted struct {
	meter   *meter.Meter
	metrics *metrics
}

// billed reports whether a caller's use is somebody's. Sluice's own calls are
// not, also where they read in a namespace: looking is free.
func billed(who broker.Caller) bool {
	return who.NamespaceID != "" && who.KeyID != policy.SystemKeyID
}

func cellOf(who broker.Caller) meter.Cell {
	return meter.Cell{NamespaceID: who.NamespaceID, KeyID: who.KeyID, Protocol: who.Protocol}
}

func (c *counted) add(who broker.Caller, cell meter.Cell, counter meter.Counter) {
	if !billed(who) {
		return
	}
	var v meter.Values
	v[counter] = 1
	c.meter.Add(cell, &v)
}

// bareName takes the namespace out of a physical topic or group name.
func bareName(physical string) string {
	prefix, _, bare, ok := policy.SplitPhysical(physical)
	if !ok {
		return physical
	}
	return prefix + bare
}

// Delivered implements broker.Meter.
func (c *counted) Delivered(d broker.Delivery) {
	if !billed(d.Who) {
		return
	}
	cell := cellOf(d.Who)
	cell.Topic, cell.Group = bareName(d.Topic), bareName(d.Group)
	c.meter.Delivered(cell, d.Records)
	c.metrics.delivered(d.Who.NamespaceID, d.Records)
}

// EmptyPoll implements broker.Meter.
func (c *counted) EmptyPoll(who broker.Caller, topic, group string) {
	cell := cellOf(who)
	cell.Topic, cell.Group = bareName(topic), bareName(group)
	c.add(who, cell, meter.EmptyPolls)
}

// Replied implements broker.Meter.
func (c *counted) Replied(who broker.Caller, m *message.Message) {
	if !billed(who) {
		return
	}
	cell := cellOf(who)
	cell.Topic = bareName(m.Topic)
	c.meter.Passed(cell, m.Body, m.Properties)
}

// Call implements the Calls of both fronts.
func (c *counted) Call(who broker.Caller) { c.add(who, cellOf(who), meter.Calls) }

// Rejected implements the Calls of both fronts.
func (c *counted) Rejected(who broker.Caller) { c.add(who, cellOf(who), meter.Rejected) }

// Connected counts an open connection until closed is called.
func (c *counted) Connected(who broker.Caller) (closed func()) {
	if !billed(who) {
		return func() {}
	}
	return c.meter.Connected(cellOf(who))
}

// keyUses says uses in the words of the meter's reports.
func keyUses(list []policy.KeyUse) []meter.KeyUse {
	out := make([]meter.KeyUse, len(list))
	for i, u := range list {
		out[i] = meter.KeyUse{KeyID: u.KeyID, TenantID: u.TenantID, At: u.At.UnixMilli(), Address: u.Remote.Unmap().String(),
			Operation: u.Operation.String(), Topic: u.Topic}
	}
	return out
}
