package httpapi

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// While reads of the database have all their turns, one more is told to come
// again, changes go on, and each turn is given back, also by a call that is
// refused or whose reader never takes the answer.
func TestLookups_haveTurns(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		read := func() error {
			_, err := apiclient.OK(p.sdk.GetTopicWithResponse(ctx, p.NamespaceId, "hello"))
			return err
		}
		_, err := apiclient.OK(p.sdk.GetTopicWithResponse(ctx, p.NamespaceId, "absent"))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		if n := s.srv.lookups.running; n != 0 {
			t.Fatalf("%d turns are held by nobody", n)
		}
		var leaves []func()
		for range lookupsTotal {
			leave, err := s.srv.lookups.enter(ctx, "192.0.2.0/24")
			check(t, err)
			leaves = append(leaves, leave)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		s.srv.lookups.patience = 1 // nothing comes free
		wantProblem(t, read(), http.StatusServiceUnavailable, "unavailable")
		_, err = s.srv.lookups.enter(gone, "198.51.100.0/24")
		if err == nil {
			t.Error("one who had gone has a turn")
		}
		_, err = apiclient.OK(p.sdk.UpdateMeWithResponse(ctx, nil, api.MeUpdate{Name: ptr("Ada")}))
		check(t, err)
		leaves[0]()
		s.srv.lookups.patience = lookupsPatience
		check(t, read())
		for _, leave := range leaves[1:] {
			leave()
		}
	})
}

// What can take as long as its caller likes has no turn.
func TestLookups_areShort(t *testing.T) {
	ops, err := readOperations()
	check(t, err)
	var lookups []string
	for _, op := range ops {
		if op.lookup {
			lookups = append(lookups, op.id)
		}
	}
	for _, id := range []string{"tailMessages", "getUsageCsv", "getJwks", "listMessages", "getGroupLag", "listTransactions", "createTopic"} {
		if slices.Contains(lookups, id) {
			t.Errorf("%s waits for a turn", id)
		}
	}
	for _, id := range []string{"getTopic", "listApiKeys", "getMe"} {
		if !slices.Contains(lookups, id) {
			t.Errorf("%s waits for none", id)
		}
	}
}
