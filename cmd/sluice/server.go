package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/console"
	"github.com/sluicemq/sluice/controlplane"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/standalone"
)

func serverCommands() []*cobra.Command {
	return []*cobra.Command{
		serverCommand(standalone.RoleAll, "everything in one process, on embedded defaults"),
		serverCommand(standalone.RoleControlPlane, "console, API and jobs"),
		serverCommand(standalone.RoleNameServer, "a RocketMQ name server"),
		serverCommand(standalone.RoleBroker, "a RocketMQ broker, remoting and gRPC"),
		migrateCommand(),
	}
}

// configured adds the flags of all settings to cmd and returns a function that
// reads file, environment and flags, in this order.
func configured(cmd *cobra.Command) func() (*standalone.Config, error) {
	defaults := standalone.Default()
	flags := map[string]*string{}
	var more strings.Builder
	for _, s := range defaults.Settings() {
		if s.Flag != "" {
			flags[s.Path] = cmd.Flags().String(s.Flag, s.Default(), s.Usage+" ["+s.Env()+"]")
			continue
		}
		fmt.Fprintf(&more, "  %-28s %s [%s]", s.Path, s.Usage, s.Env())
		if d := s.Default(); d != "" {
			fmt.Fprintf(&more, " (default %s)", d)
		}
		more.WriteByte('\n')
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + "\nSettings without a flag, by their key in the --config file [and in the environment]:\n" + more.String())
	file := cmd.Flags().String("config", "", "YAML file with settings")
	return func() (*standalone.Config, error) {
		c := standalone.Default()
		problems := []error{c.Load(*file, os.Environ())}
		for _, s := range c.Settings() {
			if text, ok := flags[s.Path]; ok && cmd.Flags().Changed(s.Flag) {
				problems = append(problems, s.Set(*text))
			}
		}
		return c, errors.Join(append(problems, c.Finish())...)
	}
}

func serverCommand(role standalone.Role, short string) *cobra.Command {
	cmd := &cobra.Command{Use: string(role), Short: short, Args: cobra.NoArgs}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see: %s --help", err, c.CommandPath())}
	})
	load := configured(cmd)
	check := cmd.Flags().Bool("check-config", false, "check the settings, print all problems, and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		if *check {
			fmt.Println("settings are good; nothing was connected to")
			return nil
		}
		return serve(cmd.Context(), role, cfg)
	}
	return cmd
}

func serve(ctx context.Context, role standalone.Role, cfg *standalone.Config) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return usageError{err}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	deps := standalone.Deps{Now: time.Now, Logger: log}
	files, err := console.FS()
	if err != nil && !errors.Is(err, console.ErrNotBuilt) {
		return serverError{err}
	}
	if err == nil {
		deps.Console = files
	}
	s, err := standalone.New(ctx, role, cfg, deps)
	if err != nil {
		return serverError{err}
	}
	a := s.Addresses()
	if a.HTTP != "" {
		fmt.Printf("console    http://%s\n", a.HTTP)
	}
	lines := [][2]string{{"admin", a.Admin}, {"namesrv", a.NameSrv}, {"broker", a.Broker}, {"grpc", a.GRPC}, {"data", cfg.Data}}
	if a.HTTP != "" && strings.HasPrefix(cfg.Mail, "file:") {
		lines = append(lines, [2]string{"mailbox", "http://" + a.HTTP + "/mailbox"})
	}
	for _, line := range lines {
		if line[1] != "" {
			fmt.Printf("%-10s %s\n", line[0], line[1])
		}
	}
	go func() {
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "stopping: what was accepted is finished and written; a second signal ends at once")
	}()
	if err := s.Run(ctx); err != nil {
		return serverError{err}
	}
	return nil
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "bring the database's schema to this version, and exit", Args: cobra.NoArgs}
	load := configured(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		db, err := sqldb.Open(cmd.Context(), cfg.DB, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			return serverError{err}
		}
		if err := errors.Join(controlplane.Migrate(cmd.Context(), db), db.Close()); err != nil {
			return serverError{err}
		}
		return nil
	}
	return cmd
}
