package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

var discard = slog.New(slog.DiscardHandler)

func open(t *testing.T, fsys vfs.FS) *Terms {
	t.Helper()
	terms, err := Open(fsys, "/store", discard)
	if err != nil {
		t.Fatal(err)
	}
	return terms
}

func begin(t *testing.T, terms *Terms, end int64) Term {
	t.Helper()
	term, err := terms.Begin(end)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// Statement 62 of the format: the second line is the checksum of the rest.
func TestEncode_isRocketMQsFile(t *testing.T) {
	const want = "2\n1694929738\n1-0\n2-4096\n"
	got := string(Encode([]Term{{1, 0}, {2, 4096}}))
	if got != fmt.Sprintf("2\n%d\n1-0\n2-4096\n", sum([]byte("1-0\n2-4096\n"))) || got != want {
		t.Fatalf("%q", got)
	}
	for _, text := range []string{want, "2\n0\n1-0\n2-4096\n"} {
		if list, err := Decode([]byte(text)); err != nil || !reflect.DeepEqual(list, []Term{{1, 0}, {2, 4096}}) {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
	for _, text := range []string{"", "1\n", "x\n0\n", "1\n1\n1-0\n", "2\n0\n1-0\n", "2\n0\n2-0\n1-5\n", "2\n0\n1-5\n2-4\n", "1\n0\n1\n", "1\n0\n-1-4\n", "-1\n0\n"} {
		if list, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, list)
		}
	}
}

func TestBegin_growsAndFollowsTheLog(t *testing.T) {
	mem := vfs.NewMem(nil)
	if err := mem.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	terms := open(t, mem)
	begin(t, terms, 0)
	begin(t, open(t, mem), 100)
	begin(t, open(t, mem), 100) // a start without a record
	last := begin(t, open(t, mem), 50)
	if last != (Term{4, 50}) {
		t.Fatalf("after the log was cut: %+v", last)
	}
	terms = open(t, mem)
	for offset, want := range map[int64]int32{0: 1, 49: 1, 50: 4, 500: 4} {
		if got, ok := terms.At(offset); !ok || got.Number != want {
			t.Errorf("offset %d is of %+v, want term %d", offset, got, want)
		}
	}
	terms.Forget(60)
	if _, ok := terms.At(10); ok {
		t.Error("a term without records was kept")
	}
	if got, ok := terms.At(60); !ok || got.Number != 4 {
		t.Errorf("offset 60 is of %+v", got)
	}
}

// A power cut at any step leaves the old or the new terms.
func TestBegin_survivesPowerCuts(t *testing.T) {
	for step := 1; ; step++ {
		mem := vfs.NewMem(nil)
		if err := mem.MkdirAll("/store"); err != nil {
			t.Fatal(err)
		}
		begin(t, open(t, mem), 0)
		terms := open(t, mem)
		faults, n := vfs.NewFaults(mem), 0
		terms.fs = faults
		faults.Set(func(vfs.Op, string) (int, error) {
			if n++; n >= step {
				return 0, errors.New("power is out")
			}
			return 0, nil
		})
		_, err := terms.Begin(7)
		list := open(t, mem).list
		old, next := []Term{{1, 0}}, []Term{{1, 0}, {2, 7}}
		if !reflect.DeepEqual(list, next) && (err == nil || !reflect.DeepEqual(list, old)) {
			t.Fatalf("step %d: %v, %v", step, list, err)
		}
		if err == nil {
			return
		}
	}
}

func TestOpen_damaged(t *testing.T) {
	mem := vfs.NewMem(nil)
	if err := mem.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	begin(t, open(t, mem), 0)
	begin(t, open(t, mem), 10)
	if err := vfs.WriteFile(mem, "/store/"+FileName, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	if got := open(t, mem).list; !reflect.DeepEqual(got, []Term{{1, 0}}) {
		t.Errorf("the copy gives %v", got)
	}
	if err := vfs.WriteFile(mem, "/store/"+FileName+".bak", nil); err != nil {
		t.Fatal(err)
	}
	terms := open(t, mem)
	if got := begin(t, terms, 20); got != (Term{1, 20}) {
		t.Errorf("both damaged: %+v", got)
	}
	if ok, err := vfs.Exists(mem, "/store/"+FileName+".damaged"); !ok || err != nil {
		t.Errorf("the damaged file was not kept: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("2\n0\n1-0\n2-4096\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Encode(list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%v became %v, %v", list, again, err)
		}
	})
}
