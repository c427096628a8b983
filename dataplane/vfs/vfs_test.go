package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Both real implementations keep the same contract.
func TestFS_contract(t *testing.T) {
	for name, fsys := range map[string]FS{"os": OS(), "mem": NewMem(nil), "faults": NewFaults(NewMem(nil))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name != "os" {
				dir = "/d"
			}
			sub := filepath.Join(dir, "a", "b")
			must(t, fsys.MkdirAll(sub))
			must(t, fsys.MkdirAll(sub))
			f, err := fsys.Create(filepath.Join(sub, "f"))
			must(t, err)
			must(t, f.Truncate(10))
			_, err = f.WriteAt([]byte("abc"), 8)
			must(t, err)
			if n, err := f.Size(); n != 11 || err != nil {
				t.Fatalf("size %d, %v", n, err)
			}
			must(t, f.Sync())
			must(t, f.Close())
			must(t, fsys.SyncDir(sub))
			must(t, fsys.Rename(filepath.Join(sub, "f"), filepath.Join(sub, "g")))
			if _, err := fsys.Open(filepath.Join(sub, "f")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("open of a renamed file: %v", err)
			}
			got, err := ReadFile(fsys, filepath.Join(sub, "g"))
			if want := append(make([]byte, 8), "abc"...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("content %q, %v", got, err)
			}
			infos, err := fsys.ReadDir(sub)
			if err != nil || len(infos) != 1 || infos[0].Name != "g" || infos[0].Size != 11 || infos[0].Dir {
				t.Fatalf("list %+v, %v", infos, err)
			}
			if err := fsys.Remove(filepath.Join(dir, "a")); err == nil {
				t.Fatal("a folder with content was removed")
			}
			must(t, WriteFile(fsys, filepath.Join(sub, "g"), []byte("x")))
			if got, err := ReadFile(fsys, filepath.Join(sub, "g")); err != nil || string(got) != "x" {
				t.Fatalf("content %q, %v", got, err)
			}
			must(t, fsys.RemoveAll(filepath.Join(dir, "a")))
			must(t, fsys.RemoveAll(filepath.Join(dir, "a")))
			if ok, err := Exists(fsys, sub); ok || err != nil {
				t.Fatalf("exists %v, %v", ok, err)
			}
			if s, err := fsys.Space(dir); err != nil || s.Total <= 0 || s.Free > s.Total {
				t.Fatalf("space %+v, %v", s, err)
			}
			l, err := fsys.Lock(filepath.Join(dir, "lock"), []byte("lock"))
			must(t, err)
			if _, err := fsys.Lock(filepath.Join(dir, "lock"), nil); !errors.Is(err, ErrLocked) {
				t.Fatalf("second lock: %v", err)
			}
			must(t, l.Close())
			l, err = fsys.Lock(filepath.Join(dir, "lock"), []byte("lock"))
			must(t, err)
			must(t, l.Close())
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMem_crashKeepsOnlyWhatWasSynced(t *testing.T) {
	m := NewMem(nil)
	must(t, m.MkdirAll("/d"))
	must(t, m.SyncDir("/"))
	must(t, WriteFile(m, "/d/synced", []byte("old")))
	must(t, m.SyncDir("/d"))
	must(t, WriteFile(m, "/d/noname", []byte("x")))
	f, err := m.Open("/d/synced")
	must(t, err)
	_, err = f.WriteAt([]byte("NEW"), 0)
	must(t, err)
	must(t, f.Truncate(2))

	if got, err := ReadFile(m.CrashClone(0, 1), "/d/synced"); err != nil || string(got) != "old" {
		t.Fatalf("kept nothing: %q, %v", got, err)
	}
	if got, err := ReadFile(m.CrashClone(1, 1), "/d/synced"); err != nil || string(got) != "NE" {
		t.Fatalf("kept all: %q, %v", got, err)
	}
	if ok, _ := Exists(m.CrashClone(0, 1), "/d/noname"); ok {
		t.Fatal("a name without SyncDir survived")
	}
	must(t, m.Rename("/d/noname", "/d/synced"))
	if got, _ := ReadFile(m.CrashClone(0, 1), "/d/synced"); string(got) != "old" {
		t.Fatalf("rename without SyncDir: %q", got)
	}
	must(t, m.SyncDir("/d"))
	if got, _ := ReadFile(m.CrashClone(0, 1), "/d/synced"); string(got) != "x" {
		t.Fatalf("rename with SyncDir: %q", got)
	}
}

func TestMem_crashCutsAtSectors(t *testing.T) {
	m := NewMem(nil)
	must(t, WriteFile(m, "/f", make([]byte, 4096)))
	must(t, m.SyncDir("/"))
	f, err := m.Open("/f")
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{1}, 4096), 0)
	must(t, err)
	mixed := false
	for seed := range uint64(20) {
		got, err := ReadFile(m.CrashClone(0.5, seed), "/f")
		must(t, err)
		ones := bytes.Count(got, []byte{1})
		if ones%sector != 0 {
			t.Fatalf("seed %d: %d bytes kept", seed, ones)
		}
		mixed = mixed || ones > 0 && ones < 4096
	}
	if !mixed {
		t.Fatal("never a torn write")
	}
}

func TestFaults_refusesAndWritesPartially(t *testing.T) {
	m := NewMem(nil)
	ff := NewFaults(m)
	f, err := ff.Create("/f")
	must(t, err)
	boom := errors.New("boom")
	ff.Set(func(op Op, name string) (int, error) {
		if op == OpWrite || op == OpSync {
			return 2, boom
		}
		return 0, nil
	})
	if n, err := f.WriteAt([]byte("abc"), 0); n != 2 || !errors.Is(err, boom) {
		t.Fatalf("write %d, %v", n, err)
	}
	if err := f.Sync(); !errors.Is(err, boom) {
		t.Fatalf("sync %v", err)
	}
	ff.Set(nil)
	must(t, f.Sync())
	if got, _ := ReadFile(ff, "/f"); string(got) != "ab" {
		t.Fatalf("content %q", got)
	}
}

// The lock is the fcntl lock of byte 0, so another process is kept out too.
func TestOS_lockExcludesOtherProcesses(t *testing.T) {
	if name := os.Getenv("VFS_TEST_LOCK"); name != "" {
		if _, err := OS().Lock(name, []byte("lock")); errors.Is(err, ErrLocked) {
			os.Exit(42)
		}
		os.Exit(0)
	}
	name := filepath.Join(t.TempDir(), "lock")
	l, err := OS().Lock(name, []byte("lock"))
	must(t, err)
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run", t.Name())
	cmd.Env = append(os.Environ(), "VFS_TEST_LOCK="+name)
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Fatalf("other process: %v", err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "lock" {
		t.Fatalf("content %q, %v", got, err)
	}
}
