// Command limits measures what a machine's disk and page cache allow: the upper
// bounds for any message broker on it. It prints one JSON line per test.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

// settings are the sizes that the tests share.
type settings struct {
	dir      string        // where files are written
	fileMiB  int           // size of a test file
	duration time.Duration // length of a test that is bounded by time
}

// result is one line of output. Fields that a test does not measure stay out.
type result struct {
	Test       string  `json:"test"`
	Producers  int     `json:"producers,omitempty"`
	PerSec     float64 `json:"per_s,omitempty"` // messages, records or syncs
	MiBPerS    float64 `json:"mib_per_s,omitempty"`
	BeforeSync float64 `json:"before_sync_mib_per_s,omitempty"`
	MeanBatch  float64 `json:"mean_batch,omitempty"`
	P50        float64 `json:"p50_us,omitempty"`
	P99        float64 `json:"p99_us,omitempty"`
	OwnCores   float64 `json:"own_cores"`   // used by this test
	OtherCores float64 `json:"other_cores"` // used by everything else meanwhile: noise
}

type test struct {
	name string
	run  func(settings) (result, error)
}

var tests = []test{
	{"seq_write_1mib_sync", seqWrite},
	{"append_1kib_write", appendWrite},
	{"append_1kib_mmap", appendMmapCold},
	{"append_1kib_mmap_warm", appendMmapWarm},
	{"sync_4kib_append", syncAppend},
	{"sync_4kib_overwrite", syncOverwrite},
	{"group_commit_1kib_1", groupCommit(1)},
	{"group_commit_1kib_64", groupCommit(64)},
	{"group_commit_1kib_256", groupCommit(256)},
	{"seq_read_cached", readCached},
	{"seq_read_disk", readDisk},
}

const recordSize = 1024 // the message size that all comparisons use

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	flag.StringVar(&s.dir, "dir", ".", "directory on the disk to measure; test files are removed")
	flag.IntVar(&s.fileMiB, "size", 1024, "MiB per test file")
	flag.DurationVar(&s.duration, "duration", 3*time.Second, "length of each test that is bounded by time")
	only := flag.String("run", "", "regular expression: which tests to run")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}

	out := json.NewEncoder(os.Stdout)
	for _, t := range tests {
		if !wanted.MatchString(t.name) {
			continue
		}
		r, err := t.run(s)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		r.Test = t.name
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
