package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

func TestTopic_lifecycle(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ns, ctx := p.NamespaceId, t.Context()
		dry, err := apiclient.OK(p.sdk.CreateTopicWithResponse(ctx, ns, &api.CreateTopicParams{DryRun: ptr(true)}, api.TopicCreate{Name: "orders"}))
		check(t, err)
		if dry.Queues != 4 || dry.Retention != "72h" || dry.Type != "NORMAL" || dry.MaxMessageBytes != 4<<20 || dry.Perm != "rw" {
			t.Errorf("defaults: %+v", dry)
		}
		_, err = apiclient.OK(p.sdk.GetTopicWithResponse(ctx, ns, "orders"))
		wantProblem(t, err, http.StatusNotFound, "not_found")

		made, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, ns, &api.CreateTopicParams{Wait: ptr("10s")},
			api.TopicCreate{Name: "orders", Type: ptr(api.TopicType("FIFO")), Retention: ptr("1h30m"), Labels: &api.Labels{"team": "checkout"}}))
		check(t, err)
		if made.Status.Phase != "ready" || *made.Status.ObservedRevision != 1 || made.Retention != "1h30m" {
			t.Errorf("made: %+v", made)
		}
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, ns, nil, api.TopicCreate{Name: "orders"}))
		wantProblem(t, err, http.StatusConflict, "already_exists")

		got, err := p.sdk.GetTopicWithResponse(ctx, ns, "orders")
		check(t, err)
		tag := got.HTTPResponse.Header.Get("ETag")
		changed, err := apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, ns, "orders", &api.UpdateTopicParams{IfMatch: &tag}, api.TopicUpdate{Queues: ptr(int32(8)), DeletionProtection: ptr(true)}))
		check(t, err)
		if changed.Queues != 8 || changed.Revision != 2 || changed.Status.Phase != "pending" || changed.Labels["team"] != "checkout" {
			t.Errorf("changed: %+v", changed)
		}
		_, err = apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, ns, "orders", &api.UpdateTopicParams{IfMatch: &tag}, api.TopicUpdate{Queues: ptr(int32(9))}))
		wantProblem(t, err, http.StatusPreconditionFailed, "precondition_failed")
		wantProblem(t, apiclient.Done(p.sdk.DeleteTopicWithResponse(ctx, ns, "orders", nil)), http.StatusConflict, "deletion_protected")
		_, err = apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, ns, "orders", nil, api.TopicUpdate{DeletionProtection: ptr(false)}))
		check(t, err)
		check(t, apiclient.Done(p.sdk.DeleteTopicWithResponse(ctx, ns, "orders", &api.DeleteTopicParams{DryRun: ptr(true)})))
		check(t, apiclient.Done(p.sdk.DeleteTopicWithResponse(ctx, ns, "orders", nil)))
		_, err = apiclient.OK(p.sdk.GetTopicWithResponse(ctx, ns, "orders"))
		wantProblem(t, err, http.StatusNotFound, "not_found")

		// The name is free at once; brokers still hear of the old topic.
		again, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, ns, nil, api.TopicCreate{Name: "orders"}))
		check(t, err)
		d, err := s.source.Desired(ctx)
		check(t, err)
		deleted := 0
		for _, topic := range d.Topics {
			if topic.ID == made.Id && topic.Deleted {
				deleted++
			}
		}
		if again.Id == made.Id || deleted != 1 {
			t.Errorf("made again as %s, was %s; %d deleted", again.Id, made.Id, deleted)
		}
		check(t, s.source.MarkDeleted(ctx, catalog.KindTopic, made.Id))
		check(t, s.source.MarkDeleted(ctx, catalog.KindTopic, again.Id)) // not deleting: stays
		d, err = s.source.Desired(ctx)
		check(t, err)
		if len(d.Topics) != 2 {
			t.Errorf("%d topics left", len(d.Topics))
		}
	})
}

func TestGroup_lifecycle(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ns, ctx := p.NamespaceId, t.Context()
		made, err := apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, ns, nil, api.GroupCreate{Name: "billing", Order: ptr(api.GroupOrder("fifo")),
			Retry: &api.GroupRetry{Strategy: ptr(api.RetryStrategy("exponential")), Delays: &[]api.Duration{"5s", "2h"}, MaxAttempts: ptr(int32(3))}}))
		check(t, err)
		if *made.DeadLetter.Topic != "%DLQ%billing" || !made.ConsumeEnabled || made.MaxInFlight != 10000 {
			t.Errorf("made: %+v", made)
		}
		d, err := s.source.Desired(ctx)
		check(t, err)
		for _, g := range d.Groups {
			if g.Name == "billing" && (!g.FIFO || len(g.RetryDelays) < 10 || g.RetryDelays[1] != 10*time.Second || g.Physical != ns+"%billing") {
				t.Errorf("desired: %+v", g)
			}
		}
		_, err = apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, ns, nil, api.GroupCreate{Name: "x", DeadLetter: &api.GroupDeadLetter{Topic: ptr("no-such")}}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		_, err = apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, ns, nil, api.GroupCreate{Name: "x", Retry: &api.GroupRetry{Strategy: ptr(api.RetryStrategy("fixed")), Delays: &[]api.Duration{"1s", "2s"}}}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		_, err = apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, ns, nil, api.GroupCreate{Name: "DEFAULT_CONSUMER"}))
		wantProblem(t, err, http.StatusBadRequest, "name_reserved")
		off, err := apiclient.OK(p.sdk.UpdateGroupWithResponse(ctx, ns, "billing", nil, api.GroupUpdate{ConsumeEnabled: ptr(false)}))
		check(t, err)
		if off.ConsumeEnabled || *off.Retry.MaxAttempts != 3 {
			t.Errorf("off: %+v", off)
		}
		lag, err := apiclient.OK(p.sdk.GetGroupLagWithResponse(ctx, ns, "billing"))
		check(t, err)
		if lag.Lag != "3" || len(lag.Topics) != 1 || len(lag.Topics[0].Queues) != 2 || lag.Topics[0].Queues[1].CommittedOffset != "-1" {
			t.Errorf("lag: %+v", lag)
		}
		check(t, apiclient.Done(p.sdk.DeleteGroupWithResponse(ctx, ns, "billing", nil)))
		_, err = apiclient.OK(p.sdk.GetGroupWithResponse(ctx, ns, "billing"))
		wantProblem(t, err, http.StatusNotFound, "not_found")
	})
}

