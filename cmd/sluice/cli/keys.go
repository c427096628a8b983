package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

func keyColumns() []column[api.ApiKey] {
	return []column[api.ApiKey]{
		{title: "id", value: func(k api.ApiKey) string { return k.Id }},
		{title: "name", value: func(k api.ApiKey) string { return k.Name }},
		{title: "state", value: func(k api.ApiKey) string { return string(k.State) }},
		{title: "hint", value: func(k api.ApiKey) string { return "…" + k.Hint }},
		{title: "scopes", value: func(k api.ApiKey) string { return scopesText(k.Scopes) }},
		{title: "control_role", value: func(k api.ApiKey) string { return deref(k.ControlRole) }},
		{title: "expires_at", value: func(k api.ApiKey) string { return moment(k.ExpiresAt) }},
		{title: "last_used_at", value: func(k api.ApiKey) string { return moment(k.LastUsedAt) }},
		{title: "last_used_for", detail: true, value: lastUse},
		{title: "scopes_detail", detail: true, value: func(k api.ApiKey) string { return scopesDetail(k.Scopes) }},
		{title: "revoked_reason", detail: true, value: func(k api.ApiKey) string { return deref(k.RevokedReason) }},
		{title: "owner_id", detail: true, value: func(k api.ApiKey) string { return k.OwnerId }},
		{title: "allowed_cidrs", detail: true, value: func(k api.ApiKey) string { return strings.Join(k.AllowedCidrs, ", ") }},
		{title: "description", detail: true, value: func(k api.ApiKey) string { return k.Description }},
		{title: "phase", detail: true, value: func(k api.ApiKey) string { return string(k.Status.Phase) }},
		{title: "replaces_key_id", detail: true, value: func(k api.ApiKey) string { return deref(k.ReplacesKeyId) }},
		{title: "replaced_by_key_id", detail: true, value: func(k api.ApiKey) string { return deref(k.ReplacedByKeyId) }},
		{title: "created_at", detail: true, value: func(k api.ApiKey) string { return k.CreatedAt.String() }},
	}
}

var (
	keyView = view[api.ApiKey]{name: func(k api.ApiKey) string { return k.Id }, columns: keyColumns()}
	// issuedView is for the one answer that holds the secret.
	issuedView = view[api.ApiKeyWithSecret]{name: func(k api.ApiKeyWithSecret) string { return k.Id }, columns: []column[api.ApiKeyWithSecret]{
		{title: "id", value: func(k api.ApiKeyWithSecret) string { return k.Id }},
		{title: "secret", value: func(k api.ApiKeyWithSecret) string { return k.Secret }},
		{title: "name", value: func(k api.ApiKeyWithSecret) string { return k.Name }},
		{title: "state", value: func(k api.ApiKeyWithSecret) string { return string(k.State) }},
		{title: "scopes", value: func(k api.ApiKeyWithSecret) string { return scopesText(k.Scopes) }},
		{title: "control_role", value: func(k api.ApiKeyWithSecret) string { return deref(k.ControlRole) }},
		{title: "expires_at", value: func(k api.ApiKeyWithSecret) string { return moment(k.ExpiresAt) }},
		{title: "phase", value: func(k api.ApiKeyWithSecret) string { return string(k.Status.Phase) }},
	}}
)

// lastUse says what a key was used for last, such as "PUB orders from 203.0.113.7".
func lastUse(k api.ApiKey) string {
	if k.LastUsed == nil {
		return ""
	}
	text := deref(k.LastUsed.Operation)
	if topic := deref(k.LastUsed.Topic); topic != "" {
		text += " " + topic
	}
	if address := deref(k.LastUsed.Address); address != "" {
		text += " from " + address
	}
	return text
}

