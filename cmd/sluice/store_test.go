package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/cmd/sluice/cli"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// run executes a command and returns its output and exit code.
func run(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err := cmd.ExecuteContext(t.Context())
	var usage usageError
	var failed serverError
	var dirty dirtyError
	switch {
	case errors.As(err, &dirty):
		code = exitDirty
	case errors.As(err, &usage):
		code = exitUsage
	case errors.As(err, &failed):
		code = exitFailed
	case err != nil:
		io := cli.System()
		io.Err = &stderr
		code = cli.Report(io, err)
	}
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), code
}

// smallStore makes a store with ten messages and returns its folder.
func smallStore(t *testing.T) string {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = filepath.Join(t.TempDir(), "store"), 64<<10, 2000, false
	cfg.IndexSlots, cfg.IndexEntries = 100, 200
	s, err := store.Open(cfg, store.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutTopic(store.DefaultTopicConfig("T")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := s.Append(t.Context(), &message.Message{Topic: "T", Body: []byte("hello")}, store.DurabilitySync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg.Dir
}

func TestStore_commands(t *testing.T) {
	dir := smallStore(t)
	out, errOut, code := run(t, "store", "verify", dir, "-o", "json")
	var report struct{ Records, Units int64 }
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil || report.Records != 10 || report.Units != 10 || !strings.Contains(errOut, "100% of 65536 bytes") {
		t.Fatalf("verify: %d, %s, %s", code, out, errOut)
	}
	if out, _, code := run(t, "store", "verify", dir, "-o", "table"); code != 0 || !strings.HasSuffix(out, "10 records from 0 to 970, 10 entries of 1 queues, 0 keys; 0 dirty, 0 damaged\n") {
		t.Errorf("verify: %d, %s", code, out)
	}
	for form, want := range map[string]string{"table": "clean", "json": `"state": "clean"`, "yaml": "state: clean"} {
		if out, errOut, code := run(t, "store", "inspect", dir, "-o", form); code != 0 || !strings.Contains(out, want) {
			t.Errorf("inspect -o %s: %d, %s, %s", form, code, out, errOut)
		}
	}
	if out, _, code := run(t, "store", "export", dir, "--topic", "T"); code != 0 || strings.Count(out, "\n") != 10 || !strings.Contains(out, `"body":"aGVsbG8="`) {
		t.Errorf("export: %d, %s", code, out)
	}
	if out, _, code := run(t, "store", "repair", dir, "--dry-run", "-o", "json"); code != 0 || !strings.Contains(out, `"dry_run": true`) {
		t.Errorf("repair: %d, %s", code, out)
	}

	abort := filepath.Join(dir, "abort")
	if err := os.WriteFile(abort, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errOut, code := run(t, "store", "verify", dir, "-o", "table"); code != exitDirty || !strings.Contains(out, "dirty unclean-stop") || !strings.Contains(errOut, "the next start mends") {
		t.Errorf("verify after a kill: %d, %s, %s", code, out, errOut)
	}
	out, errOut, code = run(t, "store", "repair", dir, "--dry-run", "-o", "table")
	if code != 0 || strings.Contains(errOut, "was repaired") || !strings.Contains(errOut, "dry_run=true") {
		t.Errorf("repair as a trial: %d, %s, %s", code, out, errOut)
	}
	if err := os.Remove(abort); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(dir, "commitlog", strings.Repeat("0", 20))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[97+88] ^= 1 // the body of the second message
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, code = run(t, "store", "verify", dir, "-o", "table")
	if code != exitFailed || !strings.Contains(out, "DAMAGED record-damaged: commitlog/00000000000000000000 at byte 97, 97 bytes") || !strings.Contains(errOut, "is damaged, faults: 1") {
		t.Errorf("verify of a damaged store: %d, %s, %s", code, out, errOut)
	}
	for _, more := range [][]string{{"--dry-run"}, {}} {
		out, errOut, code := run(t, append([]string{"store", "repair", dir, "-o", "table"}, more...)...)
		if code != exitFailed || !strings.Contains(out, "STILL DAMAGED record-damaged") || !strings.Contains(errOut, "still") {
			t.Errorf("repair %v of what cannot be mended: %d, %s, %s", more, code, out, errOut)
		}
	}
}

func TestStore_usage(t *testing.T) {
	for _, args := range [][]string{
		{"store", "verify"}, {"store", "verify", "a", "b"}, {"store", "nonsense"}, {"store", "verify", "a", "-o", "xml"}, {"store", "verify", "a", "--nonsense"},
		{"store", "export", "a", "--from", "yesterday"},
	} {
		if _, errOut, code := run(t, args...); code != exitUsage {
			t.Errorf("%v: %d, %s", args, code, errOut)
		}
	}
	if _, errOut, code := run(t, "store", "verify", t.TempDir()); code != exitFailed || !strings.Contains(errOut, "no store is there") {
		t.Errorf("an empty folder: %d, %s", code, errOut)
	}
}
