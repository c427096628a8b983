// Package processor answers the remoting requests that a broker gets: it
// decodes the header, passes policy admission, maps names, calls the broker
// core, and maps names back in everything that leaves.
//
// It owns the request table and the wire form of answers; no rule about
// messages, groups or offsets is here. One file holds one family of requests.
// A Processor serves any number of connections at the same time.
package processor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Usage gives and forgets usage reports; the control plane collects them.
type Usage interface {
	// Report returns the report of everything not acknowledged, and its
	// signature.
	Report() (body []byte, signature string, err error)
	// Ack forgets what the report of this sequence held.
	Ack(sequence uint64) error
}

// Calls counts requests of tenants, for the meter. Call must not block.
type Calls interface {
	Call(who broker.Caller)
	// Rejected counts a request that was refused after it was authenticated.
	Rejected(who broker.Caller)
	// Connected counts an open connection until closed is called.
	Connected(who broker.Caller) (closed func())
}

// Deps are what a Processor is given. Broker and Policy are required.
type Deps struct {
	Broker *broker.Broker
	Policy *policy.Engine
	Usage  Usage             // nil: usage requests are not supported
	Calls  Calls             // may be nil
	Refuse func(code string) // counts refusals by code; may be nil
	Logger *slog.Logger
	Now    func() time.Time
}

// Processor is a remoting.Handler.
type Processor struct {
	b       *broker.Broker
	policy  *policy.Engine
	usage   Usage
	calls   Calls
	refused func(string)
	log     *slog.Logger
	now     func() time.Time
	table   map[int32]route
	idBase  uint32
	idNext  atomic.Uint32
	changed chan struct{} // the policy changed; Run closes dead connections
	conns   sync.Map      // *broker.Client -> *connState, of open connections
}

// route is one entry of the request table.
type route struct {
	serve  func(*request) (*wire.Frame, error)
	system bool // for the system principal only
	sends  bool // the body is a message, bounded by the rules for messages
}

// maxControlBody bounds the body of every request of a tenant that sends no
// message: decoding one takes many times its size, and a parked one is kept.
const maxControlBody = 2 << 20