func TestNamespace_lifecycle(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		made, err := apiclient.Created(p.sdk.CreateNamespaceWithResponse(ctx, &api.CreateNamespaceParams{Wait: ptr("5s")}, api.NamespaceCreate{Name: "Prod", MaxSendTps: ptr(int32(10))}))
		check(t, err)
		if made.Status.Phase != "ready" || made.Endpoints.Remoting != "127.0.0.1:9876" || made.Region != "local" {
			t.Errorf("made: %+v", made)
		}
		_, err = apiclient.Created(p.sdk.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{Name: "Prod"}))
		wantProblem(t, err, http.StatusConflict, "already_exists")
		_, err = apiclient.Created(p.sdk.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{Name: "Far", Region: ptr("mars")}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		scopes := []api.ApiKeyScope{{NamespaceId: made.Id, Permissions: []api.KeyPermission{"PUB"}}, {NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"SUB"}}}
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "both", Scopes: &scopes}))
		check(t, err)
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, made.Id, nil, api.TopicCreate{Name: "x"}))
		check(t, err)
		wantProblem(t, apiclient.Done(p.sdk.DeleteNamespaceWithResponse(ctx, made.Id, nil)), http.StatusConflict, "not_empty")
		check(t, apiclient.Done(p.sdk.DeleteTopicWithResponse(ctx, made.Id, "x", nil)))
		check(t, apiclient.Done(p.sdk.DeleteNamespaceWithResponse(ctx, made.Id, nil)))
		_, err = apiclient.OK(p.sdk.GetNamespaceWithResponse(ctx, made.Id))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		left, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, key.Id))
		check(t, err)
		if len(left.Scopes) != 1 || left.Scopes[0].NamespaceId != p.NamespaceId {
			t.Errorf("scopes left: %+v", left.Scopes)
		}
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, made.Id, nil, api.TopicCreate{Name: "x"}))
		wantProblem(t, err, http.StatusNotFound, "not_found")
	})
}

func TestAPIKey_rotateDisableExpireDelete(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		state := func(id string) (out catalog.DesiredKey) {
			d, err := s.source.Desired(ctx)
			check(t, err)
			for _, k := range d.Keys {
				if k.ID == id {
					return k
				}
			}
			t.Fatalf("no key %s for brokers", id)
			return out
		}
		fresh, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, p.ApiKey.Id, nil, api.ApiKeyRotate{GracePeriod: ptr("15m")}))
		check(t, err)
		if fresh.Id == p.ApiKey.Id || fresh.Secret == p.ApiKey.Secret || *fresh.ReplacesKeyId != p.ApiKey.Id || len(fresh.Scopes) != 1 {
			t.Errorf("fresh: %+v", fresh)
		}
		old, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, p.ApiKey.Id))
		check(t, err)
		if old.State != "active" || old.ExpiresAt == nil || !old.ExpiresAt.Equal(s.clock.now().Add(15*time.Minute)) || *old.ReplacedByKeyId != fresh.Id {
			t.Errorf("old: %+v", old)
		}
		_, err = apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, p.ApiKey.Id, nil, api.ApiKeyRotate{}))
		wantProblem(t, err, http.StatusConflict, "key_not_active")
		if k := state(p.ApiKey.Id); k.State != tenant.KeyActive || k.ExpiresAt == nil || k.Secret != p.ApiKey.Secret {
			t.Errorf("old key for brokers: %+v", k)
		}

		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, fresh.Id, nil, api.ApiKeyUpdate{Disabled: ptr(true), AllowedCidrs: &[]string{"10.0.0.0/8"}}))
		check(t, err)
		if k := state(fresh.Id); k.State != tenant.KeyDisabled || len(k.AllowedCIDRs) != 1 {
			t.Errorf("disabled: %+v", k)
		}
		past := api.NewTimestamp(s.clock.now().Add(-time.Hour))
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, fresh.Id, nil, api.ApiKeyUpdate{ExpiresAt: nullable.NewNullableWithValue(past)}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		end := api.NewTimestamp(s.clock.now().Add(time.Minute))
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, fresh.Id, nil, api.ApiKeyUpdate{ExpiresAt: nullable.NewNullableWithValue(end), Disabled: ptr(false)}))
		check(t, err)
		never, err := apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, fresh.Id, nil, api.ApiKeyUpdate{ExpiresAt: nullable.NewNullNullable[api.Timestamp]()}))
		check(t, err)
		if never.ExpiresAt != nil || never.State != "active" {
			t.Errorf("never: %+v", never)
		}
		revoked, err := apiclient.OK(p.sdk.RevokeApiKeyWithResponse(ctx, fresh.Id, &api.RevokeApiKeyParams{Wait: ptr("5s")}))
		check(t, err)
		again, err := apiclient.OK(p.sdk.RevokeApiKeyWithResponse(ctx, fresh.Id, nil))
		check(t, err)
		if revoked.State != "revoked" || again.Revision != revoked.Revision {
			t.Errorf("revoked twice: %+v %+v", revoked, again)
		}
		if k := state(fresh.Id); k.State != tenant.KeyRevoked || k.Secret == "" { // brokers tell its owner so
			t.Errorf("revoked for brokers: %+v", k)
		}
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, fresh.Id, nil, api.ApiKeyUpdate{Disabled: ptr(false)}))
		wantProblem(t, err, http.StatusConflict, "key_revoked")
		check(t, apiclient.Done(p.sdk.DeleteApiKeyWithResponse(ctx, fresh.Id, nil)))
		_, err = apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, fresh.Id))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		if !state(fresh.Id).Deleted {
			t.Error("brokers do not hear of the deletion")
		}
		byState, err := apiclient.OK(p.sdk.ListApiKeysWithResponse(ctx, &api.ListApiKeysParams{State: ptr(api.ApiKeyState("active")), NamespaceId: &p.NamespaceId}))
		check(t, err)
		s.clock.add(14 * time.Minute) // the access token ends before the old key does
		if len(byState.Items) != 1 || byState.Items[0].Id != p.ApiKey.Id {
			t.Errorf("active keys: %+v", byState.Items)
		}
	})
}

