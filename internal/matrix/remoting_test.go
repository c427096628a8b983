package matrix

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// names are how a request calls topic and group.
type names struct {
	topic, group string
	ns           string // the extra field of newer clients
}

// view is a way to name things: what is touched by it, or that it is foreign.
type view struct {
	name    string
	names   names
	foreign bool
	belongs bool // the topic belongs to the group: its needs are the group's
}

var views = []view{
	{name: "bare", names: names{topic, group, ""}},
	{name: "with the own namespace", names: names{ownNS + "%" + topic, ownNS + "%" + group, ""}},
	{name: "own namespace in a field", names: names{topic, group, ownNS}},
	{name: "retry topic", names: names{"%RETRY%" + group, group, ""}, belongs: true},
	{name: "dead letters", names: names{"%DLQ%" + group, group, ""}, belongs: true},
	{name: "with a foreign namespace", names: names{foreignNS + "%" + topic, foreignNS + "%" + group, ""}, foreign: true},
	{name: "foreign namespace in a field", names: names{topic, group, foreignNS}, foreign: true},
	{name: "foreign retry topic", names: names{"%RETRY%" + foreignNS + "%" + group, foreignNS + "%" + group, ""}, foreign: true},
	{name: "own field, foreign names", names: names{foreignNS + "%" + topic, foreignNS + "%" + group, ownNS}, foreign: true},
}

// needs of a request under a view: a topic that belongs to a group is the
// group's, and to send to it is to consume with it.
func (v view) needs(list []need) []need {
	if !v.belongs {
		return list
	}
	out := slices.Clone(list)
	for i := range out {
		if !out[i].group {
			out[i] = need{group: true, name: group, ops: strings.ReplaceAll(out[i].ops, "P", "S")}
		}
	}
	return out
}

// remotingOp is what a tenant's request code does.
type remotingOp struct {
	make     func(w *world, n names) (ext map[string]string, body any)
	needs    []need
	nameless bool                                                   // it names nothing: only the field can be foreign
	hidden   bool                                                   // without the right, things are as absent as foreign ones
	lists    func(c *caller, v view, shown string) (problem string) // for answers that hold what the caller may see
}

var (
	topicPub  = need{name: topic, ops: "P"}
	topicSub  = need{name: topic, ops: "S"}
	topicAny  = need{name: topic, ops: "PSD"}
	topicLook = need{name: topic, ops: "SD"}
	groupSub  = need{group: true, name: group, ops: "S"}
	groupLook = need{group: true, name: group, ops: "SD"}
)

