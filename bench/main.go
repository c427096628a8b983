// Command bench measures Sluice and, where a row has peers, other systems on the
// same machine, in turn. It prints a line for each figure, with its goal, and
// writes all of them to results/<time>.json beside it.
//
//	make bench ROWS=access
//
// Rows that need services take them from the environment, as
// scripts/test-services.sh sets it. Run nothing else meanwhile.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// row measures something; what it finds comes as one figure or several.
type row struct {
	name string
	run  func(ctx context.Context, w *workplace) ([]figure, error)
}

var rows = []row{
	{"access/decisions", decisions},
	{"access/policy", policySize},
	{"access/revocation", revocation},
	{"access/reads", authenticatedReads},
	{"access/stuffing", stuffing},
}

// figure is one measured number beside its goal.
type figure struct {
	Row   string             `json:"row"`
	Ours  float64            `json:"ours"`
	Unit  string             `json:"unit"`
	Peers map[string]float64 `json:"peers,omitempty"`
	Goal  float64            `json:"goal"`
	More  bool               `json:"more_is_better,omitempty"`
	Met   bool               `json:"met"`
	Note  string             `json:"note,omitempty"`
}

func (f *figure) judge() {
	f.Met = f.Ours <= f.Goal
	if f.More {
		f.Met = f.Ours >= f.Goal
	}
}

// workplace is what rows share.
type workplace struct {
	binary string // bin/sluice
	dir    string // removed at the end
	mysql  string // URL of a MariaDB server, without a database
}

func main() {
	pattern := flag.String("rows", ".", "regular expression of the rows to run")
	binary := flag.String("binary", "bin/sluice", "the server to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *pattern, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pattern, binary string) error {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w := &workplace{binary: binary, dir: dir, mysql: os.Getenv("SLUICE_TEST_MYSQL")}
	fmt.Printf("%d cores, %s\n%-52s %14s %14s %8s\n", runtime.NumCPU(), runtime.Version(), "row", "ours", "goal", "")
	var all []figure
	for _, r := range rows {
		if !wanted.MatchString(r.name) {
			continue
		}
		found, err := r.run(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for i := range found {
			f := &found[i]
			f.judge()
			fmt.Println(f)
		}
		all = append(all, found...)
	}
	met := 0
	for _, f := range all {
		if f.Met {
			met++
		}
	}
	if err := save(all); err != nil {
		return err
	}
	fmt.Printf("bench: rows=%d met=%d not_met=%d\n", len(all), met, len(all)-met)
	return nil
}

func (f *figure) String() string {
	word, sign := "met", "<="
	if !f.Met {
		word = "not met"
	}
	if f.More {
		sign = ">="
	}
	text := fmt.Sprintf("%-52s %10.4g %-3s %s %8.4g %-3s %s", f.Row, f.Ours, f.Unit, sign, f.Goal, f.Unit, word)
	for name, v := range f.Peers {
		text += fmt.Sprintf("  %s %.4g (ratio %.2f)", name, v, f.Ours/v)
	}
	if f.Note != "" {
		text += "  " + f.Note
	}
	return text
}

func save(all []figure) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Join("bench", "results")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, time.Now().UTC().Format("2006-01-02T150405")+".json"), append(text, '\n'), 0o644)
}