func TestServiceAccount_disablesItsKeys(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		account, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		_, err = apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		wantProblem(t, err, http.StatusConflict, "already_exists")
		scopes := []api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		role := api.ControlRole("viewer")
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", OwnerId: &account.Id, Scopes: &scopes, ControlRole: &role}))
		check(t, err)
		_, err = apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Basic(key.Id, key.Secret)))
		check(t, err)
		seq, err := s.source.Sequence(ctx)
		check(t, err)
		_, err = apiclient.OK(p.sdk.UpdateServiceAccountWithResponse(ctx, account.Id, nil, api.ServiceAccountUpdate{Disabled: ptr(true)}))
		check(t, err)
		_, err = apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Basic(key.Id, key.Secret)))
		wantProblem(t, err, http.StatusUnauthorized, "key_disabled")
		changes, truncated, err := s.source.Changes(ctx, seq, 10)
		check(t, err)
		if truncated || len(changes) != 1 || changes[0].ID != key.Id || changes[0].Kind != catalog.KindKey {
			t.Fatalf("changes: %+v", changes)
		}
		d, err := s.source.DesiredFor(ctx, changes)
		check(t, err)
		if len(d.Keys) != 1 || d.Keys[0].State != tenant.KeyDisabled || len(d.Topics) != 0 || d.Sequence < changes[0].Sequence {
			t.Errorf("desired for: %+v", d)
		}
		check(t, apiclient.Done(p.sdk.DeleteServiceAccountWithResponse(ctx, account.Id, nil)))
		_, err = apiclient.OK(p.sdk.GetApiKeyWithResponse(ctx, key.Id))
		wantProblem(t, err, http.StatusNotFound, "not_found")
	})
}

func TestQuota_refusesTheOneTooMany(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		const left = 4 // of 5 namespaces one is there
		var wg sync.WaitGroup
		results := make(chan error, 8)
		for i := range 8 {
			wg.Go(func() {
				_, err := apiclient.Created(p.sdk.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{Name: fmt.Sprint("ns ", i)}))
				results <- err
			})
		}
		wg.Wait()
		close(results)
		made := 0
		for err := range results {
			if err == nil {
				made++
				continue
			}
			wantProblem(t, err, http.StatusForbidden, "quota_exceeded")
		}
		if made != left {
			t.Errorf("%d namespaces made, want %d", made, left)
		}
		quotas, err := apiclient.OK(p.sdk.ListTenantQuotasWithResponse(ctx, nil))
		check(t, err)
		for _, q := range quotas.Items {
			if q.Name == "namespaces" && (q.Used != 5 || q.Limit != 5 || q.Scope != p.TenantId) {
				t.Errorf("quota: %+v", q)
			}
		}
		list, err := apiclient.OK(p.sdk.ListNamespacesWithResponse(ctx, nil))
		check(t, err)
		check(t, apiclient.Done(p.sdk.DeleteNamespaceWithResponse(ctx, lastEmpty(list.Items, p.NamespaceId), nil)))
		_, err = apiclient.Created(p.sdk.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{Name: "after"}))
		check(t, err)
		of, err := apiclient.OK(p.sdk.ListNamespaceQuotasWithResponse(ctx, p.NamespaceId, nil))
		check(t, err)
		if len(of.Items) != 3 || of.Items[0].Name != "topics" || of.Items[0].Used != 1 {
			t.Errorf("quotas of the namespace: %+v", of.Items)
		}
	})
}

func lastEmpty(list []api.Namespace, but string) string {
	for _, n := range list {
		if n.Id != but {
			return n.Id
		}
	}
	return ""
}

