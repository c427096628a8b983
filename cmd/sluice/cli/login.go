package cli

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type login struct {
	name, endpoint, email        string
	keyID, keySecret, secretFile string
	passwordStdin                bool
	code                         string
}

func (a *app) loginCommand() *cobra.Command {
	var l login
	c := a.command("login", "Sign in and remember it as a context", cobra.NoArgs,
		func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.login(ctx, l) })
	c.Long = `Signs in with mail address and password, or with an API key that has a control role, and keeps it as a context.

Settings go to ~/.config/sluice/config.yaml, secrets to secrets.yaml beside it, which only you can read.
Without flags it asks. Secrets are best typed at the prompt, piped in, or read from a file: a command line
is seen by other users and stays in the shell's history.

A second factor is asked for when the account has one: a code of an authenticator app, or a recovery code. A security
key works in a browser only: sign in at the console and make an API key with a control role there.`
	c.Example = `  sluice login --endpoint https://sluice.example.com
  sluice login --email ada@example.com --password-stdin < password.txt
  sluice login --name ci --key-id slk_7Qm2XvN4kPz9Rt3Lc8Wd --key-secret-file key.txt`
	f := c.Flags()
	f.StringVar(&l.name, "name", "default", "name of the context")
	f.StringVar(&l.endpoint, "endpoint", "", "base URL of the server (default: SLUICE_ENDPOINT, that of the context, or "+defaultEndpoint+")")
	f.StringVar(&l.email, "email", "", "mail address")
	f.BoolVar(&l.passwordStdin, "password-stdin", false, "read the password from standard input")
	f.StringVar(&l.code, "code", "", "code of the second factor, or a recovery code (default: asked for when needed)")
	f.StringVar(&l.keyID, "key-id", "", "id of an API key with a control role")
	f.StringVar(&l.keySecret, "key-secret", "", "its secret; \"-\" reads it from standard input")
	f.StringVar(&l.secretFile, "key-secret-file", "", "file that holds the secret")
	return c
}

func (a *app) login(ctx context.Context, l login) error {
	s, err := a.loadSettings()
	if err != nil {
		return err
	}
	endpoint := l.endpoint
	if endpoint == "" {
		endpoint = a.Getenv(envEndpoint)
	}
	if known, ok := s.Contexts[l.name]; ok && endpoint == "" {
		endpoint = known.Endpoint
	}
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	if endpoint, err = checkEndpoint(endpoint); err != nil {
		return err
	}
	p := profile{Endpoint: endpoint}
	if l.keyID != "" {
		p.KeyID = l.keyID
		p.secret.KeySecret, err = a.keySecret(l)
	} else {
		err = a.signIn(ctx, l, &p)
	}
	if err != nil {
		return err
	}
	p.name, p.source = l.name, fmt.Sprintf("%s (%s)", l.name, endpoint)
	me, namespace, err := a.greet(ctx, p)
	if err != nil {
		return err
	}
	p.Namespace = namespace
	if err := a.keep(l.name, p); err != nil {
		return err
	}
	if err := showOne(a, meView(a), me); err != nil {
		return err
	}
	a.hint("Signed in to %s as context %q. Next: sluice topic list", endpoint, l.name)
	return nil
}

// greet tries the credential before it is stored, and finds the namespace
// when there is only one.
func (a *app) greet(ctx context.Context, p profile) (api.Me, string, error) {
	a.profile = &p
	c, err := a.connect(p)
	if err != nil {
		return api.Me{}, "", err
	}
	me, err := apiclient.OK(c.GetMeWithResponse(ctx))
	if err != nil {
		return api.Me{}, "", doing("sign in", err)
	}
	page, err := apiclient.OK(c.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{PageSize: ptr(int32(2))}))
	if err != nil || len(page.Items) != 1 {
		return me, "", nil // the role may not see namespaces; then each command says which
	}
	return me, page.Items[0].Id, nil
}

func (a *app) keySecret(l login) (string, error) {
	if l.keySecret != "" && l.secretFile != "" {
		return "", usage("two secrets: --key-secret and --key-secret-file", "Give one of them.")
	}
	switch {
	case l.secretFile != "":
		text, err := os.ReadFile(l.secretFile)
		if err != nil {
			return "", usage(err.Error(), "Name a file that holds the secret and nothing else.")
		}
		return strings.TrimSpace(string(text)), nil
	case l.keySecret == "-":
		text, err := readLine(a.In)
		return strings.TrimSpace(text), err
	case l.keySecret != "":
		a.hint("Warning: a secret on the command line is seen by other users and stays in the shell's history; use --key-secret-file or --key-secret -.")
		return l.keySecret, nil
	}
	return a.ask("Secret of "+l.keyID+": ", "Give --key-secret-file, or pipe it in with --key-secret -.")
}

