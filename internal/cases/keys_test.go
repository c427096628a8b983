package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// keyed is a message that was acknowledged, with all that finds it.
type keyed struct{ key, id, offsetID, body string }

const keySegment = 1 << 20

// startKeyed starts a process with small files and sync flush, and a sender of
// messages with a key each that says where a message went.
func startKeyed(t *testing.T) (server *testcluster.Process, a *testcluster.Account, send func(body string) keyed) {
	t.Helper()
	server, err := testcluster.StartProcess(t.Context(), testcluster.Binary(t), filepath.Join(t.TempDir(), "data"),
		fmt.Sprint("SLUICE_STORE_SEGMENT_BYTES=", keySegment), "SLUICE_STORE_FLUSH=sync")
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	a, err = testcluster.SignUp(t.Context(), server.URL(), server.Mails(), "keys@example.com", "Keys")
	must(t, err)
	p := key{server.Addresses, a.KeyID, a.Secret}.remotingProducer(t)
	n := 0
	return server, a, func(body string) keyed {
		t.Helper()
		n++
		m := primitive.NewMessage("hello", []byte(body))
		key := fmt.Sprint("key-", n)
		m.WithKeys([]string{"all", key})
		var r *primitive.SendResult
		// The first sends after a restart may meet connections that are gone.
		must(t, testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
			var err error
			r, err = p.SendSync(context.Background(), m)
			return err == nil && r.Status == primitive.SendOK, nil
		}))
		return keyed{key, r.MsgID, r.OffsetMsgID, body}
	}
}

// incompressible is text that a client cannot pack well.
func incompressible(n int) string {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[rng.IntN(64)]
	}
	return string(b)
}

// find looks for one message by a parameter and compares its body.
func find(t *testing.T, a *testcluster.Account, by, value, body string) error {
	t.Helper()
	var page messagePage
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
		err := a.Do(t.Context(), "GET", "/v1/namespaces/"+a.NamespaceID+"/topics/hello/messages?"+url.Values{by: {value}}.Encode(), nil, &page)
		if s := (*testcluster.Status)(nil); errors.As(err, &s) && s.Code == 429 {
			return false, nil // so many questions in a row
		}
		return err == nil, err
	}))
	// A send whose answer was lost may have stored a message with the same key.
	for _, m := range page.Items {
		if m.Body != body {
			return fmt.Errorf("%s %s gives another message of %d bytes", by, value, len(m.Body))
		}
	}
	if len(page.Items) == 0 {
		return fmt.Errorf("%s %s finds nothing", by, value)
	}
	return nil
}

// B029: a kill right behind the roll of a log file: every acknowledged message
// is there by queue offset and by key.
func TestKill_behindTheRollOfAFile_B029(t *testing.T) {
	rounds := 8
	if full() {
		rounds = 50
	}
	server, a, send := startKeyed(t)
	sent := map[string]keyed{}
	body := incompressible(60 << 10)
	for round := range rounds {
		for segment := int64(-1); ; {
			m := send(fmt.Sprint(round, " ", body))
			sent[m.key] = m
			_, offset, err := message.ParseOffsetID(m.offsetID)
			must(t, err)
			if segment >= 0 && offset/keySegment != segment {
				break
			}
			segment = offset / keySegment
		}
		must(t, errors.Join(server.Kill(), server.Start(t.Context())))
	}
	bodies := map[string]int{}
	q := url.Values{"page_size": {"100"}, "from": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}}
	for {
		page := look(t, a, "hello", q)
		for _, m := range page.Items {
			i := slices.IndexFunc(m.Keys, func(k string) bool { return strings.HasPrefix(k, "key-") })
			if i < 0 || sent[m.Keys[i]].body != m.Body {
				t.Fatalf("queue %d offset %s holds what nobody sent", m.Queue, m.Offset)
			}
			bodies[m.Keys[i]]++
		}
		if page.NextPageToken == "" {
			break
		}
		q.Set("page_token", page.NextPageToken)
	}
	for key, m := range sent {
		if bodies[key] == 0 {
			t.Errorf("acknowledged message %s is in no queue", key)
		}
		if err := find(t, a, "key", key, m.body); err != nil {
			t.Error(err)
		}
	}
	t.Logf("kills=%d acknowledged=%d", rounds, len(sent))
}

// indexFolder finds the folder of the key index below a data folder.
func indexFolder(t *testing.T, data string) (found string) {
	t.Helper()
	must(t, filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "sluice.index" {
			found = path
		}
		return err
	}))
	if found == "" {
		t.Fatal("there is no key index")
	}
	return found
}

// B032: after a stop, a kill and the loss of the index folder, unique id,
// offset id and key all find their message.
func TestRestart_lookUpsWork_B032(t *testing.T) {
	server, a, send := startKeyed(t)
	var sent []keyed
	for i := range 40 {
		sent = append(sent, send(fmt.Sprint("body ", i)))
	}
	for _, restart := range []struct {
		name string
		stop func() error
	}{
		{"stopped", server.Stop},
		{"killed", server.Kill},
		{"index deleted", func() error { return errors.Join(server.Stop(), os.RemoveAll(indexFolder(t, server.Data))) }},
	} {
		must(t, errors.Join(restart.stop(), server.Start(t.Context())))
		for _, m := range sent {
			for _, by := range [][2]string{{"key", m.key}, {"message_id", m.id}, {"message_id", m.offsetID}} {
				if err := find(t, a, by[0], by[1], m.body); err != nil {
					t.Errorf("%s: %v", restart.name, err)
				}
			}
		}
	}
}
