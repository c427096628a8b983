package api_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

// Every field of a key is carried both ways: one that the document gains and
// the conversions forget shows here.
func TestApiKeyKeepsEveryField(t *testing.T) {
	now, text, role := api.NewTimestamp(time.Unix(1_800_000_000, 0)), "key_1", api.ControlRole("viewer")
	reason := api.ApiKeyLeaked
	key := api.ApiKey{
		LastUsed: &api.ApiKeyUse{At: now}, RevokedReason: &reason,
		Id: "id", OwnerId: "owner", Name: "name", Description: "description", Scopes: []api.ApiKeyScope{{NamespaceId: "ns"}}, ControlRole: &role,
		AllowedCidrs: []api.Cidr{"10.0.0.0/8"}, ExpiresAt: &now, Disabled: true, State: "active", Hint: "hint", LastUsedAt: &now, RevokedAt: &now,
		ReplacesKeyId: &text, ReplacedByKeyId: &text, WorkloadIdentityId: &text, Status: api.ResourceStatus{Phase: "ready"}, CreatedAt: now, UpdatedAt: now, Revision: 7,
	}
	shown := key.WithSecret("secret")
	for _, v := range []reflect.Value{reflect.ValueOf(key), reflect.ValueOf(shown), reflect.ValueOf(shown.WithoutSecret())} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is empty", v.Type().Name(), v.Type().Field(i).Name)
			}
		}
	}
	if got := shown.WithoutSecret(); !reflect.DeepEqual(got, key) {
		t.Errorf("there and back:\n got %+v\nwant %+v", got, key)
	}
	if shown.Secret != "secret" {
		t.Errorf("secret = %q", shown.Secret)
	}
}
