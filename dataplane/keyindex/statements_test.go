package keyindex

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Statement 32: with RocketMQ's numbers a file has 420,000,040 bytes, and the
// number of the next entry is 1 at first.
func TestFile_defaultSizeAndEmptyHeader(t *testing.T) {
	cfg := config(vfs.OS(), 5_000_000, 20_000_000)
	cfg.Dir = t.TempDir()
	x, err := createFile(cfg, "20231114221320123", header{count: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer x.f.Close()
	info, err := cfg.FS.Stat(filepath.Join(cfg.Dir, "20231114221320123"))
	if err != nil || info.Size != 420_000_040 {
		t.Errorf("%d bytes, %v", info.Size, err)
	}
	if got := (header{count: 1}).bytes(); !bytes.Equal(got, append(make([]byte, 39), 1)) {
		t.Errorf("header %x", got)
	}
}

// Statement 35: a file for three entries takes two keys, as entry 0 is not used.
func TestPut_filesTakeOneKeyLess(t *testing.T) {
	fs := vfs.NewMem(nil)
	x := open(t, config(fs, 100, 3))
	for i, want := range []int{1, 1, 2, 2, 3} {
		if err := x.Put(int64(100*i), 1_700_000_000_000, []int32{k1}); err != nil {
			t.Fatal(err)
		}
		if err := x.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := len(names(t, fs)); got != want {
			t.Errorf("%d keys are in %d files, want %d", i+1, got, want)
		}
	}
}
