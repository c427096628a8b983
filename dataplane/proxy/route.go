package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
)

// QueryRoute answers where a topic's queues are and which messages it takes.
func (s *service) QueryRoute(ctx context.Context, req *v2.QueryRouteRequest) (*v2.QueryRouteResponse, error) {
	resp := &v2.QueryRouteResponse{}
	resp.Status = s.f.serve(ctx, "query_route", func(c *call) error {
		t, err := c.topicConfig(req.GetTopic(), policy.OperationPub, policy.OperationSub, policy.OperationDescribe)
		if err != nil {
			return err
		}
		at, err := s.f.endpoints(req.GetEndpoints())
		if err != nil {
			return err
		}
		resp.MessageQueues, err = s.f.queues(t, req.GetTopic(), at)
		return err
	})
	return resp, nil
}

// topicConfig admits the caller to a topic and returns its configuration.
func (c *call) topicConfig(r *v2.Resource, ops ...policy.Operation) (store.TopicConfig, error) {
	if err := c.in(r); err != nil {
		return store.TopicConfig{}, err
	}
	physical, err := c.topic(r, ops...)
	if err != nil {
		return store.TopicConfig{}, err
	}
	return c.existing(physical)
}

func (c *call) existing(topic string) (store.TopicConfig, error) {
	t, ok := c.f.core.Topic(topic)
	if !ok {
		return t, &broker.Error{Code: broker.CodeTopicNotFound, Text: "the topic does not exist: create it first", Topic: topic}
	}
	return t, nil
}

// queues lists a topic's queues. Those that can be read and written come
// first: some SDKs send to queue 0 only.
func (f *Front) queues(t store.TopicConfig, name *v2.Resource, at *v2.Endpoints) ([]*v2.MessageQueue, error) {
	reads, writes := t.ReadQueueNums, t.WriteQueueNums
	if t.Perm&store.PermRead == 0 {
		reads = 0
	}
	if t.Perm&store.PermWrite == 0 {
		writes = 0
	}
	n := max(reads, writes)
	if n == 0 {
		return nil, &broker.Error{Code: broker.CodeNoPermission, Text: "the topic can be neither read nor written", Topic: t.TopicName}
	}
	types, where := acceptedTypes(t), f.brokerAt(at)
	out := make([]*v2.MessageQueue, n)
	for i := range n {
		permission := v2.Permission_READ_WRITE
		switch {
		case i >= writes:
			permission = v2.Permission_READ
		case i >= reads:
			permission = v2.Permission_WRITE
		}
		out[i] = &v2.MessageQueue{Topic: name, Id: int32(i), Permission: permission, Broker: where, AcceptMessageTypes: types}
	}
	return out, nil
}

func (f *Front) brokerAt(at *v2.Endpoints) *v2.Broker {
	return &v2.Broker{Name: f.core.Config().Name, Id: 0, Endpoints: at}
}

// acceptedTypes are the message types that a topic takes.
func acceptedTypes(t store.TopicConfig) []v2.MessageType {
	switch t.Attributes[store.AttributeMessageType] {
	case "FIFO":
		return []v2.MessageType{v2.MessageType_FIFO}
	case "DELAY":
		return []v2.MessageType{v2.MessageType_DELAY}
	case "TRANSACTION":
		return []v2.MessageType{v2.MessageType_TRANSACTION}
	case "MIXED":
		return []v2.MessageType{v2.MessageType_NORMAL, v2.MessageType_FIFO, v2.MessageType_DELAY, v2.MessageType_TRANSACTION}
	}
	return []v2.MessageType{v2.MessageType_NORMAL}
}

