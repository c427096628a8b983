package matrix

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/policy"
)

// answer is what all answers of the service have.
type answer struct {
	status *v2.Status
	text   string // everything that came, in words
}

type method struct {
	call  func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error)
	needs []need
}

func named(name, ns string) *v2.Resource { return &v2.Resource{Name: name, ResourceNamespace: ns} }

func (n names) topicOf() *v2.Resource { return named(n.topic, n.ns) }
func (n names) groupOf() *v2.Resource { return named(n.group, n.ns) }

func (n names) queue() *v2.MessageQueue {
	return &v2.MessageQueue{Topic: n.topicOf(), Id: 0, Broker: &v2.Broker{Name: "b"}, Permission: v2.Permission_READ_WRITE}
}

func endpoints() *v2.Endpoints {
	return &v2.Endpoints{Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "127.0.0.1", Port: 8081}}}
}

// unary makes an answer of a unary call's result.
func unary[T interface{ GetStatus() *v2.Status }](m T, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{m.GetStatus(), fmt.Sprint(m)}, nil
}

var methods = map[string]method{
	"QueryRoute": {needs: []need{topicAny}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.QueryRoute(ctx, &v2.QueryRouteRequest{Topic: n.topicOf(), Endpoints: endpoints()}))
	}},
	"Heartbeat": {needs: []need{groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.Heartbeat(ctx, &v2.HeartbeatRequest{Group: n.groupOf(), ClientType: v2.ClientType_SIMPLE_CONSUMER}))
	}},
	"SendMessage": {needs: []need{topicPub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{{Topic: n.topicOf(), Body: []byte("own"),
			SystemProperties: &v2.SystemProperties{MessageId: "01A2B3C4D5E6F7000000000000000000AB", MessageType: v2.MessageType_NORMAL, BodyEncoding: v2.Encoding_IDENTITY,
				BornTimestamp: timestamppb.Now(), BornHost: "h"}}}}))
	}},
	"QueryAssignment": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.QueryAssignment(ctx, &v2.QueryAssignmentRequest{Topic: n.topicOf(), Group: n.groupOf(), Endpoints: endpoints()}))
	}},
	"ReceiveMessage": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		s, err := c.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{Group: n.groupOf(), MessageQueue: n.queue(), BatchSize: 1,
			FilterExpression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}, InvisibleDuration: durationpb.New(10 * time.Second),
			LongPollingTimeout: durationpb.New(0)})
		var next func() (*received, error)
		if err == nil {
			next = func() (*received, error) { m, err := s.Recv(); return &received{m}, err }
		}
		return drained(err, next)
	}},
	"AckMessage": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.AckMessage(ctx, &v2.AckMessageRequest{Topic: n.topicOf(), Group: n.groupOf(), Entries: []*v2.AckMessageEntry{{MessageId: "m", ReceiptHandle: "h"}}}))
	}},
	"ForwardMessageToDeadLetterQueue": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.ForwardMessageToDeadLetterQueue(ctx, &v2.ForwardMessageToDeadLetterQueueRequest{Topic: n.topicOf(), Group: n.groupOf(), MessageId: "m", ReceiptHandle: "h"}))
	}},
	"PullMessage": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		s, err := c.PullMessage(ctx, &v2.PullMessageRequest{Group: n.groupOf(), MessageQueue: n.queue(), BatchSize: 1, LongPollingTimeout: durationpb.New(0),
			FilterExpression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}})
		var next func() (*pulled, error)
		if err == nil {
			next = func() (*pulled, error) { m, err := s.Recv(); return &pulled{m}, err }
		}
		return drained(err, next)
	}},
	"UpdateOffset": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.UpdateOffset(ctx, &v2.UpdateOffsetRequest{Group: n.groupOf(), MessageQueue: n.queue(), Offset: 0}))
	}},
	"GetOffset": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.GetOffset(ctx, &v2.GetOffsetRequest{Group: n.groupOf(), MessageQueue: n.queue()}))
	}},
	"QueryOffset": {needs: []need{topicLook}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.QueryOffset(ctx, &v2.QueryOffsetRequest{MessageQueue: n.queue(), QueryOffsetPolicy: v2.QueryOffsetPolicy_BEGINNING}))
	}},
	"EndTransaction": {needs: []need{topicPub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.EndTransaction(ctx, &v2.EndTransactionRequest{Topic: n.topicOf(), MessageId: "m", TransactionId: strings.Repeat("7", 32), Resolution: v2.TransactionResolution_COMMIT}))
	}},
	"Telemetry": {needs: []need{groupSub, topicSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := c.Telemetry(ctx)
		if err != nil {
			return answer{}, err
		}
		err = s.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: &v2.Settings{ClientType: v2.ClientType_SIMPLE_CONSUMER.Enum(), AccessPoint: endpoints(),
			PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{Group: n.groupOf(), Subscriptions: []*v2.SubscriptionEntry{{Topic: n.topicOf(),
				Expression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}}}}}}}})
		if err != nil {
			return answer{}, err
		}
		return unary(s.Recv())
	}},
	"NotifyClientTermination": {call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.NotifyClientTermination(ctx, &v2.NotifyClientTerminationRequest{Group: n.groupOf()}))
	}},
	"ChangeInvisibleDuration": {needs: []need{topicSub, groupSub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.ChangeInvisibleDuration(ctx, &v2.ChangeInvisibleDurationRequest{Topic: n.topicOf(), Group: n.groupOf(), ReceiptHandle: "h", InvisibleDuration: durationpb.New(10 * time.Second), MessageId: "m"}))
	}},
	"RecallMessage": {needs: []need{topicPub}, call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.RecallMessage(ctx, &v2.RecallMessageRequest{Topic: n.topicOf(), RecallHandle: "h"}))
	}},
	"SyncLiteSubscription": {call: func(ctx context.Context, c v2.MessagingServiceClient, n names) (answer, error) {
		return unary(c.SyncLiteSubscription(ctx, &v2.SyncLiteSubscriptionRequest{Topic: n.topicOf(), Group: n.groupOf()}))
	}},
}

