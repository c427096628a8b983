package cases

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/testcluster"
)

type messagePage struct {
	Items []struct {
		MessageID  string            `json:"message_id"`
		Topic      string            `json:"topic"`
		Queue      int32             `json:"queue"`
		Offset     string            `json:"offset"`
		Body       string            `json:"body"`
		Tag        string            `json:"tag"`
		Keys       []string          `json:"keys"`
		Properties map[string]string `json:"properties"`
	} `json:"items"`
	NextPageToken string `json:"next_page_token"`
}

// look asks for messages of a topic.
func look(t *testing.T, a *testcluster.Account, topic string, q url.Values) messagePage {
	t.Helper()
	var page messagePage
	must(t, a.Do(t.Context(), "GET", "/v1/namespaces/"+a.NamespaceID+"/topics/"+topic+"/messages?"+q.Encode(), nil, &page))
	return page
}

// Large bodies end a page early, and what a client compressed is shown plain.
func TestMessages_largeBodies(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("large@example.com")
	send := remotingSend(t, key{c.Addresses, a.KeyID, a.Secret}, "hello")
	want := map[string]bool{}
	for i := range 11 {
		body := strings.Repeat(fmt.Sprint(i, " large "), 200_000) // 1.6 MB and more
		want[body] = true
		must(t, send([]byte(body), ""))
	}
	must(t, testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) {
		pages, got := 0, map[string]bool{}
		for q := (url.Values{"page_size": {"100"}}); ; pages++ {
			page := look(t, a, "hello", q)
			total := 0
			for _, m := range page.Items {
				total += len(m.Body)
				if !want[m.Body] {
					return false, fmt.Errorf("a body of %d bytes that nobody sent: %.40q", len(m.Body), m.Body)
				}
				got[m.Body] = true
			}
			if total > 12<<20 {
				return false, fmt.Errorf("a page of %d bytes", total)
			}
			if page.NextPageToken == "" {
				return len(got) == len(want) && pages > 0, nil
			}
			q.Set("page_token", page.NextPageToken)
		}
	}))
}

// node is a bare caller of the broker with an account's key.
func node(t *testing.T, c *testcluster.Cluster, a *testcluster.Account) mqclient.Node {
	t.Helper()
	client, err := mqclient.New(mqclient.Config{KeyID: a.KeyID, Secret: []byte(a.Secret)})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client.At(c.Broker)
}

// Many messages with one id, each small as it is stored and large unpacked,
// come in pages, and their bytes, of which JSON would make six each, as base64.
func TestMessages_manyLargeOnesWithOneID(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("bomb@example.com")
	broker := node(t, c, a)
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, err := w.Write(make([]byte, 4<<20))
	must(t, errors.Join(err, w.Close()))
	const n = 12
	for i := range n {
		props := message.AppendProperty(nil, message.KeyUniqueKey, "ONE_ID")
		h := wire.SendHeader{ProducerGroup: "cases", Topic: "hello", DefaultTopic: "TBW102", QueueID: int32(i % 4), SysFlag: message.SysFlagCompressed,
			BornTimestamp: time.Now().UnixMilli(), Properties: string(props), MaxReconsumeTimes: -1}
		_, err := broker.Call(t.Context(), wire.SendMessageV2, h.Fields(wire.SendMessageV2).Map(), packed.Bytes())
		must(t, err)
	}
	seen := map[string]bool{}
	for q := (url.Values{"message_id": {"ONE_ID"}, "page_size": {"100"}}); ; {
		page := look(t, a, "hello", q)
		bytes := 0
		for _, m := range page.Items {
			seen[fmt.Sprint(m.Queue, ".", m.Offset)] = true
			bytes += len(m.Body)
			if body, err := base64.StdEncoding.DecodeString(m.Body); err != nil || len(body) != 4<<20 {
				t.Errorf("a body of %d bytes, %v", len(body), err)
			}
		}
		if bytes > 10<<20 {
			t.Fatalf("a page of %d messages with %d bytes", len(page.Items), bytes)
		}
		if page.NextPageToken == "" {
			break
		}
		q.Set("page_token", page.NextPageToken)
	}
	if len(seen) != n {
		t.Errorf("%d messages, want %d", len(seen), n)
	}
}

