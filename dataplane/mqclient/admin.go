package mqclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// PutTopic creates or changes a topic; it is routable when PutTopic returns.
// Attributes that are not in t stay as they are.
func (n Node) PutTopic(ctx context.Context, t wire.TopicConfig) error {
	var attributes []string
	for _, k := range slices.Sorted(maps.Keys(t.Attributes)) {
		attributes = append(attributes, "+"+k+"="+t.Attributes[k])
	}
	filter := string(t.TopicFilterType)
	if filter == "" {
		filter = "SINGLE_TAG"
	}
	_, err := n.Call(ctx, wire.UpdateAndCreateTopic, map[string]string{
		"topic": t.TopicName, "defaultTopic": "TBW102", "perm": strconv.Itoa(int(t.Perm)),
		"readQueueNums": strconv.Itoa(int(t.ReadQueueNums)), "writeQueueNums": strconv.Itoa(int(t.WriteQueueNums)),
		"topicFilterType": filter, "topicSysFlag": strconv.Itoa(int(t.TopicSysFlag)), "order": strconv.FormatBool(t.Order),
		"attributes": strings.Join(attributes, ","),
	}, nil)
	return err
}

// DeleteTopic removes a topic with its messages; a missing one is no error.
func (n Node) DeleteTopic(ctx context.Context, topic string) error {
	_, err := n.Call(ctx, wire.DeleteTopicInBroker, map[string]string{"topic": topic}, nil)
	return err
}

// Topics returns all topics and the table's version.
func (n Node) Topics(ctx context.Context) (map[string]wire.TopicConfig, wire.DataVersion, error) {
	var out wire.TopicConfigs
	err := n.callJSON(ctx, wire.GetAllTopicConfig, nil, nil, &out)
	return out.Topics, out.DataVersion, err
}

// DefaultGroup is a group that consumes, with 16 retries.
func DefaultGroup(name string) wire.GroupConfig {
	return wire.GroupConfig{
		Attributes: map[string]string{}, ConsumeBroadcastEnable: true, ConsumeEnable: true, ConsumeFromMinEnable: true,
		ConsumeTimeoutMinute: 15, GroupName: name, NotifyConsumerIDsChangedEnable: true, RetryMaxTimes: 16, RetryQueueNums: 1,
		WhichBrokerWhenConsumeSlowly: 1,
	}
}

// PutGroup creates or changes a consumer group with its retry topic.
func (n Node) PutGroup(ctx context.Context, g wire.GroupConfig) error {
	body, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode group: %w", err)
	}
	_, err = n.Call(ctx, wire.UpdateAndCreateGroup, nil, body)
	return err
}

// DeleteGroup removes a group with its retry topic, and its offsets if asked.
func (n Node) DeleteGroup(ctx context.Context, group string, cleanOffsets bool) error {
	_, err := n.Call(ctx, wire.DeleteGroup, map[string]string{"groupName": group, "cleanOffset": strconv.FormatBool(cleanOffsets)}, nil)
	return err
}

// Groups returns all consumer groups and the table's version.
func (n Node) Groups(ctx context.Context) (map[string]wire.GroupConfig, wire.DataVersion, error) {
	var out wire.GroupConfigs
	err := n.callJSON(ctx, wire.GetAllGroupConfig, nil, nil, &out)
	return out.Groups, out.DataVersion, err
}

// ErrPolicyStale answers a delta that does not follow the revision in force:
// push a snapshot.
var ErrPolicyStale = errors.New("policy is stale: a snapshot is needed")