// QueryAssignment answers which queues a push consumer polls: one virtual
// queue of this broker, the same for every member of the group, because the
// core shares messages out when they are received.
func (s *service) QueryAssignment(ctx context.Context, req *v2.QueryAssignmentRequest) (*v2.QueryAssignmentResponse, error) {
	resp := &v2.QueryAssignmentResponse{}
	resp.Status = s.f.serve(ctx, "query_assignment", func(c *call) error {
		topic, group, err := c.consuming(req.GetTopic(), req.GetGroup())
		if err != nil {
			return err
		}
		t, err := c.existing(topic)
		if err != nil {
			return err
		}
		if t.Perm&store.PermRead == 0 {
			return &broker.Error{Code: broker.CodeNoPermission, Text: "no readable queue", Topic: topic}
		}
		if err := c.unordered(group); err != nil {
			return err
		}
		at, err := s.f.endpoints(req.GetEndpoints())
		if err != nil {
			return err
		}
		resp.Assignments = []*v2.Assignment{{MessageQueue: &v2.MessageQueue{
			Topic: req.GetTopic(), Id: -1, Permission: v2.Permission_READ_WRITE, Broker: s.f.brokerAt(at), AcceptMessageTypes: acceptedTypes(t),
		}}}
		return nil
	})
	return resp, nil
}

// unordered refuses groups that want order, which receiving cannot keep yet:
// better no message than one out of order.
func (c *call) unordered(group string) error {
	g, ok := c.f.core.Group(group)
	if !ok {
		return &broker.Error{Code: broker.CodeGroupNotFound, Text: "the consumer group does not exist: create it first", Group: group}
	}
	if g.ConsumeMessageOrderly {
		return notYet("consuming in order is not supported over gRPC yet: use a 4.x client for group %s, or a group without order", c.v.ShowGroup(group))
	}
	return nil
}

// maxAddresses bounds the addresses that are echoed to a client.
const maxAddresses = 16

// endpoints are the addresses that a client is sent to: the configured ones,
// else those that it dialled.
func (f *Front) endpoints(dialled *v2.Endpoints) (*v2.Endpoints, error) {
	if f.advertise != nil {
		return f.advertise, nil
	}
	bad := len(dialled.GetAddresses()) == 0 || len(dialled.GetAddresses()) > maxAddresses
	for _, a := range dialled.GetAddresses() {
		bad = bad || a.GetHost() == "" || len(a.GetHost()) > 255 || a.GetPort() < 1 || a.GetPort() > 65535
	}
	switch dialled.GetScheme() {
	case v2.AddressScheme_IPv4, v2.AddressScheme_IPv6:
	case v2.AddressScheme_DOMAIN_NAME:
		bad = bad || len(dialled.GetAddresses()) != 1
	default:
		bad = true
	}
	if bad {
		return nil, fail(v2.Code_ILLEGAL_ACCESS_POINT, "access_point_invalid", "the request names no usable endpoints: give host:port of this server")
	}
	return dialled, nil
}

// parseEndpoints reads a list of host:port, all of one kind; nil for none.
func parseEndpoints(list []string) (*v2.Endpoints, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := &v2.Endpoints{}
	for _, text := range list {
		host, portText, err := net.SplitHostPort(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not host:port: %w", text, err)
		}
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil || port == 0 || host == "" {
			return nil, fmt.Errorf("%q is not host:port with a port of 1 to 65535", text)
		}
		scheme := v2.AddressScheme_DOMAIN_NAME
		if ip, err := netip.ParseAddr(host); err == nil {
			scheme = v2.AddressScheme_IPv6
			if ip.Unmap().Is4() {
				scheme = v2.AddressScheme_IPv4
			}
			if ip.IsUnspecified() {
				return nil, fmt.Errorf("%q cannot be dialled", text)
			}
		}
		if out.Scheme != 0 && out.Scheme != scheme || scheme == v2.AddressScheme_DOMAIN_NAME && len(out.Addresses) > 0 {
			return nil, errors.New("several addresses must all be IPv4 or all IPv6: SDKs take one domain name only")
		}
		out.Scheme = scheme
		out.Addresses = append(out.Addresses, &v2.Address{Host: host, Port: int32(port)})
	}
	return out, nil
}