// New makes the request table.
func New(deps Deps) *Processor {
	p := &Processor{
		b: deps.Broker, policy: deps.Policy, usage: deps.Usage, calls: deps.Calls, refused: deps.Refuse, log: deps.Logger, now: deps.Now,
		idBase: rand.Uint32(), changed: make(chan struct{}, 1),
	}
	if p.refused == nil {
		p.refused = func(string) {}
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	p.table = map[int32]route{
		wire.SendMessage:      {serve: p.send, sends: true},
		wire.SendMessageV2:    {serve: p.send, sends: true},
		wire.SendBatchMessage: {serve: p.send, sends: true},

		wire.SendReplyMessage:   {serve: p.replyMessage, sends: true},
		wire.SendReplyMessageV2: {serve: p.replyMessage, sends: true},

		wire.EndTransaction:         {serve: p.endTransaction},
		wire.ResumeCheckHalfMessage: {serve: p.resumeCheck},

		wire.RecallMessage: {serve: p.recall},

		wire.PullMessage:     {serve: p.pull},
		wire.LitePullMessage: {serve: p.pull},

		wire.QueryConsumerOffset:  {serve: p.queryOffset},
		wire.UpdateConsumerOffset: {serve: p.updateOffset},

		wire.HeartBeat:                 {serve: p.heartbeat},
		wire.UnregisterClient:          {serve: p.unregister},
		wire.GetConsumerListByGroup:    {serve: p.consumerList},
		wire.GetConsumerConnectionList: {serve: p.consumerConnections},
		wire.GetProducerConnectionList: {serve: p.producerConnections},
		wire.CheckClientConfig:         {serve: p.checkClient},

		wire.LockBatchMQ:   {serve: p.lock},
		wire.UnlockBatchMQ: {serve: p.unlock},

		wire.ConsumerSendMsgBack: {serve: p.sendBack},

		wire.SearchOffsetByTimestamp: {serve: p.searchOffset},
		wire.GetMaxOffset:            {serve: p.maxOffset},
		wire.GetMinOffset:            {serve: p.minOffset},
		wire.GetEarliestMsgStoreTime: {serve: p.earliestTime},
		wire.ViewMessageByID:         {serve: p.viewMessage},
		wire.QueryMessage:            {serve: p.queryMessage},

		wire.InvokeBrokerToResetOffset:   {serve: p.resetOffset},
		wire.CloneGroupOffset:            {serve: p.cloneOffset},
		wire.GetConsumerRunningInfo:      {serve: p.runningInfo},
		wire.ConsumeMessageDirectly:      {serve: p.consumeDirectly},
		wire.QueryConsumeTimeSpan:        {serve: p.timeSpan},
		wire.QueryTopicsByConsumer:       {serve: p.topicsOfGroup},
		wire.QuerySubscriptionByConsumer: {serve: p.subscriptionOfGroup},

		wire.GetTopicStatsInfo:      {serve: p.topicStats},
		wire.GetConsumeStats:        {serve: p.consumeStats},
		wire.GetAllTopicConfig:      {serve: p.topics},
		wire.GetTopicConfig:         {serve: p.topic},
		wire.GetAllGroupConfig:      {serve: p.groups},
		wire.GetGroupConfig:         {serve: p.group},
		wire.QueryTopicConsumeByWho: {serve: p.groupsOfTopic},

		wire.UpdateAndCreateTopic: {serve: p.putTopic, system: true},
		wire.DeleteTopicInBroker:  {serve: p.deleteTopic, system: true},
		wire.UpdateAndCreateGroup: {serve: p.putGroup, system: true},
		wire.DeleteGroup:          {serve: p.deleteGroup, system: true},
		wire.GetBrokerConfig:      {serve: p.brokerConfig, system: true},
		wire.GetBrokerRuntimeInfo: {serve: p.runtimeInfo, system: true},
		wire.UpdateBrokerConfig:   {serve: p.updateBrokerConfig, system: true},
		wire.GetAllConsumerOffset: {serve: p.notSupported, system: true},
		wire.GetAllDelayOffset:    {serve: p.notSupported, system: true},
		wire.GetTimerMetrics:      {serve: p.timerMetrics, system: true},

		wire.ApplyPolicy:     {serve: p.applyPolicy, system: true},
		wire.GetPolicyStatus: {serve: p.policyStatus, system: true},
		wire.PullUsage:       {serve: p.pullUsage, system: true},
		wire.AckUsage:        {serve: p.ackUsage, system: true},
		wire.PullDenials:     {serve: p.pullDenials, system: true},

		wire.ListTransactions:  {serve: p.listTransactions, system: true},
		wire.SettleTransaction: {serve: p.settleTransaction, system: true},
	}
	p.policy.OnChange(func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
	return p
}

// request is one request on its way through a handler.
type request struct {
	ctx  context.Context
	conn *remoting.Conn
	f    *wire.Frame
	p    *policy.Principal
	v    *policy.View // set by view
}

// Handle answers one request. It implements remoting.Handler.
func (p *Processor) Handle(ctx context.Context, c *remoting.Conn, f *wire.Frame) *wire.Frame {
	r := &request{ctx: ctx, conn: c, f: f}
	principal, err := p.policy.AuthenticateRemoting(policy.RemotingRequest{
		Fields: f.Ext, Body: f.Body, Remote: c.RemoteAddr().Addr(),
	})
	if err != nil {
		return p.refuse(r, err)
	}
	r.p = principal
	p.state(c).used(principal)
	rt, ok := p.table[f.Code]
	if !ok {
		return p.reply(r, wire.RequestCodeNotSupported, "request_not_supported", fmt.Sprintf("request code %d is not supported", f.Code), "")
	}
	if rt.system && !principal.System() {
		return p.refuse(r, principal.RefuseRequest(strconv.Itoa(int(f.Code)), fmt.Sprintf("request code %d is for operators: use the console, the API or Terraform", f.Code)))
	}
	if n := len(f.Body); n > maxControlBody && !rt.sends && !principal.System() {
		return p.reply(r, wire.InvalidParameter, "body_too_large", fmt.Sprintf("a request of code %d has a body of %d bytes", f.Code, n), strconv.Itoa(maxControlBody)+" bytes")
	}
	resp, err := rt.serve(r)
	p.count(r, err != nil)
	if err != nil {
		return p.refuse(r, err)
	}
	return resp
}

// count tells the meter of a tenant's request, and once of its connection.
func (p *Processor) count(r *request, rejected bool) {
	if r.v == nil || r.v.System() {
		return
	}
	p.tally(r.conn, r.caller(""), rejected)
}

// tally counts a request of somebody, and once its connection.
func (p *Processor) tally(c *remoting.Conn, who broker.Caller, rejected bool) {
	if p.calls == nil {
		return
	}
	p.state(c).connected(p.calls, who)
	if rejected {
		p.calls.Rejected(who)
		return
	}
	p.calls.Call(who)
}

// view makes the request's view. Names that the request carries decide the
// namespace if they name one; else the field that newer clients add, else the
// key's only namespace.
func (p *Processor) view(r *request, names ...string) (*policy.View, error) {
	v, err := r.p.InOf(r.f.Ext.Value("ns"), r.conn.RemoteAddr().Addr(), names...)
	if err != nil {
		return nil, err
	}
	r.v = v
	return v, nil
}

// charged is view with one request taken from the request rate.
func (p *Processor) charged(r *request, names ...string) (*policy.View, error) {
	v, err := p.view(r, names...)
	if err != nil {
		return nil, err
	}
	return v, v.TakeRequest()
}

// actorField names the person on whose behalf the system principal sends.
const actorField = "__SLUICE_ACTOR"

// caller is who the request is charged to. The system acts in the namespace
// that the physical name belongs to.
func (r *request) caller(physical string) broker.Caller {
	who := broker.Caller{KeyID: r.p.KeyID(), NamespaceID: r.v.NamespaceID(), Protocol: broker.ProtocolRemoting}
	if r.p.System() {
		_, who.NamespaceID, _, _ = policy.SplitPhysical(physical)
		if actor := r.f.Ext.Value(actorField); actor != "" {
			who.KeyID, who.Protocol = actor, broker.ProtocolHTTP
		}
	}
	return who
}

// size is about how many bytes the request takes.
func (r *request) size() int {
	n := len(r.f.Body)
	for i := range r.f.Ext {
		n += len(r.f.Ext[i].Key) + len(r.f.Ext[i].Value)
	}
	return n
}

func (r *request) ok() *wire.Frame { return r.f.Reply(wire.Success, "") }

func (p *Processor) requestID() string {
	return fmt.Sprintf("%08x-%08x", p.idBase, p.idNext.Add(1))
}

func (p *Processor) notSupported(r *request) (*wire.Frame, error) {
	return p.reply(r, wire.RequestCodeNotSupported, "request_not_supported", fmt.Sprintf("request code %d is not supported", r.f.Code), ""), nil
}