func TestIdempotencyKey_replaysConflictsAndRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		params := &api.CreateApiKeyParams{IdempotencyKey: ptr("one")}
		scopes := []api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		create := func(name string) (api.ApiKeyWithSecret, error) {
			return apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, params, api.ApiKeyCreate{Name: name, Scopes: &scopes}))
		}
		first, err := create("k")
		check(t, err)
		second, err := create("k")
		check(t, err)
		if first.Id != second.Id || first.Secret != second.Secret {
			t.Errorf("replay made another key: %s %s", first.Id, second.Id)
		}
		_, err = create("other")
		wantProblem(t, err, http.StatusUnprocessableEntity, "idempotency_key_reused")
		other := s.signUp("bob@example.com")
		s2 := []api.ApiKeyScope{{NamespaceId: other.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		foreign, err := apiclient.Created(other.sdk.CreateApiKeyWithResponse(ctx, params, api.ApiKeyCreate{Name: "k", Scopes: &s2}))
		check(t, err)
		if foreign.Id == first.Id {
			t.Error("another tenant got the answer")
		}
		// A failed request leaves its key free.
		topic := &api.CreateTopicParams{IdempotencyKey: ptr("two")}
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, "nsxxxxxxxxxx", topic, api.TopicCreate{Name: "x"}))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		// One at a time: of many with one key all get the same object, or 409.
		var wg sync.WaitGroup
		ids := make(chan string, 8)
		for range 8 {
			wg.Go(func() {
				t3 := &api.CreateTopicParams{IdempotencyKey: ptr("three")}
				made, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, t3, api.TopicCreate{Name: "once"}))
				if err == nil {
					ids <- made.Id
				} else if !apiclient.Is(err, "idempotency_in_progress") {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		close(ids)
		seen := map[string]bool{}
		for id := range ids {
			seen[id] = true
		}
		if len(seen) != 1 {
			t.Errorf("topics made: %v", seen)
		}
		s.clock.add(25 * time.Hour)
		check(t, s.srv.d.Idempotency.(interface{ Purge(context.Context) error }).Purge(ctx))
	})
}

func TestPages_walkAllAndStayInTheirTenant(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		ctx := t.Context()
		want := map[string]bool{"hello": true}
		for i := range 7 {
			s.clock.add(time.Millisecond)
			name := fmt.Sprintf("page_%d", i)
			want[name] = true
			_, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: name}))
			check(t, err)
		}
		got := map[string]bool{}
		var second string
		for topic, err := range apiclient.All(func(token *string) ([]api.Topic, *string, error) {
			l, err := apiclient.OK(p.sdk.ListTopicsWithResponse(ctx, p.NamespaceId, &api.ListTopicsParams{PageSize: ptr(int32(3)), PageToken: token}))
			if second == "" && l.NextPageToken != nil {
				second = *l.NextPageToken
			}
			return l.Items, l.NextPageToken, err
		}) {
			check(t, err)
			if got[topic.Name] {
				t.Errorf("%s twice", topic.Name)
			}
			got[topic.Name] = true
		}
		if len(got) != len(want) {
			t.Errorf("got %v", got)
		}
		for name, do := range map[string]func() error{
			"other tenant": func() error {
				_, err := apiclient.OK(other.sdk.ListTopicsWithResponse(ctx, other.NamespaceId, &api.ListTopicsParams{PageToken: &second}))
				return err
			},
			"other filter": func() error {
				_, err := apiclient.OK(p.sdk.ListTopicsWithResponse(ctx, p.NamespaceId, &api.ListTopicsParams{PageToken: &second, Prefix: ptr("p")}))
				return err
			},
			"other list": func() error {
				_, err := apiclient.OK(p.sdk.ListGroupsWithResponse(ctx, p.NamespaceId, &api.ListGroupsParams{PageToken: &second}))
				return err
			},
			"changed": func() error {
				_, err := apiclient.OK(p.sdk.ListTopicsWithResponse(ctx, p.NamespaceId, &api.ListTopicsParams{PageToken: ptr("A" + second[1:])}))
				return err
			},
		} {
			if err := do(); !apiclient.Is(err, "page_token_invalid") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		for prefix, n := range map[string]int{"page_": 7, "PAGE_": 0, "pageX": 0, "page_3": 1} {
			l, err := apiclient.OK(p.sdk.ListTopicsWithResponse(ctx, p.NamespaceId, &api.ListTopicsParams{Prefix: &prefix}))
			check(t, err)
			if len(l.Items) != n {
				t.Errorf("prefix %s: %d topics, want %d", prefix, len(l.Items), n)
			}
		}
		quotas := 0
		for _, err := range apiclient.All(func(token *string) ([]api.Quota, *string, error) {
			l, err := apiclient.OK(p.sdk.ListTenantQuotasWithResponse(ctx, &api.ListTenantQuotasParams{PageSize: ptr(int32(1)), PageToken: token}))
			return l.Items, l.NextPageToken, err
		}) {
			check(t, err)
			quotas++
		}
		if quotas != 14 {
			t.Errorf("%d quotas", quotas)
		}
		batch, err := apiclient.OK(p.sdk.BatchGetTopicsWithResponse(ctx, p.NamespaceId, nil, api.TopicBatchGet{Names: []string{"page_5", "nope", "hello"}}))
		check(t, err)
		if len(batch.Items) != 2 || batch.Items[0].Name != "page_5" || len(batch.Missing) != 1 || batch.Missing[0] != "nope" {
			t.Errorf("batch: %+v", batch)
		}
	})
}

