// Package namesrv is the name server: brokers register what they serve, SDKs
// ask where a topic is.
//
// It owns the route table (Table, a plain struct) and the handlers. SDKs sign
// route queries, so every request passes policy admission: a query learns of
// the topics of its own key's namespace and of nothing else, and an answer
// about a topic that is not there is the same whoever else has one of that
// name. Only Sluice itself may register brokers. There is no store for key
// values and no setting that a request could change.
package namesrv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// BrokerExpiry is how long a silent broker stays in routes.
const BrokerExpiry = 120 * time.Second

// Deps are what a Server is given. Policy is required.
type Deps struct {
	Policy *policy.Engine
	Refuse func(code string) // counts refusals by code; may be nil
	Logger *slog.Logger
	Now    func() time.Time
}

// Server answers the requests of one name server. It is a remoting.Handler.
type Server struct {
	table   *Table
	policy  *policy.Engine
	refused func(string)
	log     *slog.Logger
	routes  map[int32]route
	idBase  uint32
	idNext  atomic.Uint32
	changed chan struct{}
}

type route struct {
	serve  func(*request) (*wire.Frame, error)
	system bool
}

type request struct {
	conn *remoting.Conn
	f    *wire.Frame
	ext  map[string]string
	p    *policy.Principal
	id   string
}