func fields(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func sendWith(code int32) func(*world, names) (map[string]string, any) {
	return func(_ *world, n names) (map[string]string, any) {
		h := wire.SendHeader{ProducerGroup: "p", Topic: n.topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, MaxReconsumeTimes: -1, BornTimestamp: time.Now().UnixMilli()}
		return h.Fields(code).Map(), []byte("own")
	}
}

// replyWith replies to a client that is not there: whoever is let in hears so.
func replyWith(code int32) func(*world, names) (map[string]string, any) {
	return func(*world, names) (map[string]string, any) {
		h := wire.SendHeader{ProducerGroup: "p", Topic: "c_REPLY_TOPIC", DefaultTopic: "TBW102", MaxReconsumeTimes: -1,
			Properties: string(message.AppendProperty(nil, message.KeyReplyToClient, "nobody"))}
		return h.Fields(code).Map(), []byte("own")
	}
}

func pullWith(_ *world, n names) (map[string]string, any) {
	h := wire.PullHeader{ConsumerGroup: n.group, Topic: n.topic, MaxMessages: 1, SysFlag: wire.PullFlagSubscription, Subscription: "*", ExpressionType: "TAG"}
	return h.Fields().Map(), nil
}

func queueWith(more ...string) func(*world, names) (map[string]string, any) {
	return func(_ *world, n names) (map[string]string, any) {
		return fields(append([]string{"topic", n.topic, "queueId", "0"}, more...)...), nil
	}
}

func groupWith(field string) func(*world, names) (map[string]string, any) {
	return func(_ *world, n names) (map[string]string, any) { return fields(field, n.group), nil }
}

func topicWith(_ *world, n names) (map[string]string, any) { return fields("topic", n.topic), nil }

func lockWith(_ *world, n names) (map[string]string, any) {
	return nil, wire.LockRequest{ClientID: "m", ConsumerGroup: n.group, Queues: []wire.MessageQueue{{BrokerName: "b", Topic: n.topic, QueueID: 0}}}
}

func subscription(n names) wire.Subscription {
	return wire.Subscription{Topic: n.topic, SubString: "*", ExpressionType: "TAG"}
}

// showsTopics wants exactly the topics in an answer that the caller may look at.
func showsTopics(key string) func(*caller, view, string) string {
	return func(c *caller, _ view, body string) string {
		if want := topicAny.met(c); want != strings.Contains(body, fmt.Sprintf(key, topic)) {
			return fmt.Sprintf("topic %s shown: %v", topic, !want)
		}
		return ""
	}
}

var tenantCodes = map[string]remotingOp{
	"SendMessage":      {make: sendWith(wire.SendMessage), needs: []need{topicPub}},
	"SendMessageV2":    {make: sendWith(wire.SendMessageV2), needs: []need{topicPub}},
	"SendBatchMessage": {make: sendWith(wire.SendBatchMessage), needs: []need{topicPub}},
	"RecallMessage": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("topic", n.topic, "recallHandle", "h"), nil
	}, needs: []need{topicPub}},
	"EndTransaction": {make: func(w *world, _ names) (map[string]string, any) {
		return fields("producerGroup", "p", "tranStateTableOffset", fmt.Sprint(w.ownHalf.QueueOffset), "commitLogOffset", fmt.Sprint(w.ownHalfOffset), "commitOrRollback", "0"), nil
	}, needs: []need{topicPub}, nameless: true},
	"ResumeCheckHalfMessage": {make: func(w *world, _ names) (map[string]string, any) {
		return fields("msgId", w.ownHalf.MessageID), nil
	}, needs: []need{topicPub}, nameless: true},
	"InvokeBrokerToResetOffset": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("topic", n.topic, "group", n.group, "timestamp", "0", "isForce", "true"), nil
	}, needs: []need{topicSub, groupSub}},
	"CloneGroupOffset": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("srcGroup", n.group, "destGroup", n.group, "topic", n.topic, "offline", "false"), nil
	}, needs: []need{groupSub, topicSub}},
	"GetConsumerRunningInfo": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("consumerGroup", n.group, "clientId", "nobody"), nil
	}, needs: []need{groupLook}},
	"ConsumeMessageDirectly": {make: func(w *world, n names) (map[string]string, any) {
		return fields("consumerGroup", n.group, "clientId", "nobody", "msgId", w.ownMessage), nil
	}, needs: []need{groupSub}},
	"QueryConsumeTimeSpan": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("group", n.group, "topic", n.topic), nil
	}, needs: []need{groupLook, topicLook}},
	"QueryTopicsByConsumer": {make: groupWith("group"), needs: []need{groupLook}},
	"QuerySubscriptionByConsumer": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("group", n.group, "topic", n.topic), nil
	}, needs: []need{groupLook, topicLook}},
	"SendReplyMessage":   {make: replyWith(wire.SendReplyMessage), nameless: true},
	"SendReplyMessageV2": {make: replyWith(wire.SendReplyMessageV2), nameless: true},
	"PullMessage":        {make: pullWith, needs: []need{topicSub, groupSub}},
	"LitePullMessage":    {make: pullWith, needs: []need{topicSub, groupSub}},
	"QueryConsumerOffset": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("topic", n.topic, "queueId", "0", "consumerGroup", n.group), nil
	}, needs: []need{topicSub, groupSub}},
	"UpdateConsumerOffset": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("topic", n.topic, "queueId", "0", "consumerGroup", n.group, "commitOffset", "0"), nil
	}, needs: []need{topicSub, groupSub}},
	"HeartBeat": {make: func(_ *world, n names) (map[string]string, any) {
		return nil, wire.Heartbeat{ClientID: "m", Producers: []wire.ProducerData{{GroupName: "p"}}, Consumers: []wire.ConsumerData{{GroupName: n.group, ConsumeType: "CONSUME_PASSIVELY",
			MessageModel: "CLUSTERING", ConsumeFromWhere: "CONSUME_FROM_LAST_OFFSET", Subscriptions: []wire.Subscription{subscription(n)}}}}
	}, needs: []need{groupSub, topicSub}},
	"UnregisterClient": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("clientID", "m", "consumerGroup", n.group), nil
	}, needs: []need{groupSub}},
	"GetConsumerListByGroup":    {make: groupWith("consumerGroup"), needs: []need{groupLook}},
	"GetConsumerConnectionList": {make: groupWith("consumerGroup"), needs: []need{groupLook}},
	"GetProducerConnectionList": {make: groupWith("producerGroup")},
	"CheckClientConfig": {make: func(_ *world, n names) (map[string]string, any) {
		return nil, wire.CheckClientRequest{ClientID: "m", Group: n.group, Subscription: subscription(n)}
	}, needs: []need{groupSub, topicSub}},
	"LockBatchMQ":   {make: lockWith, needs: []need{groupSub, topicSub}},
	"UnlockBatchMQ": {make: lockWith, needs: []need{groupSub, topicSub}},
	"ConsumerSendMsgBack": {make: func(w *world, n names) (map[string]string, any) {
		return fields("group", n.group, "offset", fmt.Sprint(w.ownOffset), "delayLevel", "3"), nil
	}, needs: []need{groupSub}},
	"SearchOffsetByTimestamp": {make: queueWith("timestamp", "0"), needs: []need{topicAny}},
	"GetMaxOffset":            {make: queueWith(), needs: []need{topicAny}},
	"GetMinOffset":            {make: queueWith(), needs: []need{topicAny}},
	"GetEarliestMsgStoreTime": {make: queueWith(), needs: []need{topicAny}},
	"ViewMessageByID": {make: func(w *world, _ names) (map[string]string, any) {
		return fields("offset", fmt.Sprint(w.ownOffset)), nil
	}, needs: []need{topicLook}, nameless: true, hidden: true},
	"QueryMessage": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("topic", n.topic, "key", "key", "maxNum", "32", "beginTimestamp", "0", "endTimestamp", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())), nil
	}, needs: []need{topicLook}},
	"GetTopicStatsInfo": {make: topicWith, needs: []need{topicAny}},
	"GetConsumeStats": {make: func(_ *world, n names) (map[string]string, any) {
		return fields("consumerGroup", n.group, "topic", n.topic), nil
	}, needs: []need{groupLook, topicLook}},
	"GetAllTopicConfig": {make: func(*world, names) (map[string]string, any) { return nil, nil }, nameless: true, lists: showsTopics(`"topicName":"%s"`)},
	"GetTopicConfig":    {make: topicWith, needs: []need{topicAny}},
	"GetAllGroupConfig": {make: func(*world, names) (map[string]string, any) { return nil, nil }, nameless: true, lists: func(c *caller, _ view, body string) string {
		if want := groupLook.met(c); want != strings.Contains(body, `"groupName":"`+group+`"`) {
			return fmt.Sprintf("group shown: %v", !want)
		}
		return ""
	}},
	"GetGroupConfig":         {make: groupWith("group"), needs: []need{groupLook}},
	"QueryTopicConsumeByWho": {make: topicWith, needs: []need{topicAny}},
}

