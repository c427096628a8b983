package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
)

// signIn is another session of a person.
func (s *system) signIn(p person) *apiclient.SDK {
	s.t.Helper()
	ses, err := apiclient.OK(s.api.SignInWithResponse(s.t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
	check(s.t, err)
	sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
	check(s.t, err)
	return sdk
}

func (s *system) sessions(sdk *apiclient.SDK) []api.LiveSession {
	s.t.Helper()
	list, err := apiclient.OK(sdk.ListSessionsWithResponse(s.t.Context(), nil))
	check(s.t, err)
	return list.Items
}

func TestSessions_areListedNewestFirst(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		s.clock.add(time.Minute)
		second := s.signIn(p)
		list := s.sessions(second)
		if len(list) != 2 || !list[0].Current || list[1].Current || list[0].CreatedAt.Before(list[1].CreatedAt.Time) || list[0].Address != "127.0.0.1" ||
			list[0].UserAgent == "" || list[0].TenantId != p.TenantId {
			t.Errorf("sessions: %+v", list)
		}
		if got := s.sessions(other.sdk); len(got) != 1 {
			t.Errorf("another person sees %d sessions", len(got))
		}
		first, err := apiclient.OK(second.ListSessionsWithResponse(t.Context(), &api.ListSessionsParams{PageSize: ptr(int32(1))}))
		check(t, err)
		next, err := apiclient.OK(second.ListSessionsWithResponse(t.Context(), &api.ListSessionsParams{PageSize: ptr(int32(1)), PageToken: first.NextPageToken}))
		check(t, err)
		if first.Items[0].Id != list[0].Id || next.Items[0].Id != list[1].Id || next.NextPageToken != nil {
			t.Errorf("pages: %+v, %+v", first, next)
		}
		s.clock.add(31 * 24 * time.Hour)
		if got := s.sessions(s.signIn(p)); len(got) != 1 {
			t.Errorf("%d sessions, want the fresh one alone", len(got))
		}
	})
}

// An ended session is refused at once, though it was in use a moment before
// (complaint 22), and its refresh token is void.
func TestSession_endedIsRefusedAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		second := s.signIn(p)
		_, err := apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		old := s.sessions(second)[1]
		wantProblem(t, apiclient.Done(other.sdk.EndSessionWithResponse(t.Context(), old.Id, nil)), http.StatusNotFound, "not_found")
		wantProblem(t, apiclient.Done(second.EndSessionWithResponse(t.Context(), old.Id, &api.EndSessionParams{IfMatch: ptr(`"2"`)})), http.StatusPreconditionFailed, "precondition_failed")
		check(t, apiclient.Done(second.EndSessionWithResponse(t.Context(), old.Id, &api.EndSessionParams{DryRun: ptr(true)})))
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		check(t, apiclient.Done(second.EndSessionWithResponse(t.Context(), old.Id, nil)))
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		_, err = s.refresh(p)
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		wantProblem(t, apiclient.Done(second.EndSessionWithResponse(t.Context(), old.Id, nil)), http.StatusNotFound, "not_found")
		if got := s.sessions(second); len(got) != 1 {
			t.Errorf("left: %+v", got)
		}
	})
}

