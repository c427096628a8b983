package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree describes everything below a folder.
func tree(t *testing.T, fsys FS, dir string) string {
	t.Helper()
	var out strings.Builder
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := filepath.Join(dir, info.Name)
		if info.Dir {
			fmt.Fprintf(&out, "%s/\n%s", name, tree(t, fsys, name))
			continue
		}
		b, err := ReadFile(fsys, name)
		if err != nil || int64(len(b)) != info.Size {
			t.Fatalf("%s: %d bytes of %d, %v", name, len(b), info.Size, err)
		}
		fmt.Fprintf(&out, "%s %x\n", name, b)
	}
	return out.String()
}

// An overlay looks like a file system that was changed, and changes nothing.
func TestOverlay_likeTheRealThing(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		base, want := NewMem(nil), NewMem(nil)
		name := func() string { return fmt.Sprintf("/d%d/f%d", rng.IntN(3), rng.IntN(3)) }
		step := func(n int, fss ...FS) {
			a, b, kind := name(), name(), rng.IntN(9)
			off, size := rng.Int64N(9000), rng.Int64N(9000)
			data := make([]byte, rng.IntN(5000))
			for i := range data {
				data[i] = byte(n + i)
			}
			var first error
			for i, fsys := range fss {
				err := func() error {
					switch kind {
					case 0:
						return fsys.MkdirAll(filepath.Dir(a))
					case 1:
						return fsys.RemoveAll(filepath.Dir(a))
					case 2:
						return fsys.Remove(a)
					case 3:
						return fsys.Rename(a, b)
					case 4:
						return WriteFile(fsys, a, data)
					}
					f, err := fsys.Open(a)
					if err != nil {
						return err
					}
					defer f.Close()
					if kind < 7 {
						return f.Truncate(size)
					}
					_, err = f.WriteAt(data, off)
					return err
				}()
				if i > 0 && (err == nil) != (first == nil) {
					t.Fatalf("seed %d step %d kind %d on %s, %s: %v and %v", seed, n, kind, a, b, first, err)
				}
				first = err
			}
		}
		for n := range 40 {
			step(n, base, want)
		}
		before := tree(t, base, "/")
		o := NewOverlay(base)
		for n := range 60 {
			step(n+40, want, o)
			if got, want := tree(t, o, "/"), tree(t, want, "/"); got != want {
				t.Fatalf("seed %d step %d: got\n%.300s\nwant\n%.300s", seed, n, got, want)
			}
		}
		if tree(t, base, "/") != before {
			t.Fatalf("seed %d: the base has changed", seed)
		}
		checkChanges(t, o, base, want)
	}
}

// checkChanges compares what the overlay says of its changes with the files.
func checkChanges(t *testing.T, o *Overlay, base, want FS) {
	t.Helper()
	changes, err := o.Changes()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, c := range changes {
		told[c.Name] = true
		was, wasErr := ReadFile(base, c.Name)
		now, nowErr := ReadFile(want, c.Name)
		if (wasErr == nil) != (c.Was >= 0) || (nowErr == nil) != (c.Now >= 0) || c.Was >= 0 && c.Was != int64(len(was)) || c.Now >= 0 && c.Now != int64(len(now)) {
			t.Fatalf("%+v: was %d bytes (%v), is %d (%v)", c, len(was), wasErr, len(now), nowErr)
		}
		if string(was[:min(c.From, int64(len(was)))]) != string(now[:min(c.From, int64(len(now)))]) {
			t.Fatalf("%+v: it changed in front of that", c)
		}
	}
	for d := range 3 {
		for f := range 3 {
			name := fmt.Sprintf("/d%d/f%d", d, f)
			was, wasErr := ReadFile(base, name)
			now, nowErr := ReadFile(want, name)
			if !told[name] && ((wasErr == nil) != (nowErr == nil) || string(was) != string(now)) {
				t.Fatalf("%s: changed, but nobody says so", name)
			}
		}
	}
}

func TestReadOnly_changesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("abc"), 0o440); err != nil {
		t.Fatal(err)
	}
	fsys := ReadOnly()
	if b, err := ReadFile(fsys, name); err != nil || string(b) != "abc" {
		t.Fatalf("%q, %v", b, err)
	}
	_, err := fsys.Create(filepath.Join(dir, "g"))
	for what, err := range map[string]error{
		"create": err, "remove": fsys.Remove(name), "remove all": fsys.RemoveAll(dir), "rename": fsys.Rename(name, name+"x"),
		"mkdir": fsys.MkdirAll(filepath.Join(dir, "sub")),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(fsys.MkdirAll(dir), fsys.SyncDir(dir)); err != nil {
		t.Error(err)
	}
	l, err := fsys.Lock(filepath.Join(dir, "lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file was made: %v", err)
	}
}
