package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process that dies while it writes a change finds all changes in front of it,
// whatever part of the record is on disk, and goes on from there.
func TestChanges_tornAtEveryByte(t *testing.T) {
	f := newFixture(t)
	const changes = 4
	path := filepath.Join(f.dir, logName)
	ends := []int{len(logMagic)}
	hashes := []string{f.Hash()}
	for i := range uint64(changes) {
		f.delta(1+i, 2+i, &Delta{DropKeys: []string{"none"}, Keys: map[string]Key{fmt.Sprint("slk_new", i): {Secret: "a new secret", TenantID: "ten_a"}}})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends, hashes = append(ends, int(info.Size())), append(hashes, f.Hash())
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(whole), "a new secret") {
		t.Error("secrets lie open on disk")
	}
	snapshot, err := os.ReadFile(filepath.Join(f.dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, raw []byte, complete int) {
		t.Helper()
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		f.reopen()
		if want := uint64(1 + complete); f.Revision() != want || f.Hash() != hashes[complete] {
			t.Fatalf("%s: revision %d, want %d as it was", name, f.Revision(), want)
		}
	}
	complete := 0
	for n := len(logMagic); n <= len(whole); n++ {
		if complete < changes && n >= ends[complete+1] {
			complete++
		}
		check(fmt.Sprintf("%d of %d bytes", n, len(whole)), whole[:n], complete)
		if n%97 != 0 { // it goes on behind what is torn
			continue
		}
		f.delta(uint64(1+complete), 100, &Delta{Keys: map[string]Key{"slk_after": {Secret: "x", TenantID: "ten_a"}}})
		hash := f.Hash()
		f.reopen()
		if f.Revision() != 100 || f.Hash() != hash {
			t.Fatalf("after %d bytes and another change: revision %d", n, f.Revision())
		}
	}
	for at := len(logMagic); at < len(whole); at += 3 {
		raw := append([]byte{}, whole...)
		raw[at] ^= 1
		intact := 0
		for intact < changes && at >= ends[intact+1] {
			intact++
		}
		if intact == changes-1 { // as if it had not been written whole
			check(fmt.Sprint("byte ", at, " flipped"), raw, intact)
			continue
		}
		// What was in force behind it is unknown: nobody is let in.
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		f.reopen()
		if inLength := at < ends[intact]+logLength; f.Revision() != 0 && !(inLength && f.Revision() == uint64(1+intact)) {
			t.Fatalf("byte %d flipped: revision %d", at, f.Revision())
		}
	}
	if now, err := os.ReadFile(filepath.Join(f.dir, fileName)); err != nil || string(now) != string(snapshot) {
		t.Errorf("a change wrote the snapshot anew (%v)", err)
	}

	// A pushed policy is kept, also one of a revision that the damaged files had.
	whole[len(logMagic)+logLength] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	if f.Revision() != 0 {
		t.Fatalf("damaged: revision %d", f.Revision())
	}
	f.apply(1)
	f.delta(1, 2, &Delta{DropKeys: []string{"none"}})
	f.reopen()
	if f.Revision() != 2 {
		t.Errorf("after a new policy: revision %d", f.Revision())
	}
}

// A long log becomes a snapshot, and nothing is lost on the way; records of a
// log that is older than the snapshot are passed over.
func TestChanges_longLogBecomesASnapshot(t *testing.T) {
	f := newFixture(t)
	revision := uint64(1)
	name := strings.Repeat("x", 1<<20)
	for i := range 12 {
		ns := Namespace{TenantID: "ten_a", ACL: []Rule{{ID: fmt.Sprint("acl_", i), Principal: "*", Resource: "topic", Pattern: name, Operations: []string{"PUB"}}}}
		f.delta(revision, revision+1, &Delta{Namespaces: map[string]Namespace{fmt.Sprintf("ns%06d", i): ns}})
		revision++
	}
	hash := f.Hash()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if log, whole := size(logName), size(fileName); log > 10<<20 || whole < 4<<20 {
		t.Errorf("the log has %d bytes, the snapshot %d", log, whole)
	}
	f.reopen()
	if f.Revision() != revision || f.Hash() != hash {
		t.Errorf("revision %d after the log was folded, want %d", f.Revision(), revision)
	}
	old, err := os.ReadFile(filepath.Join(f.dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	f.apply(revision + 5) // a snapshot: the log is of no use any more
	hash = f.Hash()
	if size(logName) != int64(len(logMagic)) {
		t.Errorf("a snapshot leaves %d bytes of the log", size(logName))
	}
	if err := os.WriteFile(filepath.Join(f.dir, logName), old, 0o600); err != nil { // as if it had died between the two
		t.Fatal(err)
	}
	f.reopen()
	if f.Revision() != revision+5 || f.Hash() != hash {
		t.Errorf("revision %d with an old log, want %d", f.Revision(), revision+5)
	}
}
