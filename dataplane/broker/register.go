package broker

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// register keeps name servers informed: everything at start, each period, after
// a deletion and when the connection to one was lost; a changed topic alone, and before its creation is answered.
//
// turn is held while topics are read and announced, so that a full
// announcement made from older topics cannot arrive after a newer increment.
// It is a channel and not a mutex because the waiting ends with a context.
type register struct {
	b         *Broker
	registrar Registrar
	turn      chan struct{}
	again     chan struct{} // something changed that was not announced
}

func newRegister(b *Broker, r Registrar) *register {
	return &register{b: b, registrar: r, turn: make(chan struct{}, 1), again: make(chan struct{}, 1)}
}

// registerTimeout bounds one call to one name server.
const registerTimeout = 3 * time.Second

func (r *register) run(ctx context.Context) error {
	if r.registrar == nil {
		<-ctx.Done()
		return nil
	}
	const soon = 100 * time.Millisecond
	t := time.NewTimer(0)
	defer t.Stop()
	wait := soon
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-r.again:
			wait = soon
		}
		if r.full(ctx) {
			wait = r.b.cfg.RegisterPeriod
		} else {
			wait = min(2*wait, 5*time.Second)
		}
		t.Reset(wait)
	}
}

func (r *register) registration(topics map[string]store.TopicConfig) wire.Registration {
	c := &r.b.cfg
	version := r.b.store.TopicsVersion()
	out := wire.Registration{Cluster: c.Cluster, BrokerName: c.Name, Addr: c.Addr, BrokerID: c.ID}
	out.Topics.DataVersion = wire.DataVersion{
		Counter: wire.Int(version.Counter), StateVersion: wire.Int(version.StateVersion), Timestamp: wire.Int(version.Timestamp),
	}
	out.Topics.Topics = make(map[string]wire.TopicConfig, len(topics))
	for name, t := range topics {
		out.Topics.Topics[name] = wire.TopicConfig{
			Attributes: t.Attributes, Order: t.Order, Perm: int32(t.Perm), ReadQueueNums: int32(t.ReadQueueNums),
			TopicFilterType: wire.Enum(t.TopicFilterType), TopicName: t.TopicName, TopicSysFlag: int32(t.TopicSysFlag), WriteQueueNums: int32(t.WriteQueueNums),
		}
	}
	return out
}

// full announces everything and reports whether all name servers took it.
func (r *register) full(ctx context.Context) bool {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-r.turn }()
	reg := r.registration(r.b.store.Topics())
	reg.Full = true
	return r.send(ctx, reg)
}

// announce tells name servers about one topic; if that fails the next full
// announcement comes at once.
func (r *register) announce(ctx context.Context, topic string) {
	if r.registrar == nil {
		return
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		r.changed()
		return
	}
	defer func() { <-r.turn }()
	t, ok := r.b.store.Topic(topic)
	if !ok {
		return
	}
	if !r.send(ctx, r.registration(map[string]store.TopicConfig{topic: t})) {
		r.changed()
	}
}

// changed asks for a full announcement soon.
func (r *register) changed() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

func (r *register) send(ctx context.Context, reg wire.Registration) bool {
	ok := true
	for _, ns := range r.b.cfg.NameServers {
		// Many topics take both sides a while.
		call, cancel := context.WithTimeout(ctx, registerTimeout+time.Duration(len(reg.Topics.Topics))*100*time.Microsecond)
		err := r.registrar.Register(call, ns, reg, r.changed)
		cancel()
		if err != nil {
			ok = false
			if ctx.Err() == nil {
				r.b.log.Warn("name server did not take the registration", "nameserver", ns, "full", reg.Full, "err", err)
			}
		}
	}
	return ok
}

// UnregisterBroker withdraws the broker from its name servers.
func (b *Broker) UnregisterBroker(ctx context.Context) {
	if b.register.registrar == nil {
		return
	}
	for _, ns := range b.cfg.NameServers {
		if err := b.register.registrar.Unregister(ctx, ns, b.register.registration(nil)); err != nil {
			b.log.Warn("name server did not take the withdrawal", "nameserver", ns, "err", err)
		}
	}
}

// Registered announces everything now and reports whether all name servers
// took it; composition uses it to know when a broker is ready.
func (b *Broker) Registered(ctx context.Context) bool {
	return b.register.registrar == nil || b.register.full(ctx)
}
