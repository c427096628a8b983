package node

import (
	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// counted brings what core and fronts count to the meter and the metrics.
// Sluice's own calls belong to no namespace and are nobody's usage.
type counted struct {
	meter   *meter.Meter
	metrics *metrics
}

func cellOf(who broker.Caller) meter.Cell {
	return meter.Cell{NamespaceID: who.NamespaceID, KeyID: who.KeyID, Protocol: who.Protocol}
}

func (c *counted) add(cell meter.Cell, counter meter.Counter) {
	if cell.NamespaceID == "" {
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
	if d.Who.NamespaceID == "" {
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
	c.add(cell, meter.EmptyPolls)
}

// Call implements the Calls of both fronts.
func (c *counted) Call(who broker.Caller) { c.add(cellOf(who), meter.Calls) }

// Rejected implements the Calls of both fronts.
func (c *counted) Rejected(who broker.Caller) { c.add(cellOf(who), meter.Rejected) }

// Connected counts an open connection until closed is called.
func (c *counted) Connected(who broker.Caller) (closed func()) {
	if who.NamespaceID == "" {
		return func() {}
	}
	return c.meter.Connected(cellOf(who))
}
