package processor

import (
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// A send of one message is started on the connection's reader: checked, encoded
// and submitted to the log straight from the read buffer. The answer is made by
// whoever writes the log. Everything that is not plain (a token, a retry topic,
// a batch, a refusal) is left to send, which answers in words.

// Starts implements remoting.Starter.
func (p *Processor) Starts(code int32) bool {
	return code == wire.SendMessageV2 || code == wire.SendMessage
}

// Flush implements remoting.Starter.
func (p *Processor) Flush() { p.b.Lead() }

// sending is a message that was submitted, and the memory to answer it.
type sending struct {
	p   *Processor
	c   *remoting.Conn
	who broker.Caller
	v   *policy.View

	topic string // as the client calls it

	code      int32
	opaque    int32
	serialize wire.Serialize
	oneWay    bool

	m     message.Message
	props []byte // memory for the properties of m
	resp  wire.Frame
	text  []byte // memory for texts of resp
}

var sendings = sync.Pool{New: func() any { return &sending{} }}

// keepProperties is the largest memory for properties that is kept.
const keepProperties = 4 << 10

// Start implements remoting.Starter.
func (p *Processor) Start(c *remoting.Conn, f *wire.Frame) bool {
	r := policy.RemotingRequest{Fields: f.Ext, Body: f.Body, Remote: c.RemoteAddr().Addr()}
	if r.NeedsToken() {
		return false
	}
	h, err := wire.ParseSendHeader(f)
	if err != nil || h.Batch || strings.HasPrefix(h.Topic, broker.RetryPrefix) {
		return false
	}
	principal, err := p.policy.AuthenticateRemoting(r)
	if err != nil || principal.System() {
		return false
	}
	v, err := principal.InOf(f.Ext.Value("ns"), r.Remote, h.Topic, h.ProducerGroup)
	if err != nil {
		return false
	}
	topic, err := v.Topic(h.Topic, policy.OperationPub)
	if err != nil || strings.HasPrefix(topic, broker.RetryPrefix) {
		return false
	}
	if v.CheckProducer(h.ProducerGroup) != nil || len(h.Properties) > message.MaxPropertiesBytes {
		return false
	}
	if limit := v.MaxMessageBytes(); limit > 0 && int64(len(f.Body)) > limit {
		return false
	}
	// What is not taken after all is charged by whoever answers it.
	if v.TakeRequest() != nil {
		return false
	}
	size := len(f.Body) + len(h.Properties)
	if v.TakeSend(1, size) != nil {
		v.ReturnRequest()
		return false
	}
	p.state(c).used(principal)

	s := sendings.Get().(*sending)
	s.p, s.c, s.v = p, c, v
	s.topic = h.Topic
	s.who = broker.Caller{KeyID: principal.KeyID(), NamespaceID: v.NamespaceID(), Protocol: broker.ProtocolRemoting}
	s.code, s.opaque, s.serialize, s.oneWay = f.Code, f.Opaque, f.Serialize, f.IsOneWay()
	s.m = message.Message{
		Topic: topic, QueueID: h.QueueID, Flag: h.Flag, SysFlag: h.SysFlag & clientSysFlags,
		BornTimestamp: h.BornTimestamp, BornHost: c.RemoteAddr(), ReconsumeTimes: max(h.ReconsumeTimes, 0),
		Body: f.Body, Properties: policy.StoreProperties(v, unsafe.Slice(unsafe.StringData(h.Properties), len(h.Properties))),
	}
	if err := p.b.Submit(s.who, &s.m, s.props, s); err != nil {
		s.give()
		v.ReturnSend(1, size)
		v.ReturnRequest()
		return false
	}
	return true // s is not ours any more
}

// Appended implements store.Waiter: it answers. It may run before Start has
// returned.
func (s *sending) Appended(a store.Appended, err error) store.Waker {
	c := s.c
	c.Answer(s.answer(a, err))
	if s.props = s.m.Properties[:0]; cap(s.props) > keepProperties { // the core put them into s.props, or into something larger
		s.props = nil
	}
	s.give()
	return c
}

// answer makes the answer; it is valid until give. It runs on the goroutine that
// writes for everybody: here a broken invariant becomes an answer as well.
func (s *sending) answer(a store.Appended, err error) (resp *wire.Frame) {
	defer func() {
		if r := recover(); r != nil {
			s.p.log.Error("answer of a send panicked", "code", s.code, "panic", r)
			if resp = nil; !s.oneWay {
				resp = (&wire.Frame{Code: s.code, Opaque: s.opaque, Serialize: s.serialize}).Reply(wire.SystemError, "internal error")
			}
		}
	}()
	if err != nil {
		return s.refuse(err)
	}
	s.p.tally(s.c, s.who, false)
	return s.reply(a)
}

// reply makes the answer; it is valid until give.
func (s *sending) reply(a store.Appended) *wire.Frame {
	if s.oneWay {
		return nil
	}
	key, _ := message.FindProperty(s.m.Properties, message.KeyUniqueKey)
	cfg := s.p.b.Config()
	s.text = strconv.AppendInt(s.text[:0], a.QueueOffset, 10)
	digits := len(s.text)
	s.text = message.AppendOffsetID(s.text, cfg.StoreHost, a.PhysicalOffset)
	s.resp = wire.Frame{
		Code: wire.Success, Opaque: s.opaque, Serialize: s.serialize, Language: wire.LanguageGo, Version: wire.Version, Flag: wire.FlagResponse,
		Ext: s.resp.Ext[:0],
	}
	e := &s.resp.Ext
	e.Add("MSG_REGION", broker.Region)
	e.AddBool("TRACE_ON", cfg.Trace)
	e.Add("msgId", text(s.text[digits:]))
	e.AddInt("queueId", int64(s.m.QueueID))
	e.Add("queueOffset", text(s.text[:digits]))
	e.AddOptional("transactionId", text(key))
	e.AddOptional("recallHandle", s.p.b.RecallHandle(&s.m, s.topic))
	return &s.resp
}

// text is b as a string for as long as nobody writes to b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// refuse makes the answer for a message that was submitted and is not stored.
func (s *sending) refuse(err error) *wire.Frame {
	s.p.tally(s.c, s.who, true)
	r := &request{conn: s.c, f: &wire.Frame{Code: s.code, Opaque: s.opaque, Serialize: s.serialize}, v: s.v}
	resp := s.p.refuse(r, broker.StoreError(err))
	if s.oneWay {
		return nil
	}
	return resp
}

// give gives the memory back.
func (s *sending) give() {
	s.c, s.v, s.m, s.topic = nil, nil, message.Message{}, ""
	sendings.Put(s)
}