func moment(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

type keyFlags struct {
	name, describe, owner, role, expires, secretFile string
	cidrs                                            []string
	scope                                            scopeFlags
	disabled, noScope                                bool
}

func (k *keyFlags) add(f *pflag.FlagSet) {
	f.StringVar(&k.describe, "description", "", "free text in one line")
	f.StringVar(&k.expires, "expires", "", "end as time (2027-01-31T00:00:00Z) or from now on (720h); never: no end")
	f.StringSliceVar(&k.cidrs, "allow-cidr", nil, "address or network the key may be used from; may be repeated")
	k.scope.add(f)
}

// broughtSecret reads a secret of the user's own from a file, or from standard
// input for "-": an argument would stand in the shell's history.
func (a *app) broughtSecret(f *pflag.FlagSet, path string) (*string, error) {
	if !f.Changed("secret-file") {
		return nil, nil
	}
	text, err := a.readSecret("--secret-file", path, 4096)
	return &text, err
}

// instant reads a time, or a length of time from now on.
func (a *app) instant(what, text string) (api.Timestamp, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return api.NewTimestamp(t), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return api.Timestamp{}, usage(fmt.Sprintf("%s %q is neither a time nor a length of time", what, text), "Write it like 2027-01-31T00:00:00Z or 720h.")
	}
	return api.NewTimestamp(a.Now().Add(d)), nil
}

func (a *app) keyCommand() *cobra.Command {
	return a.parent("key", "API keys: what SDKs and programs sign with", a.keyList(), a.keyGet(), a.keyCreate(), a.keyUpdate(), a.keyRotate(), a.keyRevoke(), a.keyDelete(), a.keyReportLeak())
}

func (a *app) keyList() *cobra.Command {
	var state, owner string
	var c *cobra.Command
	c = listing(a, "list", "List API keys", "API keys", keyView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.ApiKey, *string, error) {
		f := c.Flags()
		params := api.ListApiKeysParams{State: given(f, "state", api.ApiKeyState(state)), PageToken: token, PageSize: fullPage()}
		if f.Changed("owner") {
			id, err := a.principal(ctx, owner)
			if err != nil {
				return nil, nil, err
			}
			params.OwnerId = &id
		}
		if a.namespace != "" {
			ns, err := a.findNamespace(ctx, a.namespace)
			if err != nil {
				return nil, nil, err
			}
			params.NamespaceId = &ns
		}
		page, err := apiclient.OK(sdk.ListApiKeysWithResponse(ctx, &params))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&state, "state", "", "only keys in this state: active, disabled, expired or revoked")
	c.Flags().StringVar(&owner, "owner", "", "only keys of this member (id or mail address) or service account (id or name)")
	return c
}

func (a *app) keyGet() *cobra.Command {
	return showing(a, "get KEY_ID", "Show an API key; the secret is never shown again", "API key", keyView,
		func(ctx context.Context, c *apiclient.SDK, id string) (api.ApiKey, error) {
			return apiclient.OK(c.GetApiKeyWithResponse(ctx, id))
		})
}

