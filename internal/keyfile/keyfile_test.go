package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

func TestReadOrCreate_allGetTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "key")
	const callers = 32
	got := make([]string, callers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			data, err := ReadOrCreate(path, func() []byte { return []byte(strconv.Itoa(i)) })
			if err != nil {
				t.Error(err)
			}
			got[i] = string(data)
		})
	}
	close(start)
	wg.Wait()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range got {
		if data != string(want) {
			t.Errorf("caller %d got %q, the file holds %q", i, data, want)
		}
	}
	wantOnly(t, path, 0o600)
}

func TestCreate_keepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := Create(path, []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if data, err := os.ReadFile(path); string(data) != "first" {
		t.Errorf("got %q, %v", data, err)
	}
	wantOnly(t, path, 0o644)
}

func TestReadOrCreate_anUnreadableFileIsNotReplaced(t *testing.T) {
	path := t.TempDir() // a folder cannot be read as a file
	if _, err := ReadOrCreate(path, func() []byte { t.Error("made anew"); return nil }); err == nil {
		t.Error("no error")
	}
}

// wantOnly wants the file with this mode and nothing beside it.
func wantOnly(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the folder holds %v, want the file alone", entries)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != mode {
		t.Errorf("mode %v, %v, want %v", info.Mode(), err, mode)
	}
}
