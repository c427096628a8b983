package httpapi

import (
	"net/http"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/tenant"
)

func TestTransactions_listAndSettle(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ns, ctx := p.NamespaceId, t.Context()
		list, err := apiclient.OK(p.sdk.ListTransactionsWithResponse(ctx, ns, nil))
		check(t, err)
		if len(list.Items) != 1 || list.Items[0].Id != "txn_"+theTransaction || list.Items[0].Topic != "hello" || list.NextPageToken == nil {
			t.Fatalf("list: %+v", list)
		}
		for _, none := range []*api.ListTransactionsParams{{Topic: ptr("other")}, {State: ptr(api.TransactionState("given_up"))}} {
			if list, err := apiclient.OK(p.sdk.ListTransactionsWithResponse(ctx, ns, none)); err != nil || len(list.Items) != 0 {
				t.Errorf("%+v: %+v, %v", none, list, err)
			}
		}
		id := list.Items[0].Id
		dry, err := apiclient.OK(p.sdk.CommitTransactionWithResponse(ctx, ns, id, &api.CommitTransactionParams{DryRun: ptr(true)}))
		check(t, err)
		if dry.Topic != "hello" || dry.Action != "commit" || len(s.messages.settled) != 0 {
			t.Errorf("dry: %+v, settled %v", dry, s.messages.settled)
		}
		_, err = apiclient.OK(p.sdk.CommitTransactionWithResponse(ctx, ns, id, nil))
		check(t, err)
		_, err = apiclient.OK(p.sdk.RollbackTransactionWithResponse(ctx, ns, id, nil))
		check(t, err)
		_, err = apiclient.OK(p.sdk.CheckTransactionWithResponse(ctx, ns, id, nil))
		check(t, err)
		_, err = apiclient.OK(p.sdk.CheckTransactionWithResponse(ctx, ns, "txn_0000000000", nil))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		if got := s.messages.settled; len(got) != 3 || got[0].Action != catalog.SettleCommit || got[1].Action != catalog.SettleRollback || got[2].Action != catalog.SettleCheck {
			t.Errorf("settled %+v", got)
		}
		for _, action := range []string{"commitTransaction", "rollbackTransaction", "checkTransaction"} {
			events, err := s.srv.d.Audit.List(ctx, p.TenantId, controldb.AuditFilter{Action: action}, tenant.Page{Size: 10})
			if err != nil || len(events) != 1 || events[0].TargetID != id || events[0].TargetType != "transaction" || events[0].NamespaceID != ns {
				t.Errorf("%s: %+v, %v", action, events, err)
			}
		}
	})
}

// Whoever has a role for some topics sees and settles the transactions of these
// alone.
func TestTransactions_ofTopicsThatTheCallerHas(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ns, ctx := p.NamespaceId, t.Context()
		for pattern, sees := range map[string]bool{"hello": true, "other": false} {
			colleague, id := s.colleague(p, pattern+"@example.com", "billing") // whose own role is for none
			_, err := p.bind(t, id, "developer", onTopics(ns, pattern), nil)
			check(t, err)
			sdk := s.again(colleague).sdk
			list, err := apiclient.OK(sdk.ListTransactionsWithResponse(ctx, ns, nil))
			check(t, err)
			if (len(list.Items) == 1) != sees {
				t.Errorf("%s: %+v", pattern, list)
			}
			before := len(s.messages.settled)
			_, err = apiclient.OK(sdk.CommitTransactionWithResponse(ctx, ns, "txn_"+theTransaction, nil))
			if (err == nil) != sees || (len(s.messages.settled) > before) != sees {
				t.Errorf("%s: settled %v, %v", pattern, s.messages.settled, err)
			}
		}
	})
}