func (a *app) keyCreate() *cobra.Command {
	var k keyFlags
	c := a.command("create NAME", "Create an API key for a namespace and show its secret once", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		body := api.ApiKeyCreate{Name: args[0], Description: given(f, "description", k.describe),
			ControlRole: given(f, "control-role", api.ControlRole(k.role)), AllowedCidrs: given(f, "allow-cidr", k.cidrs)}
		if f.Changed("owner") {
			id, err := a.principal(ctx, k.owner)
			if err != nil {
				return err
			}
			body.OwnerId = &id
		}
		if body.Secret, err = a.broughtSecret(f, k.secretFile); err != nil {
			return err
		}
		if body.ExpiresAt, err = a.firstEnd(f, "expires", k.expires); err != nil {
			return err
		}
		if !k.noScope {
			if body.Scopes, err = a.scopes(ctx, &k.scope, f, nil); err != nil {
				return err
			}
		}
		resp, err := c.CreateApiKeyWithResponse(ctx, &api.CreateApiKeyParams{DryRun: a.dry(), Wait: a.waitParam()}, body)
		if a.dryRun {
			shown, err := apiclient.OK(resp, err)
			if err != nil {
				return doing("create API key "+args[0], err)
			}
			a.noted()
			return showOne(a, keyView, shown)
		}
		issued, err := apiclient.Created(resp, err)
		if err != nil {
			return doing("create API key "+args[0], err)
		}
		return a.issued(ctx, started, issued)
	})
	k.add(c.Flags())
	c.Example = `  sluice key create checkout --topics 'orders*' --permission PUB --expires 2160h
  sluice key create ci --owner ci --no-scope --control-role developer
  sluice key create moved --scope-cidr 10.20.0.0/16 --scope-expires 720h --secret-file - < secret.txt`
	c.Flags().StringVar(&k.owner, "owner", "", "member (id or mail address) or service account (id or name) that it acts for (default: you)")
	c.Flags().StringVar(&k.role, "control-role", "", "let it use the HTTP API as admin, developer, viewer or billing")
	c.Flags().StringVar(&k.secretFile, "secret-file", "", "bring a secret of your own: the file that holds it, or - for standard input")
	c.Flags().BoolVar(&k.noScope, "no-scope", false, "no permissions on messages, only the control role")
	return a.reaches(c)
}

// issued shows a new key; this is the only time that its secret is seen.
func (a *app) issued(ctx context.Context, started time.Time, k api.ApiKeyWithSecret) error {
	var err error
	if k.Secret == "" { // the user brought it
		err = showOne(a, keyView, k.WithoutSecret())
	} else {
		err = showOne(a, issuedView, k)
		a.hint("The secret is shown this once; the server does not show it again.")
	}
	return errors.Join(err, a.settle(ctx, started, "API key "+k.Id, k.Status, func(ctx context.Context) (api.ResourceStatus, error) {
		latest, err := apiclient.OK(a.sdk.GetApiKeyWithResponse(ctx, k.Id))
		return latest.Status, err
	}))
}

func (a *app) keyUpdate() *cobra.Command {
	var k keyFlags
	c := a.command("update KEY_ID", "Change an API key; owner and control role stay", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		body := api.ApiKeyUpdate{Name: given(f, "name", k.name), Description: given(f, "description", k.describe),
			Disabled: given(f, "disabled", k.disabled), AllowedCidrs: given(f, "allow-cidr", k.cidrs)}
		if body.ExpiresAt, err = a.end(f, "expires", k.expires); err != nil {
			return err
		}
		params := api.UpdateApiKeyParams{DryRun: a.dry(), Wait: a.waitParam()}
		if k.scope.given(f) {
			// Scopes are replaced as a whole: the rest of them is read first.
			now, err := apiclient.OK(c.GetApiKeyWithResponse(ctx, args[0]))
			if err != nil {
				return doing("read API key "+args[0], err)
			}
			params.IfMatch = ifMatch(now.Revision)
			if body.Scopes, err = a.scopes(ctx, &k.scope, f, now.Scopes); err != nil {
				return err
			}
		}
		if body.Name == nil && body.Description == nil && body.Disabled == nil && body.AllowedCidrs == nil && body.Scopes == nil && !body.ExpiresAt.IsSpecified() {
			return nothingToChange(cmd)
		}
		changed, err := apiclient.OK(c.UpdateApiKeyWithResponse(ctx, args[0], &params, body))
		if err != nil {
			return doing("change API key "+args[0], err)
		}
		return a.shownKey(ctx, started, changed)
	})
	c.Example = `  sluice key update slk_7Qm2XvN4kPz9Rt3Lc8Wd --topics 'orders*' --scope-expires never
  sluice key get slk_7Qm2XvN4kPz9Rt3Lc8Wd -o yaml > key.yaml && sluice key update slk_7Qm2XvN4kPz9Rt3Lc8Wd --scopes-file key.yaml`
	k.add(c.Flags())
	c.Flags().StringVar(&k.name, "name", "", "another name")
	c.Flags().BoolVar(&k.disabled, "disabled", false, "refuse the key until it is enabled again")
	return a.reaches(c)
}

