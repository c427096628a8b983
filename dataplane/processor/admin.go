package processor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// json makes a success with a JSON body.
func (r *request) json(v any) (*wire.Frame, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	resp := r.ok()
	resp.Body = body
	return resp, nil
}

// putTopic creates or changes a topic. Attributes come as "+key=value,-key".
func (p *Processor) putTopic(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	t := store.DefaultTopicConfig(fields.Text("topic"))
	t.ReadQueueNums = int(fields.Int32("readQueueNums"))
	t.WriteQueueNums = int(fields.Int32("writeQueueNums"))
	t.Perm = int(fields.Int32("perm"))
	t.TopicFilterType = fields.Text("topicFilterType")
	t.TopicSysFlag = int(fields.OptionalInt32("topicSysFlag", 0))
	t.Order = fields.OptionalBool("order", false)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.view(r)
	if err != nil {
		return nil, err
	}
	if _, err := v.Topic(t.TopicName, policy.OperationManage); err != nil {
		return nil, err
	}
	if old, ok := p.b.Topic(t.TopicName); ok {
		maps.Copy(t.Attributes, old.Attributes)
	}
	if err := changeAttributes(t.Attributes, fields.Optional("attributes")); err != nil {
		return nil, err
	}
	if err := p.b.PutTopic(r.ctx, t); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

func changeAttributes(attributes map[string]string, text string) error {
	for change := range strings.SplitSeq(text, ",") {
		change = strings.TrimSpace(change)
		switch {
		case change == "":
		case change[0] == '+':
			k, value, ok := strings.Cut(change[1:], "=")
			if !ok || k == "" {
				return &wire.FieldError{Field: "attributes", Problem: "has an addition that is not +key=value"}
			}
			attributes[k] = value
		case change[0] == '-':
			delete(attributes, change[1:])
		default:
			return &wire.FieldError{Field: "attributes", Problem: "has an element that begins with neither + nor -"}
		}
	}
	return nil
}

func (p *Processor) deleteTopic(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topic := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	if err := p.b.DeleteTopic(r.ctx, topic); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

func (p *Processor) putGroup(r *request) (*wire.Frame, error) {
	g := store.DefaultGroupConfig("")
	if err := wire.Unmarshal(r.f.Body, &g); err != nil {
		return nil, err
	}
	if err := p.b.PutGroup(r.ctx, g); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

func (p *Processor) deleteGroup(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	group := fields.Text("groupName")
	clean := fields.OptionalBool("cleanOffset", false)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	if err := p.b.DeleteGroup(r.ctx, group, clean); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

// topics lists the topics that the caller may see. The version counts changes
// of everybody's topics, so only the system gets it.
func (p *Processor) topics(r *request) (*wire.Frame, error) {
	v, err := p.charged(r)
	if err != nil {
		return nil, err
	}
	all, version := p.b.Topics()
	if !v.System() {
		version = store.DataVersion{}
	}
	out := make(map[string]store.TopicConfig, len(all))
	for name, t := range all {
		if shown := v.ShowTopic(name); shown != "" {
			if _, err := v.TopicAny(shown, anyReader...); err != nil {
				continue
			}
			t.TopicName = shown
			out[shown] = t
		}
	}
	return r.json(struct {
		Version store.DataVersion            `json:"dataVersion"`
		Topics  map[string]store.TopicConfig `json:"topicConfigTable"`
	}{version, out})
}

func (p *Processor) topic(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	physical, err := v.TopicAny(name, anyReader...)
	if err != nil {
		return nil, err
	}
	t, ok := p.b.Topic(physical)
	if !ok {
		return nil, &broker.Error{Code: broker.CodeTopicNotFound, Text: "the topic does not exist", Topic: physical}
	}
	t.TopicName = v.ShowTopic(physical)
	return r.json(t)
}

// groups lists the consumer groups that the caller may see.
func (p *Processor) groups(r *request) (*wire.Frame, error) {
	v, err := p.charged(r)
	if err != nil {
		return nil, err
	}
	all, version := p.b.Groups()
	if !v.System() {
		version = store.DataVersion{}
	}
	out := make(map[string]store.GroupConfig, len(all))
	for name, g := range all {
		if shown := v.ShowGroup(name); shown != "" && mayLook(v, shown) {
			g.GroupName = shown
			out[shown] = g
		}
	}
	return r.json(struct {
		Version   store.DataVersion            `json:"dataVersion"`
		Forbidden map[string]any               `json:"forbiddenTable"`
		Groups    map[string]store.GroupConfig `json:"subscriptionGroupTable"`
	}{version, map[string]any{}, out})
}

func mayLook(v *policy.View, group string) bool {
	_, err := v.Group(group, policy.OperationSub)
	if err != nil {
		_, err = v.Group(group, policy.OperationDescribe)
	}
	return err == nil
}

func (p *Processor) group(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "group")
	if err != nil {
		return nil, err
	}
	g, ok := p.b.Group(group)
	if !ok {
		return nil, &broker.Error{Code: broker.CodeGroupNotFound, Text: "the consumer group does not exist", Group: group}
	}
	g.GroupName = r.v.ShowGroup(group)
	return r.json(g)
}

func (p *Processor) groupsOfTopic(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	topic, err := v.TopicAny(name, anyReader...)
	if err != nil {
		return nil, err
	}
	groups := []string{}
	for _, g := range p.b.GroupsOf(topic) {
		if shown := v.ShowGroup(g); shown != "" && mayLook(v, shown) {
			groups = append(groups, shown)
		}
	}
	return r.json(struct {
		Groups []string `json:"groupList"`
	}{groups})
}

func (p *Processor) topicStats(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	topic, err := v.TopicAny(name, anyReader...)
	if err != nil {
		return nil, err
	}
	stats, err := p.b.TopicStats(topic)
	if err != nil {
		return nil, err
	}
	shown := v.ShowTopic(topic)
	queues, values := make([]wire.MessageQueue, len(stats)), make([]wire.QueueRange, len(stats))
	for i, s := range stats {
		queues[i] = wire.MessageQueue{BrokerName: p.b.Config().Name, QueueID: s.QueueID, Topic: shown}
		values[i] = wire.QueueRange{LastUpdateTimestamp: s.LastStored, MaxOffset: s.Max, MinOffset: s.Min}
	}
	resp := r.ok()
	resp.Body, err = wire.AppendQueueTable(nil, "offsetTable", queues, values, `,"topicPutTps":0.0`)
	return resp, err
}

func (p *Processor) consumeStats(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "consumerGroup")
	if err != nil {
		return nil, err
	}
	topic := ""
	if name := r.f.Ext.Value("topic"); name != "" {
		if topic, err = r.v.TopicAny(name, policy.OperationSub, policy.OperationDescribe); err != nil {
			return nil, err
		}
	}
	stats, err := p.b.GroupStats(group, topic)
	if err != nil {
		return nil, err
	}
	var queues []wire.MessageQueue
	var values []wire.OffsetProgress
	for _, s := range stats {
		shown := r.v.ShowTopic(s.Topic)
		if shown == "" {
			continue
		}
		queues = append(queues, wire.MessageQueue{BrokerName: p.b.Config().Name, QueueID: s.QueueID, Topic: shown})
		values = append(values, wire.OffsetProgress{BrokerOffset: s.Max, ConsumerOffset: s.Offset, LastTimestamp: s.LastConsumed, PullOffset: s.Offset})
	}
	resp := r.ok()
	// The table's own member order is the reference's: consumeTps first is not
	// needed by any reader.
	resp.Body, err = wire.AppendQueueTable(nil, "offsetTable", queues, values, `,"consumeTps":0.0`)
	return resp, err
}

// brokerConfig shows what operators' tools look for; no path, no secret.
func (p *Processor) brokerConfig(r *request) (*wire.Frame, error) {
	c := p.b.Config()
	_, version := p.b.Topics()
	text, err := json.Marshal(version)
	if err != nil {
		return nil, err
	}
	resp := r.ok()
	resp.Ext.Add("version", string(text))
	resp.Body = fmt.Appendf(nil, "brokerClusterName=%s\nbrokerName=%s\nbrokerId=%d\nmaxMessageSize=%d\n", c.Cluster, c.Name, c.ID, c.MaxMessageBytes)
	return resp, nil
}

// updateBrokerConfig is refused to everybody: settings come from the config
// file, never over the message path.
func (p *Processor) updateBrokerConfig(r *request) (*wire.Frame, error) {
	return p.reply(r, wire.NoPermission, policy.CodePermissionDenied, "broker settings cannot be changed by a request", ""), nil
}

func (p *Processor) runtimeInfo(r *request) (*wire.Frame, error) {
	low, top := p.b.LogRange()
	topics, _ := p.b.Topics()
	table := map[string]string{
		"brokerVersionDesc": "V5_3_0", "brokerActive": "true",
		"bootTimestamp":                         strconv.FormatInt(p.b.Booted().UnixMilli(), 10),
		"startAcceptSendRequestTimeStamp":       strconv.FormatInt(p.b.Booted().UnixMilli(), 10),
		"commitLogMinOffset":                    strconv.FormatInt(low, 10),
		"commitLogMaxOffset":                    strconv.FormatInt(top, 10),
		"earliestMessageTimeStamp":              "-1",
		"commitLogDiskRatio":                    "0.0",
		"consumeQueueDiskRatio":                 "0.0",
		"dispatchBehindBytes":                   "0",
		"putTps":                                "0.0 0.0 0.0",
		"getTransferredTps":                     "0.0 0.0 0.0",
		"getTransferedTps":                      "0.0 0.0 0.0",
		"getFoundTps":                           "0.0 0.0 0.0",
		"getMissTps":                            "0.0 0.0 0.0",
		"getTotalTps":                           "0.0 0.0 0.0",
		"msgPutTotalTodayNow":                   "0",
		"msgPutTotalTodayMorning":               "0",
		"msgPutTotalYesterdayMorning":           "0",
		"msgGetTotalTodayNow":                   "0",
		"msgGetTotalTodayMorning":               "0",
		"msgGetTotalYesterdayMorning":           "0",
		"sendThreadPoolQueueSize":               "0",
		"sendThreadPoolQueueCapacity":           "0",
		"pullThreadPoolQueueSize":               "0",
		"pullThreadPoolQueueCapacity":           "0",
		"queryThreadPoolQueueSize":              "0",
		"queryThreadPoolQueueCapacity":          "0",
		"pageCacheLockTimeMills":                "0",
		"sendThreadPoolQueueHeadWaitTimeMills":  "0",
		"pullThreadPoolQueueHeadWaitTimeMills":  "0",
		"queryThreadPoolQueueHeadWaitTimeMills": "0",
		"topics":                                strconv.Itoa(len(topics)),
	}
	return r.json(wire.KVTable{Table: table})
}

func (p *Processor) applyPolicy(r *request) (*wire.Frame, error) {
	revision, err := p.policy.Apply(r.f.Body)
	resp := r.ok()
	switch {
	case errors.Is(err, policy.ErrStale):
		resp = p.reply(r, wire.PolicyStale, "policy_stale", "the delta does not follow the revision in force: send a snapshot", "")
	case errors.Is(err, policy.ErrUntrusted):
		return p.reply(r, wire.NoPermission, "policy_untrusted", "the policy is not signed by a trusted key", ""), nil
	case err != nil:
		return nil, err
	}
	resp.Ext.Add("revision", strconv.FormatUint(revision, 10))
	return resp, nil
}

func (p *Processor) policyStatus(r *request) (*wire.Frame, error) {
	resp := r.ok()
	resp.Ext.Add("revision", strconv.FormatUint(p.policy.Revision(), 10))
	resp.Ext.Add("hash", p.policy.Hash())
	return resp, nil
}

func (p *Processor) pullUsage(r *request) (*wire.Frame, error) {
	if p.usage == nil {
		return p.notSupported(r)
	}
	report, signature, err := p.usage.Report()
	if err != nil {
		return nil, err
	}
	resp := r.ok()
	resp.Ext.Add("signature", signature)
	resp.Body = report
	return resp, nil
}

func (p *Processor) ackUsage(r *request) (*wire.Frame, error) {
	if p.usage == nil {
		return p.notSupported(r)
	}
	fields := wire.ReadFields(r.f.Ext)
	sequence := fields.Int64("sequence")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	if err := p.usage.Ack(uint64(sequence)); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

// pullDenials tells what was denied, and forgets what the caller acknowledges.
func (p *Processor) pullDenials(r *request) (*wire.Frame, error) {
	report, signature, err := p.policy.Denials(r.f.Ext.Value("ack"))
	if err != nil {
		return nil, err
	}
	resp := r.ok()
	resp.Ext.Add("signature", signature)
	resp.Body = report
	return resp, nil
}
