package provider

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// fieldsWithAttribute are the inputs that all or some resources show under
// the same name; a failure that blames one of them points at its attribute.
var fieldsWithAttribute = map[string]bool{
	"name": true, "region": true, "description": true, "labels": true, "strict_types": true, "max_send_tps": true, "max_recv_tps": true,
	"deletion_protection": true, "type": true, "queues": true, "retention": true, "max_message_bytes": true, "perm": true,
	"order": true, "consume_enabled": true, "broadcast": true, "retry": true, "dead_letter": true, "max_in_flight": true,
	"owner_id": true, "scope": true, "control_role": true, "allowed_cidrs": true, "expires_at": true, "disabled": true, "secret": true,
	"effect": true, "principal": true, "resource": true, "pattern": true, "operations": true, "cidrs": true,
	"permissions": true, "principal_id": true, "role": true,
	"issuer": true, "client_id": true, "client_secret": true, "domain": true, "domains": true, "auto_enrol_role": true, "enabled": true,
	"audience": true, "subject": true, "conditions": true, "service_account_id": true, "max_ttl": true,
	"email": true, "locale": true, "mfa_required": true, "sso_required": true, "max_key_age": true,
}

var fieldForm = regexp.MustCompile(`^([a-z_]+)(?:\[([0-9]+)\])?(?:\.([a-z_]+))?`)

// attributePath is the attribute that a field of the API is, such as
// scope[0].cidrs for scopes[0].cidrs[1], if there is one.
func attributePath(field string) (path.Path, bool) {
	parts := fieldForm.FindStringSubmatch(strings.TrimPrefix(field, "security."))
	if parts == nil {
		return path.Empty(), false
	}
	name, index, child := parts[1], parts[2], parts[3]
	if name == "scopes" {
		name = "scope"
	}
	at := path.Root(name)
	switch n, err := strconv.Atoi(index); {
	case name == "scope" && err == nil && child != "":
		at = at.AtListIndex(n).AtName(child)
	case name == "scope" && index == "" && child != "", name == "retry" && child != "", name == "dead_letter" && child != "":
		at = at.AtName(child)
	case name == "conditions" && child != "":
		at = at.AtMapKey(child)
	}
	return at, fieldsWithAttribute[name]
}

// addFailure reports err under summary: what the server said, the quota or
// the inputs at fault, and the request id.
func addFailure(diags *diag.Diagnostics, summary string, err error) {
	f, ok := asFailure(err)
	if !ok {
		diags.AddError(summary, err.Error())
		return
	}
	var text strings.Builder
	text.WriteString(f.Detail)
	if f.Errors != nil {
		for _, e := range *f.Errors {
			if e.Detail != f.Detail {
				fmt.Fprintf(&text, "\n%s: %s", e.Field, e.Detail)
			}
		}
	}
	if f.Quota != nil {
		fmt.Fprintf(&text, "\nQuota %s of %s: %d used of %d.", f.Quota.Name, f.Quota.Scope, f.Quota.Used, f.Quota.Limit)
	}
	fmt.Fprintf(&text, "\nCode: %s (HTTP %d).", f.Code, f.Problem.Status)
	if f.RequestId != "" {
		fmt.Fprintf(&text, " Request id: %s.", f.RequestId)
	}
	if strings.HasPrefix(f.Type, "http") {
		fmt.Fprintf(&text, "\nHow to fix it: %s", f.Type)
	}
	if f.Field != nil {
		if at, ok := attributePath(*f.Field); ok {
			diags.AddAttributeError(at, summary, text.String())
			return
		}
	}
	diags.AddError(summary, text.String())
}

// addConflict is addFailure for a create: when the object exists already it
// also says how to take it into the state.
func addConflict(diags *diag.Diagnostics, summary string, err error, importLine func() string) {
	if f, ok := asFailure(err); ok && f.Code == "already_exists" {
		if line := importLine(); line != "" {
			diags.AddError(summary, fmt.Sprintf("%s\nIf it is to be managed here, take it into the state:\n\n  %s\n\nCode: %s. Request id: %s.",
				f.Detail, line, f.Code, f.RequestId))
			return
		}
	}
	addFailure(diags, summary, err)
}

// addGone warns that an object was deleted outside Terraform.
func addGone(diags *diag.Diagnostics, what string) {
	diags.AddWarning("Deleted outside Terraform", "The "+what+" is gone from the server. It was taken out of the state, so the next plan creates it again.")
}