func (a *app) shownKey(ctx context.Context, started time.Time, k api.ApiKey) error {
	return shown(ctx, a, started, keyView, "API key "+k.Id, k, func(k api.ApiKey) api.ResourceStatus { return k.Status },
		func(ctx context.Context, c *apiclient.SDK) (api.ApiKey, error) {
			return apiclient.OK(c.GetApiKeyWithResponse(ctx, k.Id))
		}, "")
}

func (a *app) keyRotate() *cobra.Command {
	var grace, expires, secretFile string
	c := a.command("rotate KEY_ID", "Replace a key by a new one and show its secret once", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		body := api.ApiKeyRotate{GracePeriod: given(f, "grace-period", grace)}
		if body.ExpiresAt, err = a.firstEnd(f, "expires", expires); err != nil {
			return err
		}
		if body.Secret, err = a.broughtSecret(f, secretFile); err != nil {
			return err
		}
		resp, err := c.RotateApiKeyWithResponse(ctx, args[0], &api.RotateApiKeyParams{DryRun: a.dry(), Wait: a.waitParam()}, body)
		if a.dryRun {
			shown, err := apiclient.OK(resp, err)
			if err != nil {
				return doing("rotate API key "+args[0], err)
			}
			a.noted()
			return showOne(a, keyView, shown)
		}
		issued, err := apiclient.Created(resp, err)
		if err != nil {
			return doing("rotate API key "+args[0], err)
		}
		if grace == "0s" {
			a.hint("Key %s no longer works.", args[0])
		} else {
			a.hint("Key %s works for another %s.", args[0], grace)
		}
		return a.issued(ctx, started, issued)
	})
	c.Example = `  sluice key rotate slk_7Qm2XvN4kPz9Rt3Lc8Wd --grace-period 24h -o json`
	c.Flags().StringVar(&grace, "grace-period", "0s", "how long the old key goes on working, at most 168h")
	c.Flags().StringVar(&expires, "expires", "", "end of the new key, as a time or from now on (default: as long as the old key was given, at most what the tenant allows)")
	c.Flags().StringVar(&secretFile, "secret-file", "", "bring a secret of your own: the file that holds it, or - for standard input")
	return a.reaches(c)
}

func (a *app) keyRevoke() *cobra.Command {
	c := a.command("revoke KEY_ID", "Revoke a key for ever; its connections are closed", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if err := a.confirm(fmt.Sprintf("Revoke API key %s for ever?", args[0])); err != nil {
			return err
		}
		started := a.Now()
		k, err := apiclient.OK(c.RevokeApiKeyWithResponse(ctx, args[0], &api.RevokeApiKeyParams{DryRun: a.dry(), Wait: a.waitParam()}))
		if err != nil {
			return doing("revoke API key "+args[0], err)
		}
		return a.shownKey(ctx, started, k)
	})
	return a.asks(a.reaches(c))
}

func (a *app) keyDelete() *cobra.Command {
	return a.removing(a.reaches, "delete KEY_ID", "Delete a key; it stops working at once", "API key", "It stops working at once.", func(ctx context.Context, c *apiclient.SDK, name string) error {
		return apiclient.Done(c.DeleteApiKeyWithResponse(ctx, name, &api.DeleteApiKeyParams{DryRun: a.dry(), Wait: a.waitParam()}))
	})
}

func (a *app) keyReportLeak() *cobra.Command {
	return a.command("report-leak FILE", "Report secrets found in public; - reads standard input", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		text, err := a.readSecret("FILE", args[0], 64<<10)
		if err != nil {
			return err
		}
		if _, err := apiclient.Accepted(c.ReportLeakWithResponse(ctx, nil, api.LeakReport{Text: text})); err != nil {
			return doing("report a leak", err)
		}
		a.hint("Reported. A key that the text holds the secret of is revoked within seconds.")
		return nil
	})
}
