// Command sluice is the one binary: the servers of every role, and the user's
// commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/cmd/sluice/cli"
)

// version is set by the linker.
var version = "dev"

// Exit codes of servers.
const (
	exitFailed = 1
	exitUsage  = 2 // usage or configuration
	exitDirty  = 2 // of store verify: only what the next start mends
)

// usageError marks what the caller of a server has to mend.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// serverError marks a server that failed.
type serverError struct{ error }

func (e serverError) Unwrap() error { return e.error }

// dirtyError marks a store that the next start of a broker mends.
type dirtyError struct{ error }

func (e dirtyError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	err := root().ExecuteContext(ctx)
	stop()
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	var usage usageError
	var failed serverError
	var dirty dirtyError
	switch {
	case errors.As(err, &dirty):
		fmt.Fprintln(os.Stderr, "sluice:", err)
		return exitDirty
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "sluice:", err)
		return exitUsage
	case errors.As(err, &failed):
		fmt.Fprintln(os.Stderr, "sluice:", err)
		return exitFailed
	}
	return cli.Report(cli.System(), err)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sluice",
		Short:         "A multi-tenant message queue for the official RocketMQ SDKs",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serverCommands()...)
	cmd.AddCommand(storeCommand())
	cmd.AddCommand(cli.Commands(cli.System())...)
	cmd.AddCommand(&cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			info, ok := debug.ReadBuildInfo()
			goVersion := ""
			if ok {
				goVersion = " " + info.GoVersion
			}
			fmt.Println("sluice " + version + goVersion)
		},
	})
	return cmd
}