func TestMessages_sendLookAndTypes(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	ns, ctx := p.NamespaceId, t.Context()
	receipt, err := apiclient.Created(p.sdk.SendMessageWithResponse(ctx, ns, "hello", nil, api.MessageSend{Body: "héllo", Tag: ptr("t"), Keys: &[]string{"k1"}}))
	check(t, err)
	binary := api.MessageSend{Body: "//79", BodyEncoding: ptr(api.BodyEncoding("base64"))}
	_, err = apiclient.Created(p.sdk.SendMessageWithResponse(ctx, ns, "hello", nil, binary))
	check(t, err)
	one, err := apiclient.OK(p.sdk.ListMessagesWithResponse(ctx, ns, "hello", &api.ListMessagesParams{MessageId: &receipt.MessageId}))
	check(t, err)
	if len(one.Items) != 1 || one.Items[0].Body != "héllo" || one.Items[0].BodyEncoding != "utf8" {
		t.Errorf("one: %+v", one.Items)
	}
	all, err := apiclient.OK(p.sdk.ListMessagesWithResponse(ctx, ns, "hello", &api.ListMessagesParams{PageSize: ptr(int32(1))}))
	check(t, err)
	next, err := apiclient.OK(p.sdk.ListMessagesWithResponse(ctx, ns, "hello", &api.ListMessagesParams{PageSize: ptr(int32(1)), PageToken: all.NextPageToken}))
	check(t, err)
	if next.Items[0].Body != "//79" || next.Items[0].BodyEncoding != "base64" || next.Items[0].SizeBytes != 3 {
		t.Errorf("next: %+v", next.Items)
	}
	for _, typ := range []api.TopicType{"NORMAL", "FIFO", "DELAY", "TRANSACTION"} {
		_, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, ns, nil, api.TopicCreate{Name: string(typ), Type: &typ, MaxMessageBytes: ptr(int32(10))}))
		check(t, err)
	}
	for name, c := range map[string]struct {
		topic string
		send  api.MessageSend
		code  string
	}{
		"fifo without group":   {"FIFO", api.MessageSend{Body: "x"}, "message_type_mismatch"},
		"delay without time":   {"DELAY", api.MessageSend{Body: "x"}, "message_type_mismatch"},
		"group on normal":      {"hello", api.MessageSend{Body: "x", MessageGroup: ptr("g")}, "message_type_mismatch"},
		"time on normal":       {"hello", api.MessageSend{Body: "x", DeliverAt: ptr(api.NewTimestamp(s.clock.now()))}, "message_type_mismatch"},
		"transaction":          {"TRANSACTION", api.MessageSend{Body: "x"}, "message_type_mismatch"},
		"empty":                {"hello", api.MessageSend{Body: ""}, "body_empty"},
		"too large":            {"NORMAL", api.MessageSend{Body: "01234567890"}, "message_too_large"},
		"ordered":              {"FIFO", api.MessageSend{Body: "x", MessageGroup: ptr("g")}, "message_type_unsupported"},
		"delayed":              {"DELAY", api.MessageSend{Body: "x", DeliverAt: ptr(api.NewTimestamp(s.clock.now().Add(time.Hour)))}, "message_type_unsupported"},
		"system property":      {"hello", api.MessageSend{Body: "x", Properties: &map[string]string{"UNIQ_KEY": "x"}}, "property_invalid"},
		"own property":         {"hello", api.MessageSend{Body: "x", Properties: &map[string]string{"__SLUICE": "x"}}, "property_invalid"},
		"separator in a value": {"hello", api.MessageSend{Body: "x", Properties: &map[string]string{"a": "x\x01TAGS\x02y"}}, "property_invalid"},
		"no such queue":        {"hello", api.MessageSend{Body: "x", Queue: ptr(int32(4))}, "invalid"},
		"not base64":           {"hello", api.MessageSend{Body: "*", BodyEncoding: ptr(api.BodyEncoding("base64"))}, "invalid"},
	} {
		_, err := apiclient.Created(p.sdk.SendMessageWithResponse(ctx, ns, c.topic, nil, c.send))
		if !apiclient.Is(err, c.code) {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	key := &api.SendMessageParams{IdempotencyKey: ptr("m1")}
	r1, err := apiclient.Created(p.sdk.SendMessageWithResponse(ctx, ns, "hello", key, api.MessageSend{Body: "once"}))
	check(t, err)
	r2, err := apiclient.Created(p.sdk.SendMessageWithResponse(ctx, ns, "hello", key, api.MessageSend{Body: "once"}))
	check(t, err)
	if r1 != r2 {
		t.Errorf("sent twice: %+v %+v", r1, r2)
	}
	for path, want := range map[string]int{"%25DLQ%25hello-group": 200, "%25RETRY%25hello-group": 200, "%25DLQ%25nobody": 404} {
		status, problem, _ := s.raw("GET", "/v1/namespaces/"+ns+"/topics/"+path+"/messages", "Bearer "+p.AccessToken, "")
		if status != want {
			t.Errorf("%s: %d %s", path, status, problem.Detail)
		}
	}
}

// A page is what json.Marshal would write, but for HTML; bodies that JSON would
// make much longer than base64 are base64.
func TestMessages_writtenAsJSON(t *testing.T) {
	stored := []catalog.StoredMessage{
		{MessageID: "0", Body: []byte(`{"html":"<a href='x'>&</a>","quotes":"\"\"\"\""}`), Keys: []string{"<k>"}, Properties: map[string]string{"a": "\x00"}},
		{MessageID: "1", Body: []byte("line\r\n\tline \x1b[0m")},
		{MessageID: "2", Body: make([]byte, 1000)},
		{MessageID: "3", Body: []byte("\xff")},
		{MessageID: "4"},
	}
	for n := range len(stored) + 1 {
		for _, next := range []*string{nil, ptr("t.<x>")} {
			want := api.MessageList{Items: make([]api.Message, n), NextPageToken: next}
			for i, m := range stored[:n] {
				want.Items[i] = messageOut(m)
			}
			var text bytes.Buffer
			check(t, writeMessages(&text, slices.Clone(stored[:n]), next))
			var got api.MessageList
			check(t, json.Unmarshal(text.Bytes(), &got))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d messages: %s", n, text.String())
			}
			if n > 0 && !strings.Contains(text.String(), "<a href='x'>&</a>") {
				t.Errorf("HTML is escaped: %s", text.String())
			}
		}
	}
	for i, want := range []api.BodyEncoding{"utf8", "utf8", "base64", "base64", "utf8"} {
		if got := messageOut(stored[i]).BodyEncoding; got != want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
	}
}