// Answers of streams: a status is one of several contents.
type received struct{ *v2.ReceiveMessageResponse }
type pulled struct{ *v2.PullMessageResponse }

// drained reads all of a stream; the last status counts.
func drained[T interface{ GetStatus() *v2.Status }](err error, next func() (T, error)) (answer, error) {
	var out answer
	for err == nil {
		var m T
		if m, err = next(); err == nil {
			out.text += fmt.Sprint(m)
			if m.GetStatus() != nil {
				out.status = m.GetStatus()
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

// CrossTenant: every method of the gRPC service, as its descriptor lists them,
// by every scope of a key, with every way to name things.
func TestCrossTenant_everyMethod(t *testing.T) {
	w := newWorld(t)
	list := v2.File_apache_rocketmq_v2_service_proto.Services().Get(0).Methods()
	for i := range list.Len() {
		if _, ok := methods[string(list.Get(i).Name())]; !ok {
			t.Errorf("method %s is not in the table of the matrix: write down what it needs", list.Get(i).Name())
		}
	}
	if list.Len() != len(methods) {
		t.Errorf("%d methods, the table has %d", list.Len(), len(methods))
	}
	cc, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	client := v2.NewMessagingServiceClient(cc)

	var n, failed atomic.Int64
	type job struct {
		name string
		c    *caller
		v    view
	}
	work := make(chan job, 256)
	var wg sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for j := range work {
				n.Add(1)
				if problem := tryMethod(t.Context(), client, methods[j.name], j.c, j.v); problem != "" && failed.Add(1) <= 50 {
					t.Errorf("%s, %s by %+v: %s", j.name, j.v.name, *j.c, problem)
				}
			}
		})
	}
	for name := range methods {
		for i := range w.callers {
			for _, v := range views {
				work <- job{name, &w.callers[i], v}
			}
		}
	}
	close(work)
	wg.Wait()
	t.Logf("%d cases over gRPC, %d failed", n.Load(), failed.Load())
	if n.Load() < 30_000 {
		t.Errorf("only %d cases", n.Load())
	}
}

func tryMethod(ctx context.Context, client v2.MessagingServiceClient, m method, c *caller, v view) string {
	const date = "20261129T120000Z"
	mac := hmac.New(sha1.New, []byte(c.secret))
	mac.Write([]byte(date))
	ctx = metadata.AppendToOutgoingContext(ctx, "x-mq-client-id", "m"+c.id, "x-mq-language", "GO", "x-mq-date-time", date,
		"authorization", fmt.Sprintf("MQv2-HMAC-SHA1 Credential=%s//Rocketmq, SignedHeaders=x-mq-date-time, Signature=%x", c.id, mac.Sum(nil)))
	got, err := m.call(ctx, client, v.names)
	if err != nil && status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.PermissionDenied {
		return err.Error()
	}
	text := got.status.GetMessage()
	if err != nil {
		text = status.Convert(err).Message()
	}
	code := codeIn(text)
	want := ""
	switch {
	case c.refusal != "":
		want = c.refusal
	case v.foreign && len(m.needs) == 0 && v.names.ns == ownNS: // it looks at no name
	case v.foreign:
		want = policy.CodeNamespaceMismatch
	case !met(c, v.needs(m.needs)):
		want = policy.CodePermissionDenied
	}
	switch {
	case strings.Contains(got.text+text, foreignMark):
		return "the answer shows something of the other tenant: " + got.text
	case code == "internal" || got.status.GetCode() == v2.Code_INTERNAL_ERROR:
		return "it broke the server: " + text
	case want != "" && code != want:
		return fmt.Sprintf("got %s %.200s, want %s", got.status.GetCode(), text, want)
	case want == "" && slices.Contains(refusals, code):
		return fmt.Sprintf("got %.200s, want it to be let in", text)
	}
	return ""
}
