package cases

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// signer is what a request is signed with: a key, or a token where jwt is set.
type signer struct{ id, secret, jwt string }

// line is a remoting connection whose frames are written by hand, for what the
// official clients hide: retries, reconnects, and which answer was which. One
// goroutine uses it at a time.
type line struct {
	conn   net.Conn
	opaque int32
}

func dialLine(t testing.TB, addr string) *line {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &line{conn: c}
}

// send writes one signed request.
func (l *line) send(s signer, code int32, ext map[string]string, body []byte) error {
	ext = maps.Clone(ext)
	if s.jwt != "" {
		ext["AccessKey"], ext["SecurityToken"] = "jwt", s.jwt
	} else {
		policy.SignRemoting(ext, body, s.id, []byte(s.secret))
	}
	f := wire.Request(code, body)
	l.opaque++
	f.Opaque = l.opaque
	for _, k := range slices.Sorted(maps.Keys(ext)) {
		f.Ext.Add(k, ext[k])
	}
	raw, err := wire.AppendFrame(nil, f)
	if err != nil {
		return err
	}
	_, err = l.conn.Write(raw)
	return err
}

// read waits for the next answer, at most for limit; requests of the server are
// left aside.
func (l *line) read(limit time.Duration) (*wire.Frame, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	for {
		var size [4]byte
		if _, err := io.ReadFull(l.conn, size[:]); err != nil {
			return nil, err
		}
		raw := append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
		if _, err := io.ReadFull(l.conn, raw[4:]); err != nil {
			return nil, err
		}
		f, err := wire.Decode(raw)
		if err != nil || f.IsResponse() {
			return f, err
		}
	}
}

// call sends and waits; an answer that is no success is an error.
func (l *line) call(s signer, code int32, ext map[string]string, body []byte) error {
	if err := l.send(s, code, ext, body); err != nil {
		return err
	}
	f, err := l.read(10 * time.Second)
	if err != nil {
		return err
	}
	if f.Code != wire.Success {
		return fmt.Errorf("code %d: %s", f.Code, f.Remark)
	}
	return nil
}

func (l *line) produce(s signer, topic, body string) error {
	h := wire.SendHeader{ProducerGroup: "raw", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 0,
		BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1}
	return l.call(s, wire.SendMessageV2, h.Fields(wire.SendMessageV2).Map(), []byte(body))
}

func (l *line) route(s signer, topic string) error {
	return l.call(s, wire.GetRouteInfoByTopic, map[string]string{"topic": topic}, nil)
}

// park sends a pull that waits at the end of a queue.
func (l *line) park(s signer, topic, group string, hold time.Duration) error {
	h := wire.PullHeader{ConsumerGroup: group, Topic: topic, QueueID: 0, MaxMessages: 1, SysFlag: wire.PullFlagSubscription | wire.PullFlagSuspend, Subscription: "*", ExpressionType: "TAG",
		SuspendTimeoutMillis: hold.Milliseconds()}
	return l.send(s, wire.PullMessage, h.Fields().Map(), nil)
}

// rpc is a gRPC connection whose calls are written by hand.
type rpc struct{ v2.MessagingServiceClient }

func dialRPC(t testing.TB, addr string) rpc {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	return rpc{v2.NewMessagingServiceClient(cc)}
}

// signed is ctx with the credentials that every call carries.
func (s signer) signed(ctx context.Context, client string) context.Context {
	auth := "Bearer " + s.jwt
	date := time.Now().UTC().Format("20060102T150405Z")
	if s.jwt == "" {
		mac := hmac.New(sha1.New, []byte(s.secret))
		mac.Write([]byte(date))
		auth = fmt.Sprintf("MQv2-HMAC-SHA1 Credential=%s//Rocketmq, SignedHeaders=x-mq-date-time, Signature=%x", s.id, mac.Sum(nil))
	}
	return metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", client, "x-mq-language", "GO", "x-mq-date-time", date, "authorization", auth)
}

func succeeded(s *v2.Status, err error) error {
	if err != nil {
		return err
	}
	if s.GetCode() != v2.Code_OK {
		return fmt.Errorf("%s: %s", s.GetCode(), s.GetMessage())
	}
	return nil
}

func (r rpc) produce(ctx context.Context, topic, id, body string) error {
	resp, err := r.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{{Topic: &v2.Resource{Name: topic}, Body: []byte(body),
		SystemProperties: &v2.SystemProperties{MessageId: id, MessageType: v2.MessageType_NORMAL, BodyEncoding: v2.Encoding_IDENTITY, BornTimestamp: timestamppb.Now(), BornHost: "h"}}}})
	return succeeded(resp.GetStatus(), err)
}

func (r rpc) queues(ctx context.Context, topic string) ([]*v2.MessageQueue, error) {
	resp, err := r.QueryRoute(ctx, &v2.QueryRouteRequest{Topic: &v2.Resource{Name: topic},
		Endpoints: &v2.Endpoints{Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "127.0.0.1", Port: 8081}}}})
	return resp.GetMessageQueues(), succeeded(resp.GetStatus(), err)
}

// receive waits for a message and says how the wait ended; nil: it is over, and
// nobody was refused.
func (r rpc) receive(ctx context.Context, q *v2.MessageQueue, group string, hold time.Duration) error {
	s, err := r.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{Group: &v2.Resource{Name: group}, MessageQueue: q, BatchSize: 1,
		FilterExpression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}, InvisibleDuration: durationpb.New(30 * time.Second), LongPollingTimeout: durationpb.New(hold)})
	for err == nil {
		var m *v2.ReceiveMessageResponse
		if m, err = s.Recv(); err == nil && m.GetStatus() != nil && m.GetStatus().GetCode() != v2.Code_OK && m.GetStatus().GetCode() != v2.Code_MESSAGE_NOT_FOUND {
			err = errors.New(m.GetStatus().GetCode().String() + ": " + m.GetStatus().GetMessage())
		}
	}
	if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
		return nil
	}
	return err
}

// telemetry opens the stream that a client keeps open and tells its settings.
func (r rpc) telemetry(ctx context.Context, topic, group string) (v2.MessagingService_TelemetryClient, error) {
	s, err := r.Telemetry(ctx)
	if err != nil {
		return nil, err
	}
	err = s.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: &v2.Settings{ClientType: v2.ClientType_SIMPLE_CONSUMER.Enum(),
		AccessPoint: &v2.Endpoints{Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "127.0.0.1", Port: 8081}}},
		PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{Group: &v2.Resource{Name: group}, Subscriptions: []*v2.SubscriptionEntry{{Topic: &v2.Resource{Name: topic},
			Expression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}}}}}}}})
	if err != nil {
		return nil, err
	}
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	return s, succeeded(m.GetStatus(), nil)
}