// A tenant has two answers with messages at a time, from the read to the last
// byte; the others wait, and are told what they wait for when it takes too long.
func TestMessages_fewReadsAtATime(t *testing.T) {
	reads := &heldReads{entered: make(chan struct{}, 100), release: make(chan struct{})}
	s := newSystem(t, sqldb.SQLite, func(d *Deps) { reads.Messages, d.Messages = d.Messages, reads })
	s.srv.answers.patience = 100 * time.Millisecond
	p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
	path := func(p person) string { return "/v1/namespaces/" + p.NamespaceId + "/topics/hello/messages" }
	var wg sync.WaitGroup
	for range answersEach {
		wg.Go(func() {
			if status, problem, _ := s.raw("GET", path(p), "Bearer "+p.AccessToken, ""); status != http.StatusOK {
				t.Errorf("%d %s", status, problem.Detail)
			}
		})
		<-reads.entered
	}
	status, problem, h := s.raw("GET", path(p), "Bearer "+p.AccessToken, "")
	want := api.ProblemQuota{Name: "message_reads", Scope: p.TenantId, Limit: answersEach, Used: answersEach}
	if status != http.StatusTooManyRequests || problem.Quota == nil || *problem.Quota != want || h.Get("Retry-After") == "" {
		t.Errorf("a third one: %d %+v", status, problem)
	}
	wg.Go(func() {
		if status, problem, _ := s.raw("GET", path(other), "Bearer "+other.AccessToken, ""); status != http.StatusOK {
			t.Errorf("another tenant: %d %s", status, problem.Detail)
		}
	})
	<-reads.entered
	close(reads.release)
	wg.Wait()
}

// heldReads lets no read end before it is told to.
type heldReads struct {
	catalog.Messages
	entered chan struct{}
	release chan struct{}
}

func (h *heldReads) Query(ctx context.Context, q catalog.MessageQuery) (catalog.MessagePage, error) {
	h.entered <- struct{}{}
	<-h.release
	return h.Messages.Query(ctx, q)
}

func TestTail_tenantHasOnlySoMany(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(p person) (int, io.Closer) {
		req, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+"/v1/namespaces/"+p.NamespaceId+"/topics/hello/tail", nil)
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+p.AccessToken)
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		return resp.StatusCode, resp.Body
	}
	var last io.Closer
	for range tailsEach {
		status, body := open(p)
		if last = body; status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		defer func() { _ = body.Close() }()
	}
	status, problem, h := s.raw("GET", "/v1/namespaces/"+p.NamespaceId+"/topics/hello/tail", "Bearer "+p.AccessToken, "")
	want := api.ProblemQuota{Name: "tails", Scope: p.TenantId, Limit: tailsEach, Used: tailsEach}
	if status != http.StatusTooManyRequests || problem.Quota == nil || *problem.Quota != want || h.Get("Retry-After") == "" {
		t.Errorf("one more: %d %+v", status, problem)
	}
	status, body := open(other)
	if status != http.StatusOK {
		t.Errorf("another tenant: %d", status)
	}
	check(t, body.Close())
	check(t, last.Close())
	deadline := time.Now().Add(10 * time.Second)
	for {
		status, body := open(p)
		check(t, body.Close())
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a tail that ended still counts")
		}
	}
}

func TestTail_showsMessagesAsTheyArrive(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+"/v1/namespaces/"+p.NamespaceId+"/topics/hello/tail", nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+p.AccessToken)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	await := func(prefix string) string {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return strings.TrimPrefix(lines.Text(), prefix)
			}
		}
		t.Fatalf("stream ended before %q", prefix)
		return ""
	}
	await("event: ready")
	_, err = apiclient.Created(p.sdk.SendMessageWithResponse(ctx, p.NamespaceId, "hello", nil, api.MessageSend{Body: "live"}))
	check(t, err)
	await("event: message")
	if id := await("id: "); id != "0.1" {
		t.Errorf("id %q", id)
	}
	var m api.Message
	check(t, json.Unmarshal([]byte(await("data: ")), &m))
	if m.Body != "live" {
		t.Errorf("message: %+v", m)
	}
	status, problem, _ := s.raw("GET", "/v1/namespaces/"+p.NamespaceId+"/topics/hello/tail", "Bearer "+p.AccessToken, "", "Last-Event-ID", "x")
	if status != http.StatusBadRequest || *problem.Field != "header.Last-Event-ID" {
		t.Errorf("bad place: %d %+v", status, problem)
	}
}

