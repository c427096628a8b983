package cli

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

const (
	envEndpoint     = "SLUICE_ENDPOINT"
	envToken        = "SLUICE_TOKEN"
	envClientID     = "SLUICE_CLIENT_ID"
	envClientSecret = "SLUICE_CLIENT_SECRET"
	envNamespace    = "SLUICE_NAMESPACE"
	envContext      = "SLUICE_CONTEXT"

	defaultEndpoint = "http://127.0.0.1:8080"
	refreshCookie   = "sluice_refresh"
	// freshFor is how long an access token must still live to be used.
	freshFor = 30 * time.Second
)

// resolve finds server and credential. --context beats the environment, the
// environment beats the current context.
func (a *app) resolve() (*profile, error) {
	s, err := a.loadSettings()
	if err != nil {
		return nil, err
	}
	name, explicit := a.context, a.context != ""
	if name == "" {
		name = a.Getenv(envContext)
	}
	if name == "" {
		name = s.Current
	}
	p := &profile{source: "none"}
	if name != "" {
		stored, ok := s.Contexts[name]
		if !ok {
			return nil, noContext(s, name)
		}
		secrets, err := a.loadSecrets()
		if err != nil {
			return nil, err
		}
		copied := *stored
		p = &copied
		p.secret, p.source = secrets[name], fmt.Sprintf("%s (%s)", name, p.Endpoint)
	}
	if explicit {
		return p, nil
	}
	return p, a.overlay(p)
}

// overlay puts the environment over a context.
func (a *app) overlay(p *profile) error {
	endpoint, token := strings.TrimRight(a.Getenv(envEndpoint), "/"), a.Getenv(envToken)
	id, key := a.Getenv(envClientID), a.Getenv(envClientSecret)
	switch {
	case token != "" && (id != "" || key != ""):
		return usage("two credentials at once: "+envToken+" and "+envClientID+" with "+envClientSecret, "Unset one of the two.")
	case (id == "") != (key == ""):
		return usage("half a credential: "+envClientID+" and "+envClientSecret+" belong together", "Set both or none.")
	}
	own := token != "" || id != ""
	if endpoint != "" && endpoint != p.Endpoint {
		if !own && p.Endpoint != "" {
			return usage(fmt.Sprintf("%s is %s, but the credential of context %q is for %s", envEndpoint, endpoint, p.name, p.Endpoint),
				fmt.Sprintf("Unset %s, or set a credential beside it (%s with %s, or %s).", envEndpoint, envClientID, envClientSecret, envToken))
		}
		p.Endpoint, p.Namespace = endpoint, ""
		p.source = "the environment (" + endpoint + ")"
	}
	if own {
		p.Email, p.KeyID, p.Namespace = "", id, "" // another caller may not see the namespace
		p.secret = secret{KeySecret: key, AccessToken: token, AccessEnds: a.Now().Add(time.Hour)}
		if p.Endpoint == "" {
			p.Endpoint = defaultEndpoint
		}
		p.source = "the environment (" + p.Endpoint + ")"
	}
	return nil
}

// client returns the API with the credential of the context.
func (a *app) client(ctx context.Context) (*apiclient.SDK, error) {
	if a.sdk != nil {
		return a.sdk, nil
	}
	p, err := a.resolve()
	if err != nil {
		return nil, err
	}
	a.profile = p
	if p.Endpoint == "" || (p.KeyID == "" && p.secret.AccessToken == "" && p.secret.RefreshToken == "") {
		return nil, &Error{Exit: exitRefused, What: "you are not signed in", Why: "there is no context and no credential in the environment",
			Fix: fmt.Sprintf("Sign in with: sluice login, or set %s, %s and %s.", envEndpoint, envClientID, envClientSecret)}
	}
	if p.KeyID == "" && p.secret.RefreshToken != "" && a.Now().Add(freshFor).After(p.secret.AccessEnds) {
		if err := a.refresh(ctx, p); err != nil {
			return nil, err
		}
	}
	a.sdk, err = a.connect(*p)
	return a.sdk, err
}

