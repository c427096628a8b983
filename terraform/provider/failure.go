package provider

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// attributeOf maps fields of the API to attributes where the names differ.
var attributeOf = map[string]string{"scopes": "scope"}

// fieldsWithAttribute are the inputs that all or some resources show under
// the same name; a failure that blames one of them points at its attribute.
var fieldsWithAttribute = map[string]bool{
	"name": true, "region": true, "description": true, "labels": true, "strict_types": true, "max_send_tps": true, "max_recv_tps": true,
	"deletion_protection": true, "type": true, "queues": true, "retention": true, "max_message_bytes": true, "perm": true,
	"order": true, "consume_enabled": true, "broadcast": true, "retry": true, "dead_letter": true, "max_in_flight": true,
	"owner_id": true, "scopes": true, "control_role": true, "allowed_cidrs": true, "expires_at": true, "disabled": true,
	"effect": true, "principal": true, "resource": true, "pattern": true, "operations": true, "cidrs": true,
	"permissions": true, "principal_id": true, "role": true, "scope": true,
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
	root := ""
	if f.Field != nil {
		root, _, _ = strings.Cut(*f.Field, ".")
	}
	root, _, _ = strings.Cut(root, "[")
	if !fieldsWithAttribute[root] {
		diags.AddError(summary, text.String())
		return
	}
	if renamed, ok := attributeOf[root]; ok {
		root = renamed
	}
	diags.AddAttributeError(path.Root(root), summary, text.String())
}

// addConflict is addFailure for a create: when the object exists already it
// also says how to take it into the state.
func addConflict(diags *diag.Diagnostics, summary string, err error, importLine string) {
	if f, ok := asFailure(err); ok && f.Code == "already_exists" && importLine != "" {
		diags.AddError(summary, fmt.Sprintf("%s\nIf it is to be managed here, take it into the state:\n\n  %s\n\nCode: %s. Request id: %s.",
			f.Detail, importLine, f.Code, f.RequestId))
		return
	}
	addFailure(diags, summary, err)
}

// addGone warns that an object was deleted outside Terraform.
func addGone(diags *diag.Diagnostics, what string) {
	diags.AddWarning("Deleted outside Terraform", "The "+what+" is gone from the server. It was taken out of the state, so the next plan creates it again.")
}
