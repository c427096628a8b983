// Package cli is the command line of Sluice's users: sign in, topics, groups,
// keys, messages, usage. It owns the words, the output and the files under
// ~/.config/sluice; all else is the HTTP API, called through
// controlplane/apiclient.
//
// Commands returns new commands on each call; they are used by one goroutine
// and once. Nothing is read or opened before a command runs, so that they
// cost nothing to a binary that has other things to do.
package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// IO is all that the commands touch of the world outside the API.
type IO struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// InTerminal and OutTerminal say whether a person sits at the other end:
	// only then is there a table by default, colour, and a question.
	InTerminal, OutTerminal bool
	// ReadPassword reads a line without echo.
	ReadPassword func() (string, error)
	Getenv       func(string) string
	// ConfigDir is the folder of contexts and secrets.
	ConfigDir string
	Now       func() time.Time
	// HTTP carries the requests; nil means a client of its own.
	HTTP *http.Client
}

// System is the IO of this process.
func System() IO {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		dir = filepath.Join(os.Getenv("HOME"), ".config")
	}
	return IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())), OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ReadPassword: func() (string, error) {
			text, err := term.ReadPassword(int(os.Stdin.Fd()))
			return string(text), err
		},
		Getenv: os.Getenv, ConfigDir: filepath.Join(dir, "sluice"), Now: time.Now,
	}
}

// app is one run of one command.
type app struct {
	IO
	output    string
	context   string
	namespace string
	quiet     bool
	yes       bool
	dryRun    bool
	wait      time.Duration

	profile *profile // resolved by client
	sdk     *apiclient.SDK
}

// Commands returns the user's commands for a root command. The root should be
// silent about errors and usage, and hand the error of Execute to Report.
func Commands(io IO) []*cobra.Command {
	a := &app{IO: io}
	commands := []*cobra.Command{a.loginCommand(), a.contextCommand(), a.whoamiCommand(), a.namespaceCommand(), a.topicCommand(), a.groupCommand(), a.transactionCommand(),
		a.keyCommand(), a.sendCommand(), a.receiveCommand(), a.tailCommand(), a.usageCommand(), a.costCommand(), a.auditCommand(),
		a.memberCommand(), a.invitationCommand(), a.roleCommand(), a.aclCommand(), a.tenantCommand(),
		a.serviceAccountCommand(), a.workloadCommand(), a.ssoCommand(), a.sessionCommand()}
	for _, c := range commands {
		a.common(c)
		c.SetIn(io.In)
		c.SetOut(io.Out)
		c.SetErr(io.Err)
	}
	return commands
}

// common adds the flags that every command has.
func (a *app) common(c *cobra.Command) {
	c.SilenceErrors, c.SilenceUsage = true, true
	f := c.PersistentFlags()
	f.StringVarP(&a.output, "output", "o", "", "table, json, yaml or name (default: table on a terminal, else json)")
	f.StringVar(&a.context, "context", "", "context to use; beats the environment and the current context")
	f.StringVarP(&a.namespace, "namespace", "n", "", "namespace, by id or name (default: SLUICE_NAMESPACE, that of the context, or the only one)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no hints on standard error")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{outputTable, outputJSON, outputYAML, outputName}, cobra.ShellCompDirectiveNoFileComp))
	completeFlags(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return a.dress(usage(err.Error(), "See: "+c.CommandPath()+" --help"))
	})
}

// command makes a command whose errors leave in one form.
func (a *app) command(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, c *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return a.dress(usage(err.Error(), "Usage: "+c.UseLine()))
			}
			if err := c.ValidateRequiredFlags(); err != nil {
				return a.dress(usage(err.Error(), "See: "+c.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, given []string) error {
			if !knownOutput(a.output) {
				return a.dress(usage(fmt.Sprintf("there is no output form %q", a.output), "Use -o table, json, yaml or name."))
			}
			ctx := c.Context()
			if ctx == nil {
				ctx = context.Background() // only when the root is not run with one
			}
			return a.dress(run(ctx, c, given))
		},
	}
}

// parent makes a command that only holds others.
func (a *app) parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			fix := "See: " + c.CommandPath() + " --help"
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				fix = "Did you mean: " + c.CommandPath() + " " + strings.Join(near, " or ") + "?"
			}
			return a.dress(usage(fmt.Sprintf("there is no command %q under %s", args[0], c.CommandPath()), fix))
		}}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(children...)
	return c
}

// writes adds the flags of commands that change something.
func (a *app) writes(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "check everything and change nothing")
	return c
}

// reaches adds the flags of commands whose change reaches brokers.
func (a *app) reaches(c *cobra.Command) *cobra.Command {
	c.Flags().DurationVar(&a.wait, "wait", 0, "wait until brokers have the change, at most this long (--wait alone: 60s)")
	c.Flags().Lookup("wait").NoOptDefVal = "60s"
	return a.writes(c)
}

// asks adds the flag of commands that ask before they destroy.
func (a *app) asks(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	return c
}

// confirm asks a person; without one, and without --yes, it is an error.
func (a *app) confirm(question string) error {
	if a.yes || a.dryRun {
		return nil
	}
	if !a.InTerminal {
		return usage("this needs a confirmation, and there is no terminal to ask on", "Say --yes.")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer, err := readLine(a.In)
	if err != nil {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &Error{Exit: exitFailed, What: "nothing was done", Why: "it was not confirmed"}
	}
	return nil
}

// readLine reads byte by byte, so that nothing after the line is lost.
func readLine(r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for {
		n, err := r.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				return strings.TrimSuffix(string(line), "\r"), nil
			}
			line = append(line, one[0])
		}
		if err == io.EOF && len(line) > 0 {
			return string(line), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// hint tells a person what to do next.
func (a *app) hint(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// noted says that a dry run changed nothing.
func (a *app) noted() {
	if a.dryRun {
		a.hint("Dry run: nothing was changed.")
	}
}