var tenantCodesOfNames = map[string]remotingOp{
	"GetRouteInfoByTopic":        {make: topicWith, needs: []need{topicAny}},
	"GetAllTopicListFromNamesrv": {make: func(*world, names) (map[string]string, any) { return nil, nil }, nameless: true, lists: showsTopics(`"%s"`)},
	"GetTopicsByCluster":         {make: func(*world, names) (map[string]string, any) { return fields("cluster", "c"), nil }, nameless: true, lists: showsTopics(`"%s"`)},
}

// What only Sluice itself may ask, and what nobody can.
var (
	systemCodes = words(`UpdateAndCreateTopic DeleteTopicInBroker UpdateAndCreateGroup DeleteGroup GetBrokerConfig GetBrokerRuntimeInfo UpdateBrokerConfig
		GetAllConsumerOffset GetAllDelayOffset GetTimerMetrics ApplyPolicy GetPolicyStatus PullUsage AckUsage PullDenials ListTransactions SettleTransaction`)
	systemCodesOfNames = words(`GetBrokerClusterInfo RegisterBroker UnregisterBroker BrokerHeartbeat QueryDataVersion GetBrokerMemberGroup DeleteTopicInNamesrv PullDenials
		ApplyPolicy GetPolicyStatus PutKVConfig GetKVConfig DeleteKVConfig GetKVListByNamespace UpdateNamesrvConfig GetNamesrvConfig WipeWritePermOfBroker
		AddWritePermOfBroker RegisterTopicInNamesrv`)
	absentCodes = words(`UpdateAndCreateTopicList CheckTransactionState NotifyConsumerIDsChanged ResetConsumerClientOffset
		GetConsumerStatusFromClient GetSystemTopicListFromNamesrv PushReplyMessageToClient
		QueryAssignment SetMessageRequestMode PopMessage AckMessage PeekMessage ChangeMessageInvisibleTime Notification PollingInfo PopRollback BatchAckMessage`)
)

