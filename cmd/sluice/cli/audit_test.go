package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/internal/auditchain"
)

// trailServer serves audit events as they are given, newest first, and notes what
// was asked.
func trailServer(t *testing.T, events []api.AuditEvent) (s *shell, asked *[]url.Values) {
	t.Helper()
	asked = &[]url.Values{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Query())
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"items": events}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	s = newShell(t)
	s.http = server.Client()
	s.env = map[string]string{envEndpoint: server.URL, envClientID: "slk_k", envClientSecret: "sls_s"}
	return s, asked
}

// chainOf makes n events that are a chain, newest first. The third is a count of
// refusals that came into the chain later than it happened.
func chainOf(n int) []api.AuditEvent {
	var out []api.AuditEvent
	var head auditchain.Head
	begun := time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)
	for i := 1; i <= n; i++ {
		e := api.AuditEvent{Id: "evt_" + strings.Repeat("0", 25) + string(rune('a'+i)), At: api.NewTimestamp(begun.Add(time.Duration(i) * time.Second)), ActorType: "user", ActorId: "usr_1",
			Action: "createTopic", TargetType: "topic", Decision: "allowed", Sequence: ptr(int64(i)), PreviousHash: ptr(head.Hash)}
		if i == 3 {
			e.Action, e.Decision, e.TargetType, e.TargetId, e.Count, e.FirstAt = "publish", "denied", "topic", ptr("orders"), ptr(int64(41)), ptr(api.NewTimestamp(begun))
			e.Reason, e.SourceIp, e.ApiKeyId = ptr("permission_denied"), ptr("192.0.2.7"), ptr("slk_1")
			e.Id = "evt_" + strings.Repeat("0", 26)
		}
		head = head.Next(chained(e))
		e.Hash = ptr(head.Hash)
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b api.AuditEvent) int { return strings.Compare(b.Id, a.Id) })
	return out
}

func TestAuditList_filtersAndForms(t *testing.T) {
	s, asked := trailServer(t, chainOf(5))
	s.terminal, s.env["NO_COLOR"] = true, "1"
	r := s.must("audit", "list", "--from", "2026-09-01", "--to", "2026-09-02T10:00:00Z", "--actor", "usr_1", "--action", "publish", "--target", "top_1", "--limit", "7")
	q := (*asked)[0]
	for name, want := range map[string]string{"from": "2026-09-01T00:00:00Z", "to": "2026-09-02T10:00:00Z", "actor_id": "usr_1", "action": "publish", "target_id": "top_1", "page_size": "7"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	for _, want := range []string{"COUNT", "slk_1", "192.0.2.7", "publish", "topic orders", "denied", "permission_denied", "41"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in the table:\n%s", want, r.stdout)
		}
	}
	var page struct{ Items []api.AuditEvent }
	if err := json.Unmarshal([]byte(s.must("audit", "list", "-o", "json", "--limit", "2").stdout), &page); err != nil || len(page.Items) != 2 {
		t.Errorf("%d events, %v", len(page.Items), err)
	}
	for _, args := range [][]string{{"--from", "yesterday"}, {"--limit", "0"}} {
		if r := s.run(append([]string{"audit", "list"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: code %d", args, r.code)
		}
	}
}

// An export is in the order of the chain, and leaves out what was written while it
// was read; what is missing in the middle, verify finds.
func TestAuditExport_isAChain(t *testing.T) {
	without := func(events []api.AuditEvent, sequence int64) []api.AuditEvent {
		return slices.DeleteFunc(events, func(e api.AuditEvent) bool { return place(e) == sequence })
	}
	for _, c := range []struct {
		name   string
		events []api.AuditEvent
		want   string
		code   int
	}{
		{"all", chainOf(6), "intact: 6 events", 0},
		{"one missing", without(chainOf(6), 4), "event 4", exitRefused},
		{"the counted one missing", without(chainOf(6), 3), "event 3", exitRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := trailServer(t, c.events)
			file := filepath.Join(t.TempDir(), "export.jsonl")
			if err := os.WriteFile(file, []byte(s.must("audit", "export", "-o", "json").stdout), 0o600); err != nil {
				t.Fatal(err)
			}
			r := s.run("audit", "verify", file, "-o", "table")
			if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
				t.Errorf("code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
	for sequence, want := range map[int64]int{6: 5, 5: 4, 4: 5} { // the chain ended at 4 when the reading began
		if got := untilHole(inOrder(without(chainOf(6), sequence)), 4); len(got) != want {
			t.Errorf("without %d: %d events are left, want %d", sequence, len(got), want)
		}
	}
	s, asked := trailServer(t, chainOf(2))
	if r := s.must("audit", "export", "--action", "publish"); !strings.Contains(r.stderr, "part") || (*asked)[0].Get("action") != "publish" {
		t.Errorf("%v\n%s", (*asked)[0], r.stderr)
	}
	if r := s.run("audit", "export", "-o", "yaml"); r.code != exitUsage {
		t.Errorf("yaml: code %d", r.code)
	}
}