// The deadlines by which a server ends slow senders and readers do not end a
// tail.
func TestTail_outlivesDeadlinesOfRequests(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, func(d *Deps) { d.Config.KeepAlive = 250 * time.Millisecond })
	p := s.signUp("ada@example.com")
	server := httptest.NewUnstartedServer(s.server.Config.Handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/namespaces/"+p.NamespaceId+"/topics/hello/tail", nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+p.AccessToken)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines, beats := bufio.NewScanner(resp.Body), 0
	for beats < 3 && lines.Scan() {
		if lines.Text() == ": beat" {
			beats++
		}
	}
	if beats < 3 {
		t.Errorf("the tail ended after %d beats", beats)
	}
	// A body that does not come, however, ends its request.
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	check(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprint(conn, "POST /v1/auth/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	check(t, err)
	check(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a body that never comes keeps its connection")
	}
}

// A tail that is open when its reader loses the right to read ends by itself,
// and says why.
func TestTail_endsWithTheRightToRead(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	ctx := t.Context()
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "watcher", ControlRole: ptr(api.ControlRole("developer")),
		Scopes: &[]api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"SUB"}}}}))
	check(t, err)
	_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "short"}))
	check(t, err)
	for _, c := range []struct {
		name, topic, code string
		basic             bool
		end               func() error
	}{
		{"topic deleted", "short", "not_found", true, func() error {
			_, err := p.sdk.DeleteTopicWithResponse(ctx, p.NamespaceId, "short", nil)
			return err
		}},
		{"key disabled", "hello", "key_disabled", true, func() error {
			_, err := apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, key.Id, nil, api.ApiKeyUpdate{Disabled: ptr(true)}))
			return err
		}},
		{"session ended", "hello", "session_invalid", false, func() error {
			resp, err := p.web.Post(s.server.URL+"/v1/auth/sign-out", "", nil)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.tailUntil(p, c.topic, c.code, c.end, func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+p.AccessToken)
				if c.basic {
					r.SetBasicAuth(key.Id, key.Secret)
				}
			})
		})
	}
}

// tailUntil opens a tail, calls end once it stands, and wants it to end with a
// problem of the given code.
func (s *system) tailUntil(p person, topic, code string, end func() error, sign func(*http.Request)) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.server.URL+"/v1/namespaces/"+p.NamespaceId+"/topics/"+topic+"/tail", nil)
	check(s.t, err)
	sign(req)
	resp, err := http.DefaultClient.Do(req)
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	problem := false
	for lines.Scan() {
		switch text := lines.Text(); {
		case text == "event: ready":
			check(s.t, end())
		case text == "event: problem":
			problem = true
		case strings.HasPrefix(text, "data: ") && problem && !strings.Contains(text, `"code":"`+code+`"`):
			s.t.Errorf("problem %s", text)
		}
	}
	if !problem {
		s.t.Error("the tail ended without a reason")
	}
}

func TestTenant_security(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		change := func(u api.TenantSecurityUpdate) (api.Tenant, error) {
			return apiclient.OK(p.sdk.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Security: &u}))
		}
		org, err := apiclient.OK(p.sdk.GetTenantWithResponse(ctx))
		check(t, err)
		if org.Security != (api.TenantSecurity{}) {
			t.Errorf("a new tenant demands %+v", org.Security)
		}
		s.enrol(p.sdk, "Phone") // whoever demands it of all needs it too
		org, err = change(api.TenantSecurityUpdate{MfaRequired: ptr(true), MaxKeyAge: nullable.NewNullableWithValue("90m")})
		check(t, err)
		if got := org.Security; !got.MfaRequired || got.SsoRequired || got.MaxKeyAge == nil || *got.MaxKeyAge != "90m" {
			t.Errorf("after the change: %+v", got)
		}
		idp, err := apiclient.Created(p.sdk.CreateIdentityProviderWithResponse(ctx, nil, api.IdentityProviderCreate{
			Name: "staff", Issuer: "https://login.example.com", ClientId: "c", Domains: &[]api.DomainName{"example.com"},
		}))
		check(t, err)
		s.dns.set(idp.Domains[0].TxtName, idp.Domains[0].TxtValue)
		_, err = apiclient.OK(p.sdk.VerifyIdentityDomainWithResponse(ctx, idp.Id, nil, api.VerifyIdentityDomain{Domain: "example.com"}))
		check(t, err)
		org, err = change(api.TenantSecurityUpdate{SsoRequired: ptr(true)})
		check(t, err)
		if got := org.Security; !got.MfaRequired || !got.SsoRequired || got.MaxKeyAge == nil {
			t.Errorf("fields that were left out changed: %+v", got)
		}
		for _, age := range []string{"59m", "87601h", "0s", "1d"} {
			_, err := change(api.TenantSecurityUpdate{MaxKeyAge: nullable.NewNullableWithValue(age)})
			wantProblem(t, err, http.StatusBadRequest, "invalid")
			if !strings.Contains(fmt.Sprint(err), "max_key_age") {
				t.Errorf("max_key_age %s: %v", age, err)
			}
		}
		org, err = change(api.TenantSecurityUpdate{MfaRequired: ptr(false), MaxKeyAge: nullable.NewNullNullable[string]()})
		check(t, err)
		if org.Security.MaxKeyAge != nil || org.Security.MfaRequired {
			t.Errorf("after null: %+v", org.Security)
		}
		again, err := apiclient.OK(p.sdk.GetTenantWithResponse(ctx))
		check(t, err)
		if again.Security != org.Security || again.Revision != org.Revision {
			t.Errorf("read back %+v, want %+v", again, org)
		}
	})
}