// ApplyPolicy pushes a sealed policy and returns the revision in force after
// it, with ErrPolicyStale also.
func (n Node) ApplyPolicy(ctx context.Context, envelope []byte) (uint64, error) {
	resp, err := n.Call(ctx, wire.ApplyPolicy, nil, envelope, wire.PolicyStale)
	if err != nil {
		return 0, err
	}
	revision, err := strconv.ParseUint(resp.Ext.Value("revision"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("policy revision from %s: %w", n.addr, err)
	}
	if resp.Code == wire.PolicyStale {
		return revision, ErrPolicyStale
	}
	return revision, nil
}

// PolicyStatus returns the revision in force and the hash of its content.
func (n Node) PolicyStatus(ctx context.Context) (revision uint64, hash string, err error) {
	resp, err := n.Call(ctx, wire.GetPolicyStatus, nil, nil)
	if err != nil {
		return 0, "", err
	}
	if revision, err = strconv.ParseUint(resp.Ext.Value("revision"), 10, 64); err != nil {
		return 0, "", fmt.Errorf("policy revision from %s: %w", n.addr, err)
	}
	return revision, resp.Ext.Value("hash"), nil
}

// Usage returns the current usage report and its signature.
func (n Node) Usage(ctx context.Context) (body []byte, signature string, err error) {
	resp, err := n.Call(ctx, wire.PullUsage, nil, nil)
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.Ext.Value("signature"), nil
}

// AckUsage says that the report of this sequence is stored for good.
func (n Node) AckUsage(ctx context.Context, sequence uint64) error {
	_, err := n.Call(ctx, wire.AckUsage, map[string]string{"sequence": strconv.FormatUint(sequence, 10)}, nil)
	return err
}

// Denials returns a report of what was denied, as policy.DenialReport, and its
// signature. ack is the id of the report that is stored for good, empty for none.
func (n Node) Denials(ctx context.Context, ack string) (body []byte, signature string, err error) {
	resp, err := n.Call(ctx, wire.PullDenials, map[string]string{"ack": ack}, nil)
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.Ext.Value("signature"), nil
}

// Route asks a name server where a topic is; ok is false when nowhere.
func (n Node) Route(ctx context.Context, topic string) (route wire.TopicRoute, ok bool, err error) {
	resp, err := n.Call(ctx, wire.GetRouteInfoByTopic, map[string]string{"topic": topic}, nil, wire.TopicNotExist)
	if err != nil || resp.Code == wire.TopicNotExist {
		return route, false, err
	}
	return route, true, wire.Unmarshal(resp.Body, &route)
}

// Cluster asks a name server for all brokers.
func (n Node) Cluster(ctx context.Context) (wire.ClusterInfo, error) {
	var out wire.ClusterInfo
	err := n.callJSON(ctx, wire.GetBrokerClusterInfo, nil, nil, &out)
	return out, err
}

// ResetOffsets moves a group in a topic and returns what changed; names are
// physical. queueID -1 is all queues, then by time only; offset -1 is by time;
// a zero time is the end. With preview nothing moves.
func (n Node) ResetOffsets(ctx context.Context, group, topic string, queueID int32, offset int64, to time.Time, preview bool) ([]wire.ResetQueue, error) {
	ext := map[string]string{
		"group": group, "topic": topic, "queueId": strconv.Itoa(int(queueID)), "offset": strconv.FormatInt(offset, 10), "timestamp": "-1", "isForce": "true",
		"__SLUICE_PREVIEW": strconv.FormatBool(preview),
	}
	if !to.IsZero() {
		ext["timestamp"] = strconv.FormatInt(to.UnixMilli(), 10)
	}
	var out []wire.ResetQueue
	err := n.callJSON(ctx, wire.InvokeBrokerToResetOffset, ext, nil, &out)
	return out, err
}

// ListTransactions returns the half messages of a namespace that have not
// ended, at most limit of the half offsets from from on; topic, if not "", is
// physical and selects.
func (n Node) ListTransactions(ctx context.Context, namespace, topic string, from int64, limit int) (wire.TransactionList, error) {
	ext := map[string]string{"namespace": namespace, "from": strconv.FormatInt(from, 10), "limit": strconv.Itoa(limit)}
	if topic != "" {
		ext["topic"] = topic
	}
	var out wire.TransactionList
	err := n.callJSON(ctx, wire.ListTransactions, ext, nil, &out)
	return out, err
}

// SettleTransaction does one of wire.Settle… to a half message of a namespace
// and returns one of wire.Settled… with the message's topic, "" when unknown.
func (n Node) SettleTransaction(ctx context.Context, namespace string, halfOffset, physicalOffset int64, how string) (outcome, topic string, err error) {
	resp, err := n.Call(ctx, wire.SettleTransaction, map[string]string{
		"namespace": namespace, "how": how, "halfOffset": strconv.FormatInt(halfOffset, 10), "physicalOffset": strconv.FormatInt(physicalOffset, 10),
	}, nil)
	if err != nil {
		return "", "", err
	}
	return resp.Ext.Value("outcome"), resp.Ext.Value("topic"), nil
}