// The topics of a group are empty before its first dead letter: a look says so
// at once, and a tail shows that letter.
func TestMessages_beforeTheFirstDeadLetter(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("letters@example.com")
	const letters = "%25DLQ%25hello-group"
	for _, topic := range []string{letters, "%25RETRY%25hello-group"} {
		for _, q := range []url.Values{{}, {"key": {"k"}}, {"message_id": {"x"}}, {"queue": {"0"}}, {"queue": {"0"}, "offset": {"0"}}} {
			begun := time.Now()
			if page := look(t, a, topic, q); len(page.Items) != 0 || page.NextPageToken != "" {
				t.Errorf("%s %v: %+v", topic, q, page)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s %v took %s", topic, q, took)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", a.Base+"/v1/namespaces/"+a.NamespaceID+"/topics/"+letters+"/tail", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+a.Token)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && lines.Text() != "event: ready" {
	}
	broker := node(t, c, a)
	sent, err := broker.Send(ctx, mqclient.SendRequest{Topic: "hello", QueueID: -1, Body: []byte("dead"), Born: time.Now()})
	must(t, err)
	_, offset, err := message.ParseOffsetID(sent.MessageID)
	must(t, err)
	back := map[string]string{"group": "hello-group", "offset": strconv.FormatInt(offset, 10), "delayLevel": "-1"}
	must(t, testcluster.Eventually(ctx, 10*time.Second, func() (bool, error) {
		_, err := broker.Call(ctx, wire.ConsumerSendMsgBack, back, nil)
		return err == nil, err
	}))
	for lines.Scan() && lines.Text() != "event: message" {
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if !strings.Contains(lines.Text(), `"body":"dead"`) {
		t.Errorf("the tail showed %q, %v", lines.Text(), lines.Err())
	}
	if page := look(t, a, letters, url.Values{}); len(page.Items) != 1 || page.Items[0].Body != "dead" {
		t.Errorf("after the first letter: %+v", page)
	}
}

// Pages by time, by place and by id show every message once, whatever the size
// of a page; another tenant's id finds nothing (case B155).
func TestMessages_pagesAndLookups(t *testing.T) {
	c := testcluster.Start(t)
	a, b := c.SignUp("looker@example.com"), c.SignUp("other@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	send := remotingSend(t, k, "hello")
	const n = 23
	for i := range n {
		must(t, send(fmt.Appendf(nil, "message %d", i), fmt.Sprint("sum", i)))
	}
	// A stored message is readable a moment after its answer.
	must(t, testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) {
		return len(look(t, a, "hello", url.Values{"page_size": {"100"}}).Items) == n, nil
	}))
	for _, size := range []string{"1", "2", "7", "100"} {
		seen := map[string]int{}
		q := url.Values{"page_size": {size}}
		for {
			page := look(t, a, "hello", q)
			for _, m := range page.Items {
				seen[m.Body]++
				if m.Topic != "hello" || m.Properties["sum"] == "" {
					t.Errorf("message %+v", m)
				}
				if len(m.Properties) != 1 {
					t.Errorf("properties %v: want the user's own", m.Properties)
				}
			}
			if page.NextPageToken == "" {
				break
			}
			q.Set("page_token", page.NextPageToken)
		}
		if len(seen) != n {
			t.Errorf("pages of %s: %d different messages, want %d", size, len(seen), n)
		}
		for body, times := range seen {
			if times != 1 {
				t.Errorf("pages of %s: %q came %d times", size, body, times)
			}
		}
	}
	first := look(t, a, "hello", url.Values{"page_size": {"1"}}).Items[0]
	byID := look(t, a, "hello", url.Values{"message_id": {first.MessageID}})
	if len(byID.Items) != 1 || byID.Items[0].Body != first.Body {
		t.Errorf("by id: %+v", byID)
	}
	byPlace := look(t, a, "hello", url.Values{"queue": {fmt.Sprint(first.Queue)}, "offset": {first.Offset}, "page_size": {"1"}})
	if len(byPlace.Items) != 1 || byPlace.Items[0].Body != first.Body {
		t.Errorf("by place: %+v", byPlace)
	}
	if foreign := look(t, b, "hello", url.Values{"message_id": {first.MessageID}}); len(foreign.Items) != 0 {
		t.Errorf("another tenant found %+v", foreign)
	}
	if early := look(t, a, "hello", url.Values{"from": {"2020-01-01T00:00:00Z"}, "to": {"2020-01-02T00:00:00Z"}}); len(early.Items) != 0 {
		t.Errorf("messages of 2020: %+v", early)
	}
	late := time.Now().Add(time.Hour).UTC()
	if future := look(t, a, "hello", url.Values{"from": {late.Format(time.RFC3339)}, "to": {late.Add(time.Hour).Format(time.RFC3339)}}); len(future.Items) != 0 {
		t.Errorf("messages of tomorrow: %+v", future)
	}
}

// Lag is what the group has not committed, in bare names, and goes to zero.
func TestLag_followsTheGroup(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("lag@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	send := remotingSend(t, k, "hello")
	for range 10 {
		must(t, send([]byte("x"), ""))
	}
	read := make(chan struct{}, 10)
	k.remotingConsumer(t, "hello", "hello-group", func(context.Context, *primitive.MessageExt) consumer.ConsumeResult {
		read <- struct{}{}
		return consumer.ConsumeSuccess
	})
	for range 10 {
		<-read
	}
	var lag struct {
		Lag    string `json:"lag"`
		Topics []struct {
			Topic string `json:"topic"`
		} `json:"topics"`
	}
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
		err := a.Do(t.Context(), "GET", "/v1/namespaces/"+a.NamespaceID+"/groups/hello-group/lag", nil, &lag)
		return err == nil && lag.Lag == "0" && len(lag.Topics) > 0, err
	}))
	for _, topic := range lag.Topics {
		if topic.Topic != "hello" && topic.Topic != "%RETRY%hello-group" {
			t.Errorf("topic %q", topic.Topic)
		}
	}
}