func TestAccount_changeAndAudit(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		me, err := apiclient.OK(p.sdk.UpdateMeWithResponse(ctx, nil, api.MeUpdate{Name: ptr("Ada"), Locale: ptr(api.Locale("zh"))}))
		check(t, err)
		org, err := apiclient.OK(p.sdk.UpdateTenantWithResponse(ctx, &api.UpdateTenantParams{IfMatch: ptr(`"1"`)}, api.TenantUpdate{Name: ptr("Example GmbH"), Labels: &api.Labels{"a": "b"}}))
		check(t, err)
		if me.Name != "Ada" || *me.Locale != "zh" || org.Name != "Example GmbH" || org.PlanId != "pln_free" || org.Revision != 2 {
			t.Errorf("me %+v tenant %+v", me, org)
		}
		role := api.ControlRole("viewer")
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "v", ControlRole: &role}))
		check(t, err)
		_, err = apiclient.OK(s.api.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Name: ptr("X")}, apiclient.Basic(key.Id, key.Secret)))
		wantProblem(t, err, http.StatusForbidden, "permission_denied")
		events, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, &api.ListAuditEventsParams{PageSize: ptr(int32(10))}))
		check(t, err)
		var got []string
		for _, e := range events.Items {
			got = append(got, e.Action+" "+string(e.Decision))
		}
		counts := map[string]int{}
		for _, g := range got {
			counts[g]++
		}
		if len(got) != 4 || counts["updateTenant denied"] != 1 || counts["createApiKey allowed"] != 1 || counts["updateMe allowed"] != 1 {
			t.Errorf("events: %v", got)
		}
		cfg, err := apiclient.OK(p.sdk.GetClientConfigWithResponse(ctx, p.NamespaceId, &api.GetClientConfigParams{Language: "java-remoting"}))
		check(t, err)
		if !strings.Contains(cfg.Snippet, "127.0.0.1:9876") || !strings.Contains(cfg.Snippet, p.ApiKey.Id) || !strings.Contains(cfg.Snippet, cfg.SecretPlaceholder) {
			t.Errorf("snippet: %s", cfg.Snippet)
		}
	})
}

func TestConsoleAndMailbox(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	s.signUp("ada@example.com")
	get := func(path, host string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.server.URL+path, nil)
		check(t, err)
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		check(t, err)
		return resp.StatusCode, string(text), resp.Header
	}
	for _, path := range []string{"/", "/topics/x", "/sign-in", "/index.html"} {
		if status, text, h := get(path, ""); status != 200 || !strings.Contains(text, "console") || h.Get("Cache-Control") != "no-cache" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %d %q %v", path, status, text, h)
		}
	}
	if status, _, h := get("/assets/app-1.js", ""); status != 200 || !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("asset: %d %v", status, h)
	}
	for _, path := range []string{"/assets/gone.js", "/v1/gone", "/../../etc/passwd.txt"} {
		if status, _, _ := get(path, ""); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, text, _ := get("/mailbox", ""); status != 200 || !strings.Contains(text, "ada@example.com") {
		t.Errorf("mailbox: %d", status)
	}
	if status, text, _ := get("/mailbox.json", ""); status != 200 || !strings.Contains(text, `"to":"ada@example.com"`) {
		t.Errorf("mailbox.json: %d %s", status, text)
	}
	if status, _, _ := get("/mailbox", "evil.example.com"); status != 404 {
		t.Errorf("mailbox under a foreign name: %d", status)
	}
	if n := s.observed()["/v1/auth/verify 200"]; n != 1 {
		t.Errorf("observed: %v", s.observed())
	}
}

func TestSuspendedTenant_canLookButNotChange(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		check(t, s.tenants.Suspend(ctx, p.TenantId))
		org, err := apiclient.OK(p.sdk.GetTenantWithResponse(ctx))
		check(t, err)
		if org.Status != "suspended" {
			t.Errorf("status %s", org.Status)
		}
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "x"}))
		wantProblem(t, err, http.StatusForbidden, "tenant_suspended")
		_, err = apiclient.Created(p.sdk.SendMessageWithResponse(ctx, p.NamespaceId, "hello", nil, api.MessageSend{Body: "x"}))
		wantProblem(t, err, http.StatusForbidden, "tenant_suspended")
		d, err := s.source.Desired(ctx)
		check(t, err)
		if !d.Tenants[0].Suspended {
			t.Error("brokers do not hear of it")
		}
		check(t, s.tenants.Resume(ctx, p.TenantId))
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "x"}))
		check(t, err)
	})
}

// TestTopic_concurrentEdits: without If-Match edits at the same time all go
// through, one after the other.
func TestTopic_concurrentEdits(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		var wg sync.WaitGroup
		const edits = 8
		for i := range edits {
			wg.Go(func() {
				_, err := apiclient.OK(p.sdk.UpdateTopicWithResponse(t.Context(), p.NamespaceId, "hello", nil, api.TopicUpdate{Description: ptr(fmt.Sprint("edit ", i))}))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		topic, err := apiclient.OK(p.sdk.GetTopicWithResponse(t.Context(), p.NamespaceId, "hello"))
		check(t, err)
		if topic.Revision != 1+edits {
			t.Errorf("revision %d, want %d", topic.Revision, 1+edits)
		}
	})
}
