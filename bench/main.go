// Command bench measures Sluice and, where a row has peers, other systems on the
// same machine, in turn. It prints a line for each figure, with its goal, and
// writes all of them to results/<time>.json beside it.
//
//	make bench ROWS=access
//	make bench ROWS=semantics
//	make bench ROWS=log PEERS=rocketmq,jetstream SECONDS=5 PROFILES=/tmp/profiles
//
// Rows of the log measure ours and the peers in turn; see peers/README.md. Where
// such a row is not met, PROFILES says where the time goes.
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
	"strings"
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
	{"log-produce", logProduce},
	{"log-batch", logBatch},
	{"log-consume", logConsume},
	{"log-cold", logCold},
	{"log-sync", logSync},
	{"log-latency", logLatency},
	{"log-memory", logMemory},
	{"log-start", logStart},
	{"log-process", logProcess},
	{"log-topics", logTopics},
	{"semantics-delay", delays},
	{"semantics-filter", filters},
}

// figure is one measured number beside its goal.
type figure struct {
	Row   string             `json:"row"`
	Ours  float64            `json:"ours"`
	Unit  string             `json:"unit"`
	Peers map[string]float64 `json:"peers,omitempty"`
	Goal  float64            `json:"goal"`
	Open  bool               `json:"open,omitempty"` // there is no goal: the figure stands for itself
	More  bool               `json:"more_is_better,omitempty"`
	Met   bool               `json:"met"`
	Note  string             `json:"note,omitempty"`

	Missing []string `json:"missing,omitempty"` // peers of the goal that were not measured
	unsure  bool
}

// judge holds ours against the goal. One that also hangs on peers which were not
// measured may be missed, but not met.
func (f *figure) judge() {
	f.Met = f.Ours <= f.Goal
	if f.More {
		f.Met = f.Ours >= f.Goal
	}
	f.unsure = f.Met && len(f.Missing) > 0
	f.Met = f.Met && !f.Open && !f.unsure
}

// workplace is what rows share.
type workplace struct {
	binary string // bin/sluice
	dir    string // removed at the end
	mysql  string // URL of a MariaDB server, without a database

	row        string          // that runs
	profiles   string          // folder for processor profiles of ours, below it one for each row; "": none
	peers      []string        // those that are compared with
	setup      map[string]bool // kits that are set up
	seconds    time.Duration   // counted time of a run
	warm       time.Duration   // time before, for servers in Java
	storeBytes int64           // of the large store that is started after kill -9
}

func main() {
	pattern := flag.String("rows", ".", "regular expression of the rows to run")
	binary := flag.String("binary", "bin/sluice", "the server to measure")
	served := flag.String("serve", "", "only serve a bare data plane on this new folder, until interrupted")
	topics := flag.String("topics", "", "only open the store in this folder and do what standard input says; see topics.go")
	peers := flag.String("peers", strings.Join([]string{rocketMQ, jetStream, kafka}, ","), "peers to compare with, joined by commas")
	seconds := flag.Duration("seconds", 10*time.Second, "counted time of each run on each server")
	warm := flag.Duration("warm", 30*time.Second, "time before it for servers in Java, which are slow until they have compiled themselves")
	storeBytes := flag.Int64("store-gib", 10, "GiB of the store that is started after kill -9")
	profiles := flag.String("profiles", "", "folder to keep a processor profile of ours of each load in; costs some percent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	w := &workplace{
		binary: *binary, mysql: os.Getenv("SLUICE_TEST_MYSQL"), setup: map[string]bool{}, profiles: *profiles, seconds: *seconds, warm: *warm, storeBytes: *storeBytes << 30,
		peers: strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' || r == ' ' }),
	}
	var err error
	switch {
	case *served != "":
		err = serve(ctx, os.Stdout, *binary, *served)
	case *topics != "":
		err = serveTopics(ctx, *topics)
	default:
		err = run(ctx, *pattern, w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pattern string, w *workplace) error {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	// The stores lie where the repository does: a folder for temporary files may
	// be memory.
	if err := os.MkdirAll(".cache", 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(".cache", "bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if w.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	fmt.Printf("%d cores, %s\n%-52s %14s %14s %8s\n", runtime.NumCPU(), runtime.Version(), "row", "ours", "goal", "")
	var all []figure
	for _, r := range rows {
		if !wanted.MatchString(r.name) {
			continue
		}
		w.row = r.name
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
	met, open := 0, 0
	for _, f := range all {
		if f.Met {
			met++
		}
		if f.Open {
			open++
		}
	}
	if err := save(all); err != nil {
		return err
	}
	fmt.Printf("bench: rows=%d met=%d not_met=%d no_goal=%d\n", len(all), met, len(all)-met-open, open)
	return nil
}

func (f *figure) String() string {
	word, sign := "met", "<="
	if !f.Met {
		word = "not met"
	}
	if f.unsure {
		word = "unsure"
	}
	if f.More {
		sign = ">="
	}
	goal := fmt.Sprintf("%s %8.4g %-4s %s", sign, f.Goal, f.Unit, word)
	if f.Open {
		goal = fmt.Sprintf("%20s", "no goal")
	}
	text := fmt.Sprintf("%-52s %10.4g %-4s %s", f.Row, f.Ours, f.Unit, goal)
	for _, name := range f.peerNames() {
		text += fmt.Sprintf("  %s %.4g (ratio %.2f)", name, f.Peers[name], f.Ours/f.Peers[name])
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
