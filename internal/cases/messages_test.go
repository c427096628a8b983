package cases

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

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
