package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluicemq/sluice/cmd/sluice/cli"
	"github.com/sluicemq/sluice/dataplane/storetool"
)

// storeRun is one run of one of the store commands.
type storeRun struct {
	opts   storetool.Options
	output string
	out    io.Writer
	err    io.Writer
}

// storeCommand is for operators: it works on a folder, not through a server.
func storeCommand() *cobra.Command {
	r := &storeRun{out: os.Stdout, err: os.Stderr}
	cmd := &cobra.Command{Use: "store", Short: "inspect, verify, repair, export or convert the folder of a message store",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; see: sluice store --help", args[0])}
			}
			return c.Help()
		}}
	f := cmd.PersistentFlags()
	f.Int64Var(&r.opts.Sizes.SegmentBytes, "segment-bytes", 0, "size of a commit log file (default: found out)")
	f.Int64Var(&r.opts.Sizes.QueueSegmentBytes, "queue-segment-bytes", 0, "size of a consume queue file (default: found out)")
	f.Int32Var(&r.opts.Sizes.IndexSlots, "index-slots", 0, "hash slots of a key index file (default: found out)")
	f.Int32Var(&r.opts.Sizes.IndexEntries, "index-entries", 0, "entries of a key index file (default: found out)")
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see: %s --help", err, c.CommandPath())}
	})
	cmd.AddCommand(r.inspectCommand(), r.verifyCommand(), r.repairCommand(), r.exportCommand(), r.convertCommand())
	return cmd
}

// command makes a command on one folder.
func (r *storeRun) command(use, short string, run func(ctx context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " FOLDER", Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%s needs the folder of one store; usage: %s", use, c.UseLine())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			r.opts.Dir, r.out, r.err = args[0], c.OutOrStdout(), c.ErrOrStderr()
			switch r.output {
			case "", "table", "json", "yaml":
			default:
				return usageError{fmt.Errorf("there is no output form %q: use -o table, json or yaml", r.output)}
			}
			err := run(c.Context())
			var usage usageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return serverError{err}
		},
	}
}

func (r *storeRun) outputFlag(c *cobra.Command) {
	c.Flags().StringVarP(&r.output, "output", "o", "", "table, json or yaml (default: table on a terminal, else json)")
}