func TestSessions_endOthersSparesThisOneAndOtherPeople(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		second, third := s.signIn(p), s.signIn(p)
		ended, err := apiclient.OK(second.EndOtherSessionsWithResponse(t.Context(), nil))
		check(t, err)
		if ended.Ended != 2 {
			t.Errorf("%d ended, want 2", ended.Ended)
		}
		for name, c := range map[string]struct {
			sdk  *apiclient.SDK
			live bool
		}{"first": {p.sdk, false}, "this": {second, true}, "third": {third, false}, "other person": {other.sdk, true}} {
			_, err := apiclient.OK(c.sdk.GetMeWithResponse(t.Context()))
			if (err == nil) != c.live {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A tenant that is suspended does not keep its people from putting a stranger out.
func TestSession_endsInASuspendedTenant(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	s.signIn(p)
	check(t, s.tenants.Suspend(t.Context(), p.TenantId))
	ended, err := apiclient.OK(p.sdk.EndOtherSessionsWithResponse(t.Context(), nil))
	if err != nil || ended.Ended != 1 {
		t.Errorf("got %+v, %v", ended, err)
	}
}

func TestSessions_keysHaveNone(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	role := api.ControlRole("admin")
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "robot", ControlRole: &role}))
	check(t, err)
	by := apiclient.Basic(key.Id, key.Secret)
	list, err := apiclient.OK(s.api.ListSessionsWithResponse(t.Context(), nil, by))
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
	_, err = apiclient.OK(s.api.EndOtherSessionsWithResponse(t.Context(), nil, by))
	wantProblem(t, err, http.StatusForbidden, "session_required")
	_, err = apiclient.OK(s.api.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password}, by))
	wantProblem(t, err, http.StatusForbidden, "session_required")
	err = apiclient.Done(s.api.EndSessionWithResponse(t.Context(), s.sessions(p.sdk)[0].Id, nil, by))
	wantProblem(t, err, http.StatusForbidden, "session_required")
}

// TestStepUp_everyMarkedOperation walks the operations with x-step-up: 15
// minutes after the sign-in each is refused, before and after a step-up none.
func TestStepUp_everyMarkedOperation(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		for _, op := range s.srv.ops { // a mark for this test; the contract's own are walked too
			if op.id == "updateMe" {
				op.stepUp = true
			}
		}
		p := s.signUp("ada@example.com")
		token := func() string {
			ses, err := s.refresh(p)
			check(t, err)
			return "Bearer " + ses.AccessToken
		}
		walk := func(refused bool) {
			bearer, n := token(), 0
			for _, op := range s.srv.ops {
				if !op.stepUp {
					continue
				}
				n++
				path := parameter.ReplaceAllString(op.path, "x")
				status, problem, _ := s.raw(op.route.Method, path, bearer, `{`)
				if (problem.Code == "step_up_required") != refused || refused && status != http.StatusForbidden {
					t.Errorf("%s: %d %s, refused %v", op.id, status, problem.Code, refused)
				}
			}
			if n == 0 {
				t.Error("no operation is marked")
			}
		}
		s.clock.add(15 * time.Minute)
		walk(false)
		s.clock.add(time.Millisecond)
		walk(true)
		sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: strings.TrimPrefix(token(), "Bearer "), MaxRetries: -1})
		check(t, err)
		_, err = apiclient.OK(sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: "wrong"}))
		wantProblem(t, err, http.StatusBadRequest, "password_wrong")
		walk(true)
		ses, err := apiclient.OK(sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password}))
		check(t, err)
		if !ses.Current || !ses.AuthenticatedAt.Equal(s.clock.now().Truncate(time.Millisecond)) {
			t.Errorf("session: %+v", ses)
		}
		walk(false)
	})
}

// A session whose proof is old gives nobody standing access, by no way round: a
// key with a role could do all that asks the person for a proof.
func TestStepUp_noWayAround(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		s.clock.add(16 * time.Minute)
		ses, err := s.refresh(p)
		check(t, err)
		sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
		check(t, err)
		_, err = apiclient.Created(sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("admin"))}))
		wantProblem(t, err, http.StatusForbidden, "step_up_required")
		_, err = apiclient.Created(sdk.RotateApiKeyWithResponse(ctx, p.ApiKey.Id, nil, api.ApiKeyRotate{}))
		wantProblem(t, err, http.StatusForbidden, "step_up_required")
		_, err = apiclient.OK(sdk.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Security: &api.TenantSecurityUpdate{MfaRequired: ptr(false)}}))
		wantProblem(t, err, http.StatusForbidden, "step_up_required")
		_, err = apiclient.OK(sdk.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Name: ptr("Other")}))
		check(t, err)
	})
}