func (a *app) signIn(ctx context.Context, l login, p *profile) error {
	email := l.email
	if email == "" {
		if !a.InTerminal {
			return usage("there is no terminal to ask on", "Give --email with --password-stdin, or --key-id with --key-secret-file.")
		}
		fmt.Fprint(a.Err, "Mail address: ")
		var err error
		if email, err = readLine(a.In); err != nil {
			return err
		}
		email = strings.TrimSpace(email)
	}
	var password string
	var err error
	if l.passwordStdin {
		password, err = readLine(a.In)
	} else {
		password, err = a.ask("Password: ", "Pipe it in with --password-stdin.")
	}
	if err != nil {
		return err
	}
	c, err := a.connect(profile{Endpoint: p.Endpoint})
	if err != nil {
		return err
	}
	resp, err := c.SignInWithResponse(ctx, nil, api.SignIn{Email: email, Password: password})
	if err == nil && resp.JSON202 != nil {
		return a.signInMFA(ctx, c, l, email, *resp.JSON202, p)
	}
	session, err := apiclient.OK(resp, err)
	if err != nil {
		return doing("sign in", err)
	}
	p.Email, p.secret = email, a.secretOf(session, resp.HTTPResponse)
	return nil
}

// secondPrompt asks for what can be typed here of the ways to end the sign-in.
// A security key speaks to a browser only.
func (a *app) secondPrompt(methods []api.MfaMethod, endpoint string) (string, error) {
	has := func(m api.MfaMethod) bool { return slices.Contains(methods, m) }
	if has(api.MfaMethodTotp) {
		return "Code from your authenticator app, or a recovery code: ", nil
	}
	how := "Sign in at " + endpoint + " in a browser, make an API key with a control role there, then: sluice login --key-id ID --key-secret-file FILE."
	if !has(api.MfaMethodRecoveryCode) || !a.InTerminal {
		return "", &Error{Exit: exitRefused, What: "could not sign in", Why: "the second factor of this account is a security key, which works in a browser only",
			Fix: how + " A recovery code works, too: --code."}
	}
	a.hint("The second factor of this account is a security key, which works in a browser only.\n%s\nOr spend one of your recovery codes here.", how)
	return "Recovery code: ", nil
}

var sixDigits = regexp.MustCompile(`^[0-9]{6}$`)

// signInMFA ends a sign-in with the second factor.
func (a *app) signInMFA(ctx context.Context, c *apiclient.SDK, l login, email string, awaited api.MfaAwaited, p *profile) error {
	code := l.code
	if code == "" {
		prompt, err := a.secondPrompt(awaited.Methods, p.Endpoint)
		if err != nil {
			return err
		}
		if !a.InTerminal {
			return usage("this account has a second factor, and there is no terminal to ask on", "Give --code, or sign in with an API key: --key-id ID --key-secret-file FILE.")
		}
		if code, err = a.ask(prompt, ""); err != nil {
			return err
		}
	}
	code = strings.TrimSpace(code)
	in := api.SignInMfa{MfaToken: awaited.MfaToken, Code: &code}
	if !sixDigits.MatchString(code) {
		in.Code, in.RecoveryCode = nil, &code
	}
	resp, err := c.SignInMfaWithResponse(ctx, nil, in)
	session, err := apiclient.OK(resp, err)
	if err != nil {
		return doing("sign in", err)
	}
	p.Email, p.secret = email, a.secretOf(session, resp.HTTPResponse)
	return nil
}

// ask reads a secret without echo.
func (a *app) ask(prompt, otherwise string) (string, error) {
	if !a.InTerminal {
		return "", usage("there is no terminal to ask on", otherwise)
	}
	fmt.Fprint(a.Err, prompt)
	text, err := a.ReadPassword()
	fmt.Fprintln(a.Err)
	return text, err
}

func (a *app) whoamiCommand() *cobra.Command {
	return a.command("whoami", "Show who you are to the server", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		me, err := apiclient.OK(c.GetMeWithResponse(ctx))
		if err != nil {
			return doing("find out who you are", err)
		}
		return showOne(a, meView(a), me)
	})
}

func meView(a *app) view[api.Me] {
	return view[api.Me]{name: func(m api.Me) string { return m.Id }, columns: []column[api.Me]{
		{title: "id", value: func(m api.Me) string { return m.Id }},
		{title: "name", value: func(m api.Me) string { return m.Name }},
		{title: "email", value: func(m api.Me) string { return deref(m.Email) }},
		{title: "api_key_id", value: func(m api.Me) string { return deref(m.ApiKeyId) }},
		{title: "role", value: func(m api.Me) string { return string(m.Role) }},
		{title: "tenant_id", value: func(m api.Me) string { return m.TenantId }},
		{title: "context", value: func(api.Me) string {
			if a.profile == nil {
				return ""
			}
			return a.profile.source
		}},
	}}
}