// table tells whether a person reads.
func (r *storeRun) table() bool {
	if r.output != "" {
		return r.output == "table"
	}
	file, ok := r.out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (r *storeRun) encode(v any) error { return cli.Encode(r.out, r.output == "yaml", v) }

// showProgress writes a line for every tenth of the commit log.
func (r *storeRun) showProgress() {
	told := int64(0)
	r.opts.Progress = func(done, total int64) {
		if total > 0 && done*10/total > told {
			told = done * 10 / total
			fmt.Fprintf(r.err, "%d%% of %d bytes of the commit log are read\n", told*10, total)
		}
	}
}

func (r *storeRun) inspectCommand() *cobra.Command {
	c := r.command("inspect", "tell what a folder holds; also of a running broker", func(context.Context) error {
		s, err := storetool.Inspect(r.opts)
		if err != nil {
			return err
		}
		if !r.table() {
			return r.encode(s)
		}
		return inspectTable(r.out, s)
	})
	r.outputFlag(c)
	return c
}

func stamp(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func inspectTable(out io.Writer, s *storetool.Summary) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("folder\t%s", s.Folder)
	line("state\t%s", s.State)
	line("queue layout\t%s", s.Layout)
	line("sizes\tcommit log file %d, queue file %d, index file %d slots and %d entries", s.Sizes.SegmentBytes, s.Sizes.QueueSegmentBytes, s.Sizes.IndexSlots, s.Sizes.IndexEntries)
	line("synced up to\tcommit log %s, queues %s, index %s", stamp(s.Checkpoint.CommitLog), stamp(s.Checkpoint.Queues), stamp(s.Checkpoint.Index))
	line("")
	line("COMMIT LOG FILE\tBYTES\tFIRST RECORD\tPROBLEM")
	for _, f := range s.Segments {
		line("%s\t%d\t%s\t%s", f.File, f.Bytes, stamp(f.FirstTime), f.Problem)
	}
	line("")
	line("TOPIC\tQUEUE\tFROM\tTO\tFILES\tNEWEST AT")
	for _, q := range s.Queues {
		line("%s\t%d\t%d\t%d\t%d\t%d", q.Topic, q.Queue, q.From, q.To, q.Files, q.Newest)
	}
	if len(s.Cut) > 0 {
		line("")
		line("CUT OFF THE COMMIT LOG\tFROM\tBYTES\tWHOLE RECORDS")
	}
	for _, c := range s.Cut {
		line("%s\t%d\t%d\t%d", c.File, c.From, c.Bytes, c.Records)
	}
	line("")
	line("INDEX FILE\tKEYS\tFIRST\tNEWEST")
	for _, f := range s.Index {
		line("%s\t%d\t%s\t%s", f.File, f.Keys, stamp(f.FirstTime), stamp(f.LastTime))
	}
	return w.Flush()
}

func (r *storeRun) verifyCommand() *cobra.Command {
	c := r.command("verify", "read everything and name what is damaged; changes nothing", func(ctx context.Context) error {
		r.showProgress()
		report, err := storetool.Verify(ctx, r.opts)
		if err != nil {
			return err
		}
		if r.table() {
			verifyText(r.out, report)
		} else if err := r.encode(report); err != nil {
			return err
		}
		if report.Damaged() {
			return fmt.Errorf("%s is damaged, faults: %d", report.Folder, len(report.Faults))
		}
		if n := len(report.Dirty); n > 0 {
			return dirtyError{fmt.Errorf("%s is not clean, findings: %d; the next start mends them", report.Folder, n)}
		}
		return nil
	})
	c.Long = `Reads every record, queue entry, key and side file of a stopped store, ours or RocketMQ's.

Exit codes: 0 the store is clean; 1 something is damaged, or cannot be read; 2 it is dirty, as after a kill: the next start mends that and nothing
that was synced is lost. Wrong usage is 2, too, with nothing on standard output.`
	r.outputFlag(c)
	return c
}

func verifyText(out io.Writer, report *storetool.Report) {
	showFindings(out, "note", report.Notes)
	showFindings(out, "dirty", report.Dirty)
	showFindings(out, "DAMAGED", report.Faults)
	if report.Omitted > 0 {
		fmt.Fprintf(out, "%d more are not listed\n", report.Omitted)
	}
	state := "clean"
	if !report.Clean {
		state = "not stopped cleanly"
	}
	fmt.Fprintf(out, "%s: %s; %d records from %d to %d, %d entries of %d queues, %d keys; %d dirty, %d damaged\n", report.Folder, state,
		report.Records, report.From, report.To, report.Units, report.Queues, report.Keys, len(report.Dirty), len(report.Faults))
}

func (r *storeRun) repairCommand() *cobra.Command {
	repair := storetool.RepairOptions{Now: time.Now}
	c := r.command("repair", "do what the next start would do, and keep what that cuts off", func(ctx context.Context) error {
		repair.Logger = slog.New(slog.NewTextHandler(r.err, nil))
		done, err := storetool.Repair(ctx, r.opts, repair)
		if err != nil {
			return err
		}
		if err := r.showRepaired(done); err != nil {
			return err
		}
		switch n := len(done.Faults); {
		case n > 0 && done.DryRun:
			return fmt.Errorf("%s would still be damaged, faults: %d", done.Folder, n)
		case n > 0:
			return fmt.Errorf("%s is still damaged, faults: %d", done.Folder, n)
		}
		return nil
	})
	c.Long = "Repairs a stopped store as the next start of a broker would. What is cut off the commit log, and configuration files that are given up, are kept below FOLDER/sluice.cut. Then it is verified as by sluice store verify: the exit code is 1 when damage stays that no start mends."
	c.Flags().BoolVar(&repair.DryRun, "dry-run", false, "tell what would change, and change nothing")
	c.Flags().BoolVar(&repair.Rebuild, "rebuild", false, "also make queues and key index anew from the commit log")
	r.outputFlag(c)
	return c
}

func (r *storeRun) showRepaired(done *storetool.Repaired) error {
	if !r.table() {
		return r.encode(done)
	}
	w := tabwriter.NewWriter(r.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tCHANGE\tCOPY")
	for _, change := range done.Changes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", change.File, change.What, change.Copy)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	showFindings(r.out, "STILL DAMAGED", done.Faults)
	return nil
}

func showFindings(out io.Writer, title string, findings []storetool.Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%s %s\n", title, f)
		if f.Fix != "" {
			fmt.Fprintf(out, "    %s\n", f.Fix)
		}
	}
}

func (r *storeRun) exportCommand() *cobra.Command {
	var filter storetool.ExportFilter
	var from, to, cut string
	c := r.command("export", "write messages as lines of JSON", func(ctx context.Context) error {
		for _, t := range []struct {
			name, text string
			ms         *int64
		}{{"from", from, &filter.From}, {"to", to, &filter.To}} {
			if t.text == "" {
				continue
			}
			at, err := time.Parse(time.RFC3339, t.text)
			if err != nil {
				return usageError{fmt.Errorf("--%s is %q: it must be a time like 2026-01-31T12:00:00Z", t.name, t.text)}
			}
			*t.ms = at.UnixMilli()
		}
		var done storetool.ExportResult
		var err error
		if cut != "" {
			done, err = storetool.ExportCut(filepath.Join(r.opts.Dir, cut), r.out)
		} else {
			done, err = storetool.Export(ctx, r.opts, filter, r.out)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(r.err, "%d messages in %d lines\n", done.Messages, done.Records)
		if n := done.LeftOut(); n > 0 {
			fmt.Fprintf(r.err, "%d records are left out: half messages %d, rolled back %d, of deleted topics %d, of impossible topics or queues %d\n",
				n, done.Half, done.RolledBack, done.Deleted, done.Impossible)
		}
		if done.Damaged > 0 {
			return fmt.Errorf("%d places of the commit log could not be read; see: sluice store verify %s", done.Damaged, r.opts.Dir)
		}
		return nil
	})
	c.Long = `Writes messages in the order of the commit log to standard output, one JSON object a line; bodies are Base64 of the stored bytes.

A record that holds several messages (of a topic with queue.type=BatchCQ) is one line: "messages" says how many it holds, body is that of the batch.
A message in light queues is one line, with its own topic. Left out are half messages of transactions, rolled back ones and those of deleted topics;
standard error tells how many. Places of the commit log that cannot be read are passed over, and the exit code is 1.`
	c.Flags().StringVar(&filter.Topic, "topic", "", "only of this topic (as stored, with the namespace in front) or light queue (%LMQ%...)")
	c.Flags().StringVar(&cut, "cut", "", "instead, all whole records of this copy of what was cut off, as inspect names it (sluice.cut/...)")
	c.Flags().Int32Var(&filter.Queue, "queue", -1, "only of this queue; -1 for all")
	c.Flags().StringVar(&from, "from", "", "only stored at or after this time (RFC 3339)")
	c.Flags().StringVar(&to, "to", "", "only stored before this time (RFC 3339)")
	return c
}