// pause waits before a request is tried again, and says so when it is for long.
func (a *app) pause(ctx context.Context, d time.Duration) error {
	if d >= time.Second {
		a.hint("The server does not answer, or asks to wait: trying again in %s.", d.Round(time.Second))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect returns the API with the credential of p, if it has one.
func (a *app) connect(p profile) (*apiclient.SDK, error) {
	cfg := apiclient.Config{Endpoint: p.Endpoint, UserAgent: "sluice-cli", HTTP: a.HTTP, Pause: a.pause}
	if p.KeyID != "" {
		cfg.KeyID, cfg.KeySecret = p.KeyID, p.secret.KeySecret
	} else {
		cfg.Token = p.secret.AccessToken
	}
	c, err := apiclient.New(cfg)
	if err != nil {
		return nil, usage(err.Error(), "Put it right with: sluice login --endpoint http://host:port")
	}
	return c, nil
}

// refresh exchanges the refresh token of p for a new pair. Another command
// may have done so in the meantime; then its tokens are taken.
func (a *app) refresh(ctx context.Context, p *profile) error {
	c, err := a.connect(profile{Endpoint: p.Endpoint})
	if err != nil {
		return err
	}
	return a.locked(func() error {
		secrets, err := a.loadSecrets()
		if err != nil {
			return err
		}
		if s := secrets[p.name]; a.Now().Add(freshFor).Before(s.AccessEnds) {
			p.secret = s
			return nil
		} else if s.RefreshToken != "" {
			p.secret = s
		}
		resp, err := c.RefreshSessionWithResponse(ctx, nil, withCookie(p.secret.RefreshToken))
		session, err := apiclient.OK(resp, err)
		if err != nil {
			return doing("renew the session", err)
		}
		p.secret = a.secretOf(session, resp.HTTPResponse)
		secrets[p.name] = p.secret
		return a.saveSecrets(secrets)
	})
}

func withCookie(token string) apiclient.RequestEditorFn {
	return func(_ context.Context, req *http.Request) error {
		req.AddCookie(&http.Cookie{Name: refreshCookie, Value: token})
		return nil
	}
}

// secretOf takes the tokens out of an answer that signs in.
func (a *app) secretOf(s api.Session, resp *http.Response) secret {
	out := secret{AccessToken: s.AccessToken, AccessEnds: a.Now().Add(time.Duration(s.ExpiresIn) * time.Second).UTC()}
	for _, c := range resp.Cookies() {
		if c.Name == refreshCookie {
			out.RefreshToken = c.Value
		}
	}
	return out
}

var namespaceForm = regexp.MustCompile(`^[a-z0-9]{8,16}$`)

// ns returns the id of the namespace to work in.
func (a *app) ns(ctx context.Context) (string, error) {
	c, err := a.client(ctx)
	if err != nil {
		return "", err
	}
	given := a.namespace
	if given == "" && a.context == "" {
		given = a.Getenv(envNamespace)
	}
	if given != "" {
		return a.findNamespace(ctx, given)
	}
	if a.profile.Namespace != "" {
		return a.profile.Namespace, nil
	}
	size := int32(2)
	page, err := apiclient.OK(c.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{PageSize: &size}))
	if apiclient.Is(err, "permission_denied") {
		if id := boundTo(ctx, c); id != "" {
			return id, nil
		}
	}
	if err != nil {
		return "", doing("find the namespace", err)
	}
	switch len(page.Items) {
	case 0:
		return "", &Error{Exit: exitNotFound, What: "there is no namespace", Fix: "Make one: sluice namespace create NAME"}
	case 1:
		return page.Items[0].Id, nil
	}
	return "", usage("which namespace?", "Name it with --namespace or "+envNamespace+"; sluice namespace list shows them. "+
		"To keep one: sluice context create NAME --namespace ID.")
}

// boundTo is the one namespace that role bindings give the caller a part of, or
// nothing. Who may read a topic of it may not always read the namespace.
func boundTo(ctx context.Context, c *apiclient.SDK) string {
	me, err := apiclient.OK(c.GetMeWithResponse(ctx))
	if err != nil {
		return ""
	}
	found := ""
	for _, b := range me.Bindings {
		switch id := deref(b.Scope.NamespaceId); {
		case found == "":
			found = id
		case id != "" && id != found:
			return ""
		}
	}
	return found
}

// findNamespace takes an id or a name.
func (a *app) findNamespace(ctx context.Context, given string) (string, error) {
	c, err := a.client(ctx)
	if err != nil {
		return "", err
	}
	if namespaceForm.MatchString(given) {
		n, err := apiclient.OK(c.GetNamespaceWithResponse(ctx, given))
		if err == nil {
			return n.Id, nil
		}
		if apiclient.Is(err, "permission_denied") {
			return given, nil // an id, most likely: who may read a topic of it may not always read the namespace
		}
		if !apiclient.NotFound(err) {
			return "", doing("find namespace "+given, err)
		}
	}
	page, err := apiclient.OK(c.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{Name: &given}))
	if err != nil {
		return "", doing("find namespace "+given, err)
	}
	if len(page.Items) == 0 {
		return "", &Error{Exit: exitNotFound, What: fmt.Sprintf("there is no namespace %q", given), Fix: "sluice namespace list shows those that exist."}
	}
	return page.Items[0].Id, nil
}

// written reads the answer to a create: 201, or 200 after a dry run.
func written[T any](r interface {
	Status() string
	StatusCode() int
	GetBody() []byte
	GetJSON200() *T
	GetJSON201() *T
}, err error,
) (T, error) {
	if err == nil && r.StatusCode() == http.StatusOK {
		return apiclient.OK(r, nil)
	}
	return apiclient.Created(r, err)
}

// collect reads every page of a list.
func collect[T any](pages iter.Seq2[T, error]) ([]T, error) {
	var items []T
	for item, err := range pages {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func checkEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", usage(fmt.Sprintf("the endpoint %q is no URL", text), "Write it like http://127.0.0.1:8080 or https://sluice.example.com.")
	}
	return strings.TrimRight(text, "/"), nil
}

func ptr[T any](v T) *T { return &v }
