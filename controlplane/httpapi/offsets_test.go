package httpapi

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

func TestResetOffset_previewActAndUndo(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ns, ctx := p.NamespaceId, t.Context()
		earliest := api.OffsetReset{Topic: "hello", To: api.OffsetResetToEarliest}
		preview, err := apiclient.OK(p.sdk.ResetGroupOffsetWithResponse(ctx, ns, "hello-group", &api.ResetGroupOffsetParams{DryRun: ptr(true)}, earliest))
		check(t, err)
		if preview.Redelivered != "2" || preview.Skipped != "0" || len(preview.Undo) != 1 || len(s.messages.resets) != 0 {
			t.Errorf("preview: %+v, resets %+v", preview, s.messages.resets)
		}
		reset := func() api.OffsetResetResult {
			t.Helper()
			out, err := apiclient.OK(p.sdk.ResetGroupOffsetWithResponse(ctx, ns, "hello-group", &api.ResetGroupOffsetParams{IdempotencyKey: ptr("once")}, earliest))
			check(t, err)
			return out
		}
		done := reset()
		if again := reset(); again.Queues[0] != done.Queues[0] || len(s.messages.resets) != 1 {
			t.Errorf("with the same Idempotency-Key: %+v, then %+v; moved %d times", done, again, len(s.messages.resets))
		}
		if undo := done.Undo[0]; *undo.Offset != "2" || *undo.Queue != 0 || *undo.Broker != "broker-a" {
			t.Errorf("undo: %+v", undo)
		}
		undone, err := apiclient.OK(p.sdk.ResetGroupOffsetWithResponse(ctx, ns, "hello-group", nil, done.Undo[0]))
		check(t, err)
		if undone.Queues[0].ToOffset != "2" {
			t.Errorf("undone: %+v", undone)
		}
		latest, err := apiclient.OK(p.sdk.ResetGroupOffsetWithResponse(ctx, ns, "hello-group", nil, api.OffsetReset{Topic: "%RETRY%hello-group", To: api.OffsetResetToLatest}))
		check(t, err)
		if latest.Skipped != "3" || latest.Redelivered != "0" {
			t.Errorf("latest: %+v", latest)
		}
		events, err := s.srv.d.Audit.List(ctx, p.TenantId, controldb.AuditFilter{Action: "resetGroupOffset"}, tenant.Page{Size: 10})
		check(t, err)
		g, err := apiclient.OK(p.sdk.GetGroupWithResponse(ctx, ns, "hello-group"))
		check(t, err)
		if len(events) != 3 || slices.ContainsFunc(events, func(e controldb.AuditEvent) bool {
			return e.TargetID != g.Id || e.NamespaceID != ns || e.BeforeHash == ""
		}) {
			t.Errorf("events: %+v", events)
		}
		check(t, s.tenants.Suspend(ctx, p.TenantId))
		_, err = apiclient.OK(p.sdk.ResetGroupOffsetWithResponse(ctx, ns, "hello-group", nil, earliest))
		if err == nil || len(s.messages.resets) != 3 {
			t.Errorf("by a suspended tenant: %v, %d resets", err, len(s.messages.resets))
		}
	})
}

func TestResetOffset_refusalsNameTheField(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	path := "/v1/namespaces/" + p.NamespaceId + "/groups/hello-group/actions/reset-offset"
	for body, field := range map[string]string{
		`{"topic":"hello"}`:                                                         "to",
		`{"topic":"hello","to":"middle"}`:                                           "to",
		`{"topic":"hello","to":"time"}`:                                             "timestamp",
		`{"topic":"hello","to":"offset","queue":0}`:                                 "offset",
		`{"topic":"hello","to":"offset","offset":5}`:                                "offset",
		`{"topic":"hello","to":"offset","offset":"5"}`:                              "queue",
		`{"topic":"hello","to":"offset","queue":0,"offset":"-1"}`:                   "offset",
		`{"topic":"hello","to":"offset","queue":0,"offset":"99999999999999999999"}`: "offset",
		`{"topic":"hello","to":"latest","offset":"5"}`:                              "offset",
		`{"topic":"hello","to":"earliest","timestamp":"2026-09-01T08:00:00.000Z"}`:  "timestamp",
		`{"topic":"hello","to":"time","timestamp":"yesterday"}`:                     "timestamp",
		`{"topic":"no-such","to":"latest"}`:                                         "topic",
		`{"topic":"%RETRY%other","to":"latest"}`:                                    "topic",
		`{"topic":"hello","to":"latest","queue":-1}`:                                "queue",
	} {
		status, problem, _ := s.raw("POST", path, "Bearer "+p.AccessToken, body)
		if status != http.StatusBadRequest || problem.Field == nil || *problem.Field != field {
			t.Errorf("%s: %d %+v, want the field %s", body, status, problem, field)
		}
	}
	if status, _, _ := s.raw("POST", "/v1/namespaces/"+p.NamespaceId+"/groups/no-such/actions/reset-offset", "Bearer "+p.AccessToken, `{"topic":"hello","to":"latest"}`); status != http.StatusNotFound {
		t.Errorf("a group that is not there: %d", status)
	}
	if len(s.messages.resets) != 0 {
		t.Errorf("moved: %+v", s.messages.resets)
	}
}