// Two tenants with the same topic, group and message names never meet, over
// both protocols (cases B151, B156).
func TestTenants_sameNamesNeverMeet(t *testing.T) {
	c := testcluster.Start(t)
	a, b := c.SignUp("a@example.com"), c.SignUp("b@example.com")
	const n = 50
	for _, x := range []*testcluster.Account{a, b} {
		k := key{c.Addresses, x.KeyID, x.Secret}
		overRemoting, overGRPC := remotingSend(t, k, "hello"), grpcSend(t, k, "hello")
		for range n {
			must(t, overRemoting([]byte(x.Email), ""))
			must(t, overGRPC([]byte(x.Email), ""))
		}
	}
	for _, x := range []*testcluster.Account{a, b} {
		k := key{c.Addresses, x.KeyID, x.Secret}
		got := make(chan string, 4*n)
		k.remotingConsumer(t, "hello", "hello-group", func(_ context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
			got <- string(m.Body)
			return consumer.ConsumeSuccess
		})
		for range 2 * n {
			select {
			case body := <-got:
				if body != x.Email {
					t.Fatalf("%s received %q", x.Email, body)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: messages are missing", x.Email)
			}
		}
	}
	for _, x := range []*testcluster.Account{a, b} {
		must(t, testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
			u, err := x.Usage(t.Context(), "")
			return u.MessagesIn == 2*n && u.MessagesOut == 2*n, err
		}))
	}
}
