package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sluicemq/sluice/controlplane/api"
)

// scopeFlags say what a key or a workload identity may do in one namespace, or
// name a file that says it for all.
type scopeFlags struct {
	permissions, topics, groups, cidrs []string
	expires, file                      string
}

var (
	scopeNames = []string{"permission", "topics", "groups", "scope-cidr", "scope-expires"}
	scopesFile = "scopes-file"
)

func (s *scopeFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&s.permissions, "permission", []string{"PUB", "SUB"}, "what it may do in the namespace: PUB, SUB, MANAGE, DESCRIBE")
	f.StringSliceVar(&s.topics, "topics", nil, "topics it holds for, such as orders*; default: all")
	f.StringSliceVar(&s.groups, "groups", nil, "groups it holds for; default: all")
	f.StringSliceVar(&s.cidrs, "scope-cidr", nil, "address or network that the permissions hold for; may be repeated; default: all that the key allows")
	f.StringVar(&s.expires, "scope-expires", "", "end of the permissions, as a time or from now on; never: that of the key, which is the default")
	f.StringVar(&s.file, scopesFile, "", "file with all scopes in YAML or JSON, as in -o yaml; - reads standard input; for several namespaces")
}

func (s *scopeFlags) given(f *pflag.FlagSet) bool {
	return f.Changed(scopesFile) || slices.ContainsFunc(scopeNames, f.Changed)
}

// scopes lays the flags over the scopes that are there: what was not named of
// the namespace's scope stays as it is, and so do those of other namespaces.
func (a *app) scopes(ctx context.Context, s *scopeFlags, f *pflag.FlagSet, now []api.ApiKeyScope) (*[]api.ApiKeyScope, error) {
	if f.Changed(scopesFile) {
		if slices.ContainsFunc(scopeNames, f.Changed) {
			return nil, usage("two ways to say the scopes: --"+scopesFile+" and flags for one of them", "Say everything in the file.")
		}
		return a.scopesOf(s.file)
	}
	ns := ""
	if a.namespace == "" && len(now) == 1 {
		ns = now[0].NamespaceId
	} else {
		var err error
		if ns, err = a.ns(ctx); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(now)
	of := func(sc api.ApiKeyScope) bool { return sc.NamespaceId == ns }
	i := slices.IndexFunc(out, of)
	switch {
	case i < 0:
		out, i = append(out, api.ApiKeyScope{NamespaceId: ns, Permissions: keyPermissions(s.permissions)}), len(out)
	case slices.ContainsFunc(out[i+1:], of):
		return nil, usage("it has several scopes in namespace "+ns, "Say all of them: --"+scopesFile+" FILE. The list of scopes is in: sluice key get KEY_ID -o yaml")
	}
	scope := &out[i]
	if f.Changed("permission") {
		scope.Permissions = keyPermissions(s.permissions)
	}
	lay := func(into **[]string, flag string, list []string) {
		if f.Changed(flag) {
			*into = &list
		}
	}
	lay(&scope.Topics, "topics", s.topics)
	lay(&scope.Groups, "groups", s.groups)
	lay(&scope.Cidrs, "scope-cidr", s.cidrs)
	if f.Changed("scope-expires") {
		end, err := a.firstEnd(f, "scope-expires", s.expires)
		if err != nil {
			return nil, err
		}
		scope.ExpiresAt = end
	}
	return &out, nil
}

// scopesOf reads a list of scopes, or an object that has one.
func (a *app) scopesOf(path string) (*[]api.ApiKeyScope, error) {
	text, err := a.readSecret("--"+scopesFile, path, 1<<20)
	if err != nil {
		return nil, err
	}
	wrong := func(err error) error {
		return usage("--"+scopesFile+": "+err.Error(), "Write a list of scopes, each with namespace_id and permissions, as sluice key get KEY_ID -o yaml shows them.")
	}
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, wrong(err)
	}
	if object, ok := tree.(map[string]any); ok {
		tree = object["scopes"]
	}
	list, ok := tree.([]any)
	if !ok {
		return nil, wrong(errors.New("there is no list of scopes in it"))
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, wrong(err)
	}
	scopes := []api.ApiKeyScope{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&scopes); err != nil {
		return nil, wrong(err)
	}
	return &scopes, nil
}

func keyPermissions(list []string) []api.KeyPermission {
	out := make([]api.KeyPermission, len(list))
	for i, p := range list {
		out[i] = api.KeyPermission(strings.ToUpper(p))
	}
	return out
}

// scopesText writes scopes in short.
func scopesText(in []api.ApiKeyScope) string {
	texts := make([]string, len(in))
	for i, s := range in {
		permissions := make([]string, len(s.Permissions))
		for j, p := range s.Permissions {
			permissions[j] = string(p)
		}
		texts[i] = s.NamespaceId + ":" + strings.Join(permissions, "+")
	}
	return strings.Join(texts, " ")
}

// scopesDetail writes scopes with all that bounds them.
func scopesDetail(in []api.ApiKeyScope) string {
	texts := make([]string, len(in))
	for i, s := range in {
		texts[i] = scopesText(in[i : i+1])
		for _, part := range []struct {
			name string
			list *[]string
		}{{"topics", s.Topics}, {"groups", s.Groups}, {"from", s.Cidrs}} {
			if part.list != nil && len(*part.list) > 0 && !slices.Equal(*part.list, []string{"*"}) {
				texts[i] += fmt.Sprintf(" %s %s", part.name, strings.Join(*part.list, ","))
			}
		}
		if s.ExpiresAt != nil {
			texts[i] += " until " + s.ExpiresAt.String()
		}
	}
	return strings.Join(texts, "; ")
}

// readSecret reads a file, or standard input for "-", of at most limit bytes,
// without the line's end.
func (a *app) readSecret(what, path string, limit int64) (string, error) {
	in := a.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", usage(what+": "+err.Error(), "Name a file, or - for standard input.")
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, limit))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
