package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// listing makes a command that lists all pages of what, such as "API keys".
func listing[T any](a *app, use, short, what string, v view[T],
	page func(ctx context.Context, c *apiclient.SDK, token *string) ([]T, *string, error)) *cobra.Command {
	return a.command(use, short, cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		items, err := every(ctx, a, what, page)
		if err != nil {
			return err
		}
		return showList(a, v, items)
	})
}

// every reads all pages of what.
func every[T any](ctx context.Context, a *app, what string, page func(ctx context.Context, c *apiclient.SDK, token *string) ([]T, *string, error)) ([]T, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	items, err := collect(apiclient.All(func(token *string) ([]T, *string, error) { return page(ctx, c, token) }))
	return items, doing("list "+what, err)
}

// showing makes a command that shows the one that its argument names.
func showing[T any](a *app, use, short, what string, v view[T], read func(ctx context.Context, c *apiclient.SDK, name string) (T, error)) *cobra.Command {
	return a.command(use, short, cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		item, err := read(ctx, c, args[0])
		if err != nil {
			return doing("read "+what+" "+args[0], err)
		}
		return showOne(a, v, item)
	})
}

// removing makes a command that deletes the one that its argument names, after
// a question that tells what ends with it. how is writes or reaches.
func (a *app) removing(how func(*cobra.Command) *cobra.Command, use, short, what, ends string, drop func(ctx context.Context, c *apiclient.SDK, name string) error) *cobra.Command {
	var lenient bool
	verb, _, _ := strings.Cut(use, " ")
	c := a.command(use, short, cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if err := a.confirm(strings.ToUpper(verb[:1]) + verb[1:] + " " + what + " " + args[0] + "? " + ends); err != nil {
			return err
		}
		return a.deleted(what+" "+args[0], args[0], drop(ctx, c, args[0]), lenient)
	})
	c.Flags().BoolVar(&lenient, "if-exists", false, "do not fail when it is gone already")
	return a.asks(how(c))
}

// found is the object that has the id which, or the name if which is no id.
func found[T any](which, prefix, what, list string, get func(id string) (T, error), named func(name string) ([]T, error)) (T, error) {
	if strings.HasPrefix(which, prefix) {
		return get(which)
	}
	var none T
	items, err := named(which)
	if err != nil {
		return none, err
	}
	if len(items) == 0 {
		return none, noneNamed(what, which, list)
	}
	return items[0], nil
}

// noneNamed is the failure of a look-up by name; list is the command that shows
// what there is.
func noneNamed(what, name, list string) error {
	return &Error{Exit: exitNotFound, What: "there is no " + what + " " + name, Why: "nothing has that name", Fix: "See: " + list}
}

// changed ends a create or an update that reaches no broker.
func changed[T any](a *app, v view[T], doingWhat string, item T, err error, hint string) error {
	if err != nil {
		return doing(doingWhat, err)
	}
	if err := showOne(a, v, item); err != nil {
		return err
	}
	a.next(hint)
	return nil
}

// shown ends a create or an update that reaches brokers: it keeps --wait, and
// shows what came of it.
func shown[T any](ctx context.Context, a *app, started time.Time, v view[T], what string, item T, status func(T) api.ResourceStatus,
	latest func(ctx context.Context, c *apiclient.SDK) (T, error), hint string) error {
	err := a.settle(ctx, started, what, status(item), func(ctx context.Context) (api.ResourceStatus, error) {
		now, err := latest(ctx, a.sdk)
		if err == nil {
			item = now
		}
		return status(now), err
	})
	if err := errors.Join(showOne(a, v, item), err); err != nil {
		return err
	}
	a.next(hint)
	return nil
}

// never is what flags for an end take for none.
const never = "never"

// end reads a flag that says when something ends: unspecified when it was not
// given, null for never.
func (a *app) end(f *pflag.FlagSet, flag, text string) (nullable.Nullable[api.Timestamp], error) {
	if !f.Changed(flag) {
		return nil, nil
	}
	return a.moved(text, "--"+flag)
}

// moved reads a new end; null for never.
func (a *app) moved(text, what string) (nullable.Nullable[api.Timestamp], error) {
	if text == never {
		return nullable.NewNullNullable[api.Timestamp](), nil
	}
	t, err := a.instant(what, text)
	return nullable.NewNullableWithValue(t), err
}

// firstEnd is end for what is new, where never and nothing are the same.
func (a *app) firstEnd(f *pflag.FlagSet, flag, text string) (*api.Timestamp, error) {
	end, err := a.end(f, flag, text)
	if err != nil || end.IsNull() || !end.IsSpecified() {
		return nil, err
	}
	t, err := end.Get()
	return &t, err
}

// ifMatch makes a change count for this revision only.
func ifMatch(revision int64) *string { return ptr(`"` + number(revision) + `"`) }

// flagWords are what flags take that know few words, whatever the command.
var flagWords = map[string][]cobra.Completion{
	"permission":      {string(api.PUB), string(api.SUB), string(api.MANAGE), string(api.DESCRIBE)},
	"operation":       {string(api.PUB), string(api.SUB), string(api.MANAGE), string(api.DESCRIBE)},
	"control-role":    {"admin", "developer", "viewer", "billing"},
	"auto-enrol-role": {"none", "viewer", "developer", "billing"},
	"effect":          {"allow", "deny"},
	"resource":        {"topic", "group", "namespace"},
	"language":        {"en", "zh"},
	"for":             {"control", "data"},
}

// completeFlags completes the flags of c and of what is below it.
func completeFlags(c *cobra.Command) {
	for name, list := range flagWords {
		if f := c.Flags().Lookup(name); f != nil && !(name == "permission" && c.Parent() != nil && c.Parent().Name() == "role") {
			_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, child := range c.Commands() {
		completeFlags(child)
	}
}

// words completes the argument at this place, counted from 0, with one of list.
func words(place int, list ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) != place {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// pairs is a flag of key=value pairs that takes the empty text for none.
type pairs struct {
	pflag.Value
	into *map[string]string
}

// Set implements pflag.Value.
func (p pairs) Set(text string) error {
	if text == "" {
		*p.into = map[string]string{}
		return nil
	}
	return p.Value.Set(text)
}

func pairsVar(f *pflag.FlagSet, into *map[string]string, name, usage string) {
	f.StringToStringVar(into, name, nil, usage)
	flag := f.Lookup(name)
	flag.Value = pairs{flag.Value, into}
}