func words(text string) []string { return strings.Fields(text) }

// refusals are the codes that say no to the caller, not to the request.
var refusals = []string{policy.CodeUnauthenticated, policy.CodeKeyRevoked, policy.CodeKeyDisabled, policy.CodeKeyExpired, policy.CodeTokenInvalid,
	policy.CodeAddressNotAllowed, policy.CodeNamespaceMismatch, policy.CodeNamespaceRequired, policy.CodePermissionDenied, policy.CodeTenantSuspended,
	policy.CodeRateLimited, policy.CodePolicyMissing, "request_not_supported"}

var sluiceCode = regexp.MustCompile(`^\[SLUICE:([a-z_]+)\]`)

func codeIn(remark string) string {
	if m := sluiceCode.FindStringSubmatch(remark); m != nil {
		return m[1]
	}
	return ""
}

// try is one case: a request, and what its answer has to be.
type try struct {
	addr, what string
	code       int32
	caller     *caller
	ext        map[string]string
	body       []byte
	refused    string // this refusal; "": none of them
	absent     bool   // no success, whatever the reason
	lists      func(shown string) string
}

// tries are all cases of one process.
func (w *world) tries(addr string, ops map[string]remotingOp, system []string) []try {
	t := w.t
	var out []try
	codes := requestCodes(t)
	for name, code := range codes {
		op, known := ops[name]
		isSystem, isAbsent := slices.Contains(system, name), !known && !slices.Contains(system, name)
		if isAbsent && !slices.Contains(absentCodes, name) && !knownElsewhere(name) {
			t.Errorf("request code %d, %s, is in no table of the matrix: write down what it needs", code, name)
		}
		for i := range w.callers {
			c := &w.callers[i]
			base := try{addr: addr, code: code, caller: c, what: name}
			if c.refusal != "" || isSystem || isAbsent {
				base.refused = map[bool]string{true: policy.CodePermissionDenied, false: "request_not_supported"}[isSystem]
				if c.refusal != "" {
					base.refused = c.refusal
				}
				out = append(out, base)
				continue
			}
			for _, v := range views {
				if op.nameless && v.names.ns == "" && v.name != "bare" {
					continue // nothing that could be named otherwise
				}
				out = append(out, w.tryOf(base, op, v))
			}
		}
	}
	return out
}

