package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// contextRow is a context as it is shown; it holds no secret.
type contextRow struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	Endpoint  string `json:"endpoint"`
	Namespace string `json:"namespace_id,omitempty"`
	KeyID     string `json:"api_key_id,omitempty"`
	Email     string `json:"email,omitempty"`
}

var contextView = view[contextRow]{name: func(r contextRow) string { return r.Name }, columns: []column[contextRow]{
	{title: "name", value: func(r contextRow) string { return r.Name }},
	{title: "current", value: func(r contextRow) string {
		if r.Current {
			return "*"
		}
		return " "
	}},
	{title: "endpoint", value: func(r contextRow) string { return r.Endpoint }},
	{title: "namespace_id", value: func(r contextRow) string { return r.Namespace }},
	{title: "credential", value: func(r contextRow) string {
		if r.KeyID != "" {
			return r.KeyID
		}
		return r.Email
	}},
}}

func rowOf(s *settings, name string) contextRow {
	p := s.Contexts[name]
	return contextRow{Name: name, Current: name == s.Current, Endpoint: p.Endpoint, Namespace: p.Namespace, KeyID: p.KeyID, Email: p.Email}
}

func noContext(s *settings, name string) error {
	fix := "Make one with: sluice login --name " + name
	if len(s.Contexts) > 0 {
		fix = fmt.Sprintf("These exist: %s. %s", strings.Join(s.names(), ", "), fix)
	}
	return &Error{Exit: exitNotFound, What: fmt.Sprintf("there is no context %q", name), Fix: fix}
}

func (a *app) contextCommand() *cobra.Command {
	return a.parent("context", "Servers and credentials that were signed in to", a.contextList(), a.contextUse(), a.contextCreate(), a.contextShow(), a.contextDelete())
}

func (a *app) contextList() *cobra.Command {
	return a.command("list", "List contexts", cobra.NoArgs, func(context.Context, *cobra.Command, []string) error {
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		rows := []contextRow{}
		for _, name := range s.names() {
			rows = append(rows, rowOf(s, name))
		}
		return showList(a, contextView, rows)
	})
}

func (a *app) contextUse() *cobra.Command {
	return a.command("use NAME", "Make a context the current one; - is the one before", cobra.ExactArgs(1), func(_ context.Context, _ *cobra.Command, args []string) error {
		return a.locked(func() error {
			s, err := a.loadSettings()
			if err != nil {
				return err
			}
			name := args[0]
			if name == "-" {
				name = s.Previous
			}
			if _, ok := s.Contexts[name]; !ok {
				return noContext(s, name)
			}
			s.choose(name)
			if err := a.saveSettings(s); err != nil {
				return err
			}
			return showOne(a, contextView, rowOf(s, name))
		})
	})
}

func (a *app) contextCreate() *cobra.Command {
	var from string
	c := a.command("create NAME", "Copy a context, with another namespace", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		if from != "" {
			a.context = from
		}
		p, err := a.resolve()
		if err != nil {
			return err
		}
		if p.Endpoint == "" {
			return &Error{Exit: exitUsage, What: "there is no context to copy", Fix: "Sign in first: sluice login --name " + args[0]}
		}
		if p.Email != "" {
			return usage("a session cannot be shared by two contexts", "Sign in again under the other name: sluice login --name "+args[0])
		}
		if a.namespace != "" {
			if p.Namespace, err = a.findNamespace(ctx, a.namespace); err != nil {
				return err
			}
		}
		if err := a.keep(args[0], *p); err != nil {
			return err
		}
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		return showOne(a, contextView, rowOf(s, args[0]))
	})
	c.Flags().StringVar(&from, "from", "", "context to copy (default: the current one, or the environment)")
	return c
}

func (a *app) contextShow() *cobra.Command {
	return a.command("show [NAME]", "Show a context, the current one by default", cobra.MaximumNArgs(1), func(_ context.Context, _ *cobra.Command, args []string) error {
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		name := s.Current
		if len(args) == 1 {
			name = args[0]
		}
		if _, ok := s.Contexts[name]; !ok {
			return noContext(s, name)
		}
		return showOne(a, contextView, rowOf(s, name))
	})
}

func (a *app) contextDelete() *cobra.Command {
	return a.asks(a.command("delete NAME", "Forget a context and end its session", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		p, ok := s.Contexts[args[0]]
		if !ok {
			return noContext(s, args[0])
		}
		if err := a.confirm(fmt.Sprintf("Forget context %s (%s)?", args[0], p.Endpoint)); err != nil {
			return err
		}
		var gone secret
		err = a.locked(func() error {
			secrets, err := a.loadSecrets()
			if err != nil {
				return err
			}
			if s, err = a.loadSettings(); err != nil {
				return err
			}
			gone = secrets[args[0]]
			delete(secrets, args[0])
			delete(s.Contexts, args[0])
			if s.Current == args[0] {
				s.Current = ""
			}
			if s.Previous == args[0] {
				s.Previous = ""
			}
			if err := a.saveSettings(s); err != nil {
				return err
			}
			return a.saveSecrets(secrets)
		})
		if err != nil {
			return err
		}
		if gone.RefreshToken != "" {
			if err := a.endSession(ctx, p.Endpoint, gone.RefreshToken); err != nil {
				return err
			}
		}
		if s.Current == "" && len(s.Contexts) > 0 {
			a.hint("No context is current now. Next: sluice context use %s", s.names()[0])
		}
		return a.deleted("context "+args[0], args[0], nil, false)
	}))
}

// endSession makes the refresh token void on the server.
func (a *app) endSession(ctx context.Context, endpoint, token string) error {
	c, err := apiclient.New(apiclient.Config{Endpoint: endpoint, UserAgent: "sluice-cli", HTTP: a.HTTP, MaxRetries: -1})
	if err != nil {
		return err
	}
	if err := apiclient.Done(c.SignOutWithResponse(ctx, nil, withCookie(token))); err != nil {
		a.hint("The context is gone, but the server could not be told that the session is over: %v", err)
	}
	return nil
}
