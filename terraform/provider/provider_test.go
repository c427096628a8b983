package provider

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	tfprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

func TestSchemas_areValid(t *testing.T) {
	ctx := context.Background()
	p := New("test")
	var own tfprovider.SchemaResponse
	p.Schema(ctx, tfprovider.SchemaRequest{}, &own)
	if diags := own.Schema.ValidateImplementation(ctx); diags.HasError() {
		t.Error(diags)
	}
	for _, make := range p.Resources(ctx) {
		r := make()
		var name resource.MetadataResponse
		r.Metadata(ctx, resource.MetadataRequest{}, &name)
		var s resource.SchemaResponse
		r.Schema(ctx, resource.SchemaRequest{}, &s)
		if diags := s.Schema.ValidateImplementation(ctx); diags.HasError() {
			t.Errorf("%s: %v", name.TypeName, diags)
		}
		for attribute, a := range s.Schema.Attributes {
			if a.GetMarkdownDescription() == "" && attribute != "timeouts" {
				t.Errorf("%s.%s has no description", name.TypeName, attribute)
			}
		}
	}
	for _, make := range p.DataSources(ctx) {
		d := make()
		var s datasource.SchemaResponse
		d.Schema(ctx, datasource.SchemaRequest{}, &s)
		if diags := s.Schema.ValidateImplementation(ctx); diags.HasError() {
			t.Error(diags)
		}
	}
}

// The contract tells some defaults in words only; a change there must not
// pass by unseen.
func TestDefaults_areThoseOfTheContract(t *testing.T) {
	for schema, want := range map[string][]string{
		"TopicCreate":     {"type `" + defaultTopicType + "`", "retention `" + defaultRetention + "`", "perm `" + defaultPerm + "`"},
		"GroupCreate":     {"`order` defaults to `" + defaultOrder + "`"},
		"GroupRetry":      {"16 attempts", defaultStrategy, strings.Join(defaultDelays, " ")},
		"GroupDeadLetter": {"enabled, topic `%DLQ%` and the name of the group"},
	} {
		text := strings.Join(strings.Fields(contract(schema, "").Description), " ")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in %q", schema, part, text)
			}
		}
	}
}

func TestDuration_isComparedByWhatItMeans(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"72h", "72h", true}, {"1h", "60m", true}, {"1h30m", "90m", true}, {"1s", "1000ms", true}, {"0s", "0h", true},
		{"72h", "71h", false}, {"1d", "24h", false}, {"", "0s", false}, {"30m1h", "90m", false},
	} {
		got, _ := durations.of(c.a).StringSemanticEquals(context.Background(), durations.of(c.b))
		if got != c.same {
			t.Errorf("%q and %q: got %t, want %t", c.a, c.b, got, c.same)
		}
	}
	got, _ := timestamps.of("2027-01-31T01:00:00+01:00").StringSemanticEquals(context.Background(), timestamps.of("2027-01-31T00:00:00.000Z"))
	if !got {
		t.Error("the same instant in two zones is not the same")
	}
}

func TestImportID_parse(t *testing.T) {
	for _, c := range []struct {
		form importID
		id   string
		want string // the error, or "" for none
	}{
		{topicImport, "k7m2q9x4w1bz/orders", ""},
		{topicImport, "orders", "has 1 parts"},
		{topicImport, "k7m2q9x4w1bz/a/b", "has 3 parts"},
		{topicImport, "K7/orders", `"K7" in the import id is no namespace_id`},
		{groupImport, "k7m2q9x4w1bz/%RETRY%x", "is no name"},
		{namespaceImport, "", "terraform import sluice_namespace.example k7m2q9x4w1bz"},
		{aclImport, "k7m2q9x4w1bz/acl_01JAB3CD4EF5GH6JK7MN8PQ9RS", ""},
		{aclImport, "acl_01JAB3CD4EF5GH6JK7MN8PQ9RS", "k7m2q9x4w1bz/acl_01JAB3CD4EF5GH6JK7MN8PQ9RS"},
		{apiKeyImport, "slk_7Qm2XvN4kPz9Rt3Lc8Wd", ""},
		{apiKeyImport, "sls_7Qm2XvN4kPz9Rt3Lc8Wd", "is no id"},
	} {
		_, err := c.form.parse(c.id)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.id, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: got %v, want %q", c.id, err, c.want)
		}
	}
}

// TF-22: no import id makes the parser panic, and every refusal shows the form.
func FuzzImportID(f *testing.F) {
	f.Add("k7m2q9x4w1bz/orders")
	f.Add("//%/\x00")
	f.Fuzz(func(t *testing.T, id string) {
		for _, form := range []importID{namespaceImport, topicImport, groupImport, apiKeyImport, aclImport, roleImport, bindingImport, accountImport,
			identityProviderImport, domainImport, workloadIdentityImport, tenantSecurityImport, invitationImport} {
			values, err := form.parse(id)
			if err == nil && len(values) != len(form.parts) {
				t.Errorf("%q: %d values for %d parts", id, len(values), len(form.parts))
			}
			if err != nil && !strings.Contains(err.Error(), "terraform import") {
				t.Errorf("%q: the error shows no example: %v", id, err)
			}
		}
	})
}