func knownElsewhere(name string) bool {
	_, a := tenantCodes[name]
	_, b := tenantCodesOfNames[name]
	return a || b || slices.Contains(systemCodes, name) || slices.Contains(systemCodesOfNames, name)
}

func (w *world) tryOf(base try, op remotingOp, v view) try {
	ext, body := op.make(w, v.names)
	base.ext = maps.Clone(ext)
	if base.ext == nil {
		base.ext = map[string]string{}
	}
	if v.names.ns != "" {
		base.ext["ns"] = v.names.ns
	}
	base.what += ", " + v.name
	switch b := body.(type) {
	case nil:
	case []byte:
		base.body = b
	default:
		text, err := json.Marshal(b)
		check(w.t, err)
		base.body = text
	}
	allowed := met(base.caller, v.needs(op.needs))
	switch {
	case v.foreign && (!op.nameless || v.names.ns == foreignNS):
		base.refused = policy.CodeNamespaceMismatch
	case !allowed && op.hidden:
		base.absent = true
	case !allowed:
		base.refused = policy.CodePermissionDenied
	case op.lists != nil:
		base.lists = func(shown string) string { return op.lists(base.caller, v, shown) }
	}
	return base
}

// run sends all of them, many at a time, and returns how many there were.
func (w *world) run(tries []try) int {
	client, err := remoting.NewClient(remoting.ClientOptions{})
	check(w.t, err)
	defer func() { _ = client.Close() }()
	var failed atomic.Int64
	work := make(chan *try, 1024)
	var wg sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range work {
				if problem := w.problem(client, c); problem != "" && failed.Add(1) <= 50 {
					w.t.Errorf("%s by %+v: %s", c.what, *c.caller, problem)
				}
			}
		})
	}
	for i := range tries {
		work <- &tries[i]
	}
	close(work)
	wg.Wait()
	if n := failed.Load(); n > 50 {
		w.t.Errorf("%d cases failed; the first 50 are above", n)
	}
	return len(tries)
}

func (w *world) problem(client *remoting.Client, c *try) string {
	ext := maps.Clone(c.ext)
	if ext == nil {
		ext = map[string]string{}
	}
	policy.SignRemoting(ext, c.body, c.caller.id, []byte(c.caller.secret))
	f := wire.Request(c.code, c.body)
	for _, k := range slices.Sorted(maps.Keys(ext)) {
		f.Ext.Add(k, ext[k])
	}
	resp, err := client.Invoke(w.t.Context(), c.addr, f)
	if err != nil {
		return err.Error()
	}
	shown := string(resp.Body) + resp.Remark + fmt.Sprint(resp.Ext)
	code := codeIn(resp.Remark)
	switch {
	case strings.Contains(shown, foreignMark):
		return "the answer shows something of the other tenant: " + shown
	case code == "internal":
		return "it broke the server: " + resp.Remark
	case c.absent && resp.Code == wire.Success:
		return "it succeeded"
	case c.absent:
		return ""
	case c.refused != "" && (code != c.refused || resp.Code == wire.Success):
		return fmt.Sprintf("got %d %.200s, want %s", resp.Code, resp.Remark, c.refused)
	case c.refused == "" && slices.Contains(refusals, code):
		return fmt.Sprintf("got %d %.200s, want it to be let in", resp.Code, resp.Remark)
	case c.lists != nil:
		return c.lists(string(resp.Body))
	}
	return ""
}

// CrossTenant: every request code that there is, at broker and name server, by
// every scope of a key, with every way to name things of its own and of another
// tenant.
func TestCrossTenant_everyRequestCode(t *testing.T) {
	w := newWorld(t)
	n := w.run(w.tries(w.broker, tenantCodes, systemCodes))
	n += w.run(w.tries(w.names, tenantCodesOfNames, systemCodesOfNames))
	t.Logf("%d cases over remoting", n)
	if n < 80_000 {
		t.Errorf("only %d cases", n)
	}
}