// New makes a server with an empty table.
func New(deps Deps) *Server {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Refuse == nil {
		deps.Refuse = func(string) {}
	}
	s := &Server{
		table: NewTable(BrokerExpiry, deps.Now), policy: deps.Policy, refused: deps.Refuse, log: deps.Logger,
		idBase: rand.Uint32(), changed: make(chan struct{}, 1),
	}
	s.routes = map[int32]route{
		wire.GetRouteInfoByTopic:        {serve: s.topicRoute},
		wire.GetBrokerClusterInfo:       {serve: s.clusterInfo, system: true},
		wire.GetAllTopicListFromNamesrv: {serve: s.topicList},
		wire.GetTopicsByCluster:         {serve: s.topicList},
		wire.RegisterBroker:             {serve: s.register, system: true},
		wire.UnregisterBroker:           {serve: s.unregister, system: true},
		wire.BrokerHeartbeat:            {serve: s.heartbeat, system: true},
		wire.QueryDataVersion:           {serve: s.dataVersion, system: true},
		wire.GetBrokerMemberGroup:       {serve: s.memberGroup, system: true},
		wire.DeleteTopicInNamesrv:       {serve: s.deleteTopic, system: true},
		wire.ApplyPolicy:                {serve: s.applyPolicy, system: true},
		wire.GetPolicyStatus:            {serve: s.policyStatus, system: true},
		wire.PullDenials:                {serve: s.pullDenials, system: true},
		// Refused to everybody but known, so that a tool gets a reason.
		wire.PutKVConfig:            {serve: s.never, system: true},
		wire.GetKVConfig:            {serve: s.never, system: true},
		wire.DeleteKVConfig:         {serve: s.never, system: true},
		wire.GetKVListByNamespace:   {serve: s.never, system: true},
		wire.UpdateNamesrvConfig:    {serve: s.never, system: true},
		wire.GetNamesrvConfig:       {serve: s.never, system: true},
		wire.WipeWritePermOfBroker:  {serve: s.never, system: true},
		wire.AddWritePermOfBroker:   {serve: s.never, system: true},
		wire.RegisterTopicInNamesrv: {serve: s.never, system: true},
	}
	s.policy.OnChange(func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
	return s
}

// Table is the route table.
func (s *Server) Table() *Table { return s.table }

// lookPeriod is how often open connections are looked at although the policy
// did not change: keys and tokens also end by the clock.
const lookPeriod = 500 * time.Millisecond

// Run removes silent brokers and closes connections of keys that were revoked
// or have expired, until ctx ends. conns walks over the open connections of the
// listener.
func (s *Server) Run(ctx context.Context, conns func(func(*remoting.Conn))) error {
	t := time.NewTicker(5 * time.Second)
	defer t.Stop()
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	closeDead := func() {
		conns(func(c *remoting.Conn) {
			if p, ok := c.Value(principalKey{}).(*atomic.Pointer[policy.Principal]); ok && p.Load() != nil && !p.Load().Live() {
				_ = c.Close()
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			for _, name := range s.table.Expire() {
				s.log.Warn("broker was silent for too long and left the routes", "broker", name)
			}
		case <-s.changed:
			closeDead()
		case <-look.C:
			closeDead()
		}
	}
}

// principalKey is the connection attribute that holds the last signer.
type principalKey struct{}

// Handle answers one request. It implements remoting.Handler.
func (s *Server) Handle(_ context.Context, c *remoting.Conn, f *wire.Frame) *wire.Frame {
	r := &request{conn: c, f: f, ext: f.Ext.Map(), id: fmt.Sprintf("%08x-%08x", s.idBase, s.idNext.Add(1))}
	p, err := s.policy.AuthenticateRemoting(policy.RemotingRequest{Fields: f.Ext, Body: f.Body, Remote: c.RemoteAddr().Addr()})
	if err != nil {
		return s.refuse(r, err)
	}
	r.p = p
	c.ValueOrStore(principalKey{}, func() any { return new(atomic.Pointer[policy.Principal]) }).(*atomic.Pointer[policy.Principal]).Store(p)
	rt, ok := s.routes[f.Code]
	if !ok {
		return s.reply(r, wire.RequestCodeNotSupported, "request_not_supported", fmt.Sprintf("request code %d is not supported", f.Code))
	}
	if rt.system && !p.System() {
		return s.refuse(r, p.RefuseRequest(strconv.Itoa(int(f.Code)), fmt.Sprintf("request code %d is for operators", f.Code)))
	}
	resp, err := rt.serve(r)
	if err != nil {
		return s.refuse(r, err)
	}
	return resp
}

func (s *Server) refuse(r *request, err error) *wire.Frame {
	var refusal *policy.Refusal
	var field *wire.FieldError
	switch {
	case errors.As(err, &refusal):
		s.refused(refusal.Code)
		s.policy.Denied(refusal, r.conn.RemoteAddr().Addr(), r.id)
		return r.f.Reply(refusalCode(refusal.Code), refusal.WithRequestID(r.id).Error())
	case errors.As(err, &field):
		return s.reply(r, wire.SystemError, "header_field_invalid", field.Error())
	case errors.Is(err, wire.ErrMalformed):
		return s.reply(r, wire.SystemError, "body_malformed", "the body is not the JSON that this request wants")
	}
	s.log.Error("request failed", "code", r.f.Code, "request_id", r.id, "err", err)
	return s.reply(r, wire.SystemError, "internal", "internal error")
}

func refusalCode(code string) int32 {
	switch code {
	case policy.CodeRateLimited:
		return wire.SystemBusy
	case policy.CodePolicyMissing:
		return wire.ServiceNotAvailable
	}
	return wire.NoPermission
}

func (s *Server) reply(r *request, code int32, name, text string) *wire.Frame {
	s.refused(name)
	return r.f.Reply(code, "[SLUICE:"+name+"] "+text+"; request_id="+r.id)
}

func (r *request) ok() *wire.Frame { return r.f.Reply(wire.Success, "") }

func (r *request) json(v any) (*wire.Frame, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	resp := r.ok()
	resp.Body = body
	return resp, nil
}

func (s *Server) never(r *request) (*wire.Frame, error) {
	return s.reply(r, wire.NoPermission, policy.CodePermissionDenied, fmt.Sprintf("request code %d is refused to everybody: settings come from the configuration file", r.f.Code)), nil
}

// topicRoute says where a topic is. A name that the key may not use, one that
// is reserved, and one that does not exist get answers that depend on the
// caller's own key only.
func (s *Server) topicRoute(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := r.p.InOf(r.ext["ns"], r.conn.RemoteAddr().Addr(), name)
	if err != nil {
		return nil, err
	}
	if out, ok := s.table.ReplyRoute(bareName(v, name)); ok {
		return r.json(out)
	}
	topic, err := v.TopicAny(name, policy.OperationPub, policy.OperationSub, policy.OperationDescribe)
	var refusal *policy.Refusal
	if errors.As(err, &refusal) && (refusal.Code == policy.CodeNameReserved || refusal.Code == policy.CodeNameInvalid) {
		// Clients ask for template topics by themselves; they want to hear
		// that there is none.
		s.refused(refusal.Code)
		return r.f.Reply(wire.TopicNotExist, refusal.WithRequestID(r.id).Error()), nil
	}
	if err != nil {
		return nil, err
	}
	out, ok := s.table.Route(topic)
	if !ok {
		return s.reply(r, wire.TopicNotExist, "topic_not_found", "the topic "+v.ShowTopic(topic)+" does not exist: create it first"), nil
	}
	return r.json(out)
}

// bareName is a topic's name without the caller's own namespace.
func bareName(v *policy.View, name string) string {
	if _, ns, bare, ok := policy.SplitPhysical(name); ok && ns == v.NamespaceID() {
		return bare
	}
	return name
}

// topicList lists the topics that the caller may see, in its own names.
func (s *Server) topicList(r *request) (*wire.Frame, error) {
	v, err := r.p.In(r.ext["ns"], r.conn.RemoteAddr().Addr())
	if err != nil {
		return nil, err
	}
	if err := v.TakeRequest(); err != nil {
		return nil, err
	}
	list := wire.TopicList{Topics: []string{}}
	for _, topic := range s.table.Topics(r.ext["cluster"]) {
		shown := v.ShowTopic(topic)
		if shown == "" {
			continue
		}
		if _, err := v.TopicAny(shown, policy.OperationPub, policy.OperationSub, policy.OperationDescribe); err == nil {
			list.Topics = append(list.Topics, shown)
		}
	}
	return r.json(list)
}

func (s *Server) clusterInfo(r *request) (*wire.Frame, error) { return r.json(s.table.Cluster()) }

type brokerFields struct {
	cluster, name, addr string
	id                  int64
}

func readBroker(fields *wire.FieldReader) brokerFields {
	return brokerFields{
		cluster: fields.Text("clusterName"), name: fields.Text("brokerName"), addr: fields.Text("brokerAddr"),
		id: fields.OptionalInt64("brokerId", 0),
	}
}

// maxRegistration is the largest inflated registration, in bytes: about half a
// million topics.
const maxRegistration = 128 << 20

func (s *Server) register(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	b := readBroker(&fields)
	crc := fields.OptionalInt64("bodyCrc32", 0)
	expiry := fields.OptionalInt64("heartbeatTimeoutMillis", 0)
	full := fields.OptionalBool(wire.FullRegistration, false)
	if fields.OptionalBool("compressed", false) {
		return s.reply(r, wire.SystemError, "compressed_not_supported", "register without compression"), nil
	}
	if err := fields.Err(); err != nil {
		return nil, err
	}
	if crc != 0 && uint32(crc) != crc32.ChecksumIEEE(r.f.Body)&0x7FFFFFFF && uint32(crc) != crc32.ChecksumIEEE(r.f.Body) {
		return s.reply(r, wire.SystemError, "crc_mismatch", "crc32 not match"), nil
	}
	text := r.f.Body
	switch encoding := fields.Optional(wire.BodyEncoding); encoding {
	case "":
	case wire.EncodingDeflate:
		var err error
		if text, err = wire.Inflate(text, maxRegistration); err != nil {
			return s.reply(r, wire.SystemError, "bad_body", err.Error()), nil
		}
	default:
		return s.reply(r, wire.SystemError, "encoding_not_supported", "register without encoding or with deflate"), nil
	}
	var body wire.RegisterBrokerBody
	if len(text) > 0 {
		if err := wire.Unmarshal(text, &body); err != nil {
			return nil, err
		}
	}
	s.table.Register(Registration{
		Cluster: b.cluster, BrokerName: b.name, Addr: b.addr, BrokerID: b.id, Expiry: time.Duration(expiry) * time.Millisecond,
		Version: body.Topics.DataVersion, Topics: body.Topics.Topics, Full: full, Owner: r.conn,
	})
	r.conn.ValueOrStore(ownerKey{}, func() any { return new(atomic.Bool) })
	if flag := r.conn.Value(ownerKey{}).(*atomic.Bool); flag.CompareAndSwap(false, true) {
		conn := r.conn
		conn.OnClose(func() { s.table.Disconnected(conn) })
	}
	resp, err := r.json(wire.KVTable{Table: map[string]string{}})
	if err != nil {
		return nil, err
	}
	resp.Ext.Add("haServerAddr", "")
	if member, ok := s.table.Member(b.name); ok {
		resp.Ext.Add("masterAddr", member.BrokerAddrs["0"])
	}
	return resp, nil
}

// ownerKey marks connections of brokers.
type ownerKey struct{}

func (s *Server) unregister(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	b := readBroker(&fields)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	s.table.Unregister(b.cluster, b.name, b.id)
	return r.ok(), nil
}

func (s *Server) heartbeat(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	b := readBroker(&fields)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	s.table.Touch(b.cluster, b.name, b.id)
	return r.ok(), nil
}

func (s *Server) dataVersion(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	b := readBroker(&fields)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	var asked wire.DataVersion
	if err := wire.Unmarshal(r.f.Body, &asked); err != nil {
		return nil, err
	}
	stored, known := s.table.Touch(b.cluster, b.name, b.id)
	resp := r.ok()
	if known {
		var err error
		if resp, err = r.json(stored); err != nil {
			return nil, err
		}
	}
	resp.Ext.AddBool("changed", !known || stored != asked)
	return resp, nil
}

func (s *Server) memberGroup(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("brokerName")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	data, ok := s.table.Member(name)
	if !ok {
		data = wire.BrokerData{BrokerName: name, BrokerAddrs: map[string]string{}}
	}
	return r.json(map[string]any{"brokerMemberGroup": map[string]any{"brokerAddrs": data.BrokerAddrs, "brokerName": name, "cluster": data.Cluster}})
}

func (s *Server) deleteTopic(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topic := strings.TrimSpace(fields.Text("topic"))
	if err := fields.Err(); err != nil {
		return nil, err
	}
	s.table.DeleteTopic(topic)
	return r.ok(), nil
}

func (s *Server) applyPolicy(r *request) (*wire.Frame, error) {
	revision, err := s.policy.Apply(r.f.Body)
	resp := r.ok()
	switch {
	case errors.Is(err, policy.ErrStale):
		resp = s.reply(r, wire.PolicyStale, "policy_stale", "the delta does not follow the revision in force: send a snapshot")
	case errors.Is(err, policy.ErrUntrusted):
		return s.reply(r, wire.NoPermission, "policy_untrusted", "the policy is not signed by a trusted key"), nil
	case err != nil:
		return nil, err
	}
	resp.Ext.Add("revision", strconv.FormatUint(revision, 10))
	return resp, nil
}

func (s *Server) policyStatus(r *request) (*wire.Frame, error) {
	resp := r.ok()
	resp.Ext.Add("revision", strconv.FormatUint(s.policy.Revision(), 10))
	resp.Ext.Add("hash", s.policy.Hash())
	return resp, nil
}

// pullDenials tells what was denied, and forgets what the caller acknowledges.
func (s *Server) pullDenials(r *request) (*wire.Frame, error) {
	report, signature, err := s.policy.Denials(r.ext["ack"])
	if err != nil {
		return nil, err
	}
	resp := r.ok()
	resp.Ext.Add("signature", signature)
	resp.Body = report
	return resp, nil
}
