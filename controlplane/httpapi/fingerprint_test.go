package httpapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// Every operation that changes an object which its path names has a reader for
// it, so that no audit event lacks the fingerprints.
func TestFingerprint_everyObjectHasAReader(t *testing.T) {
	ops, err := readOperations()
	check(t, err)
	n := 0
	for _, op := range ops {
		item := actionOf.ReplaceAllString(op.path, "")
		get := ops["GET "+ginPath(item)]
		if op.route.Method == "GET" || get == nil || strings.HasPrefix(get.id, "list") {
			continue // it makes something, or changes what is only shown in a list
		}
		n++
		if readers[item] == nil {
			t.Errorf("%s: readers has no %s", op.id, item)
		}
	}
	if n < 15 {
		t.Errorf("%d operations looked at", n)
	}
	for path := range readers {
		if ops["GET "+ginPath(path)] == nil {
			t.Errorf("readers has %s, which the contract cannot GET", path)
		}
	}
}

// What was before the next change is what was after the last one, and both are
// what a customer computes from what GET shows.
func TestFingerprint_chainsChangesOfAnObject(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		_, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "orders"}))
		check(t, err)
		for _, text := range []string{"one", "two"} {
			_, err = apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, p.NamespaceId, "orders", nil, api.TopicUpdate{Description: &text}))
			check(t, err)
		}
		resp, err := p.sdk.GetTopicWithResponse(ctx, p.NamespaceId, "orders")
		check(t, err)
		var shown any
		check(t, json.Unmarshal(resp.Body, &shown))
		_, err = p.sdk.DeleteTopicWithResponse(ctx, p.NamespaceId, "orders", nil)
		check(t, err)
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, key.Id, nil, api.ApiKeyUpdate{Name: ptr("l")}))
		check(t, err)
		page, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, nil))
		check(t, err)
		slices.SortFunc(page.Items, func(a, b api.AuditEvent) int { return cmp.Compare(*b.Sequence, *a.Sequence) }) // made within one millisecond
		if len(page.Items) < 6 {
			t.Fatalf("%d events", len(page.Items))
		}
		fresh, made, gone, second, first, created := page.Items[0], page.Items[1], page.Items[2], page.Items[3], page.Items[4], page.Items[5]
		text := func(p *string) string { return or(p, "") }
		if created.BeforeHash != nil || created.AfterHash == nil || text(first.BeforeHash) != text(created.AfterHash) || text(second.BeforeHash) != text(first.AfterHash) ||
			text(gone.BeforeHash) != text(second.AfterHash) || gone.AfterHash != nil || text(first.BeforeHash) == text(first.AfterHash) {
			t.Errorf("created %v, first %v, second %v, gone %v", created, first, second, gone)
		}
		if want, err := fingerprint(shown); err != nil || want != text(second.AfterHash) {
			t.Errorf("GET gives %s, the event says %s", want, text(second.AfterHash))
		}
		if text(made.AfterHash) != text(fresh.BeforeHash) || made.AfterHash == nil {
			t.Errorf("a key with its secret %v, without %v", made, fresh)
		}
		v, err := apiclient.OK(p.sdk.VerifyAuditEventsWithResponse(ctx, api.AuditVerify{}))
		check(t, err)
		if !v.Intact {
			t.Errorf("the chain: %+v", v)
		}
	})
}
