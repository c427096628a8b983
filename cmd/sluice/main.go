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
)

// version is set by the linker.
var version = "dev"

// Exit codes of servers.
const (
	exitFailed = 1
	exitUsage  = 2 // usage or configuration
)

// usageError marks what the caller has to mend.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "sluice:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sluice",
		Short:         "A multi-tenant message queue for the official RocketMQ SDKs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(serverCommands()...)
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
