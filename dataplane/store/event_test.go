package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// events keeps what happened in a store.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(one Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// has tells whether something of the type of like happened.
func (e *events) has(like Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.all, func(one Event) bool { return reflect.TypeOf(one) == reflect.TypeOf(like) })
}

// of returns what happened of one type since the last call.
func of[T Event](e *events) (all []T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.DeleteFunc(e.all, func(one Event) bool {
		t, ok := one.(T)
		if ok {
			all = append(all, t)
		}
		return ok
	})
	return all
}

func TestEvents_diskFillsAndEmpties(t *testing.T) {
	mem, seen := vfs.NewMem(nil), &events{}
	cfg := testConfig()
	cfg.DiskFreeBytes, cfg.DiskCleanRatio, cfg.DiskFullRatio = 1000, 0.8, 0.9
	s, err := Open(cfg, Deps{FS: mem, Events: seen.add})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	step := func(free int64, want ...DiskChanged) {
		t.Helper()
		mem.SetSpace(vfs.Space{Total: 1000, Free: free})
		for range 2 { // a state is told of once
			s.checkDisk()
		}
		if got := of[DiskChanged](seen); !slices.Equal(got, want) {
			t.Errorf("%d of 1000 free: %+v, want %+v", free, got, want)
		}
	}
	used := func(free float64) float64 { return 1 - free/1000 }
	step(500)
	step(150, DiskChanged{DiskEnough, DiskCrowded, used(150), 150, 0.8})
	step(50, DiskChanged{DiskCrowded, DiskFull, used(50), 50, 0.9})
	step(150) // between the two it stays full
	step(300, DiskChanged{DiskFull, DiskEnough, used(300), 300, 0.8})
	if got := s.Metrics().Events["disk_changed"]; got != 3 {
		t.Errorf("%d changes are counted, want 3", got)
	}
}

func TestEvents_retentionSaysWhatItFreed(t *testing.T) {
	now := time.Now()
	seen := &events{}
	cfg := testConfig()
	cfg.RetentionBytes = 2 * cfg.SegmentBytes
	s, err := Open(cfg, Deps{FS: vfs.NewMem(nil), Now: func() time.Time { return now }, Events: seen.add})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for s.logBytes() < 5*cfg.SegmentBytes {
		if _, err := s.Append(ctx, msg("T", 0, strings.Repeat("x", 1000)), DurabilityAsync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.dispatch(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	if err := s.retain(); err != nil {
		t.Fatal(err)
	}
	first, _ := s.CommitLogRange()
	if got, want := of[RetentionRan](seen), (RetentionRan{3, 3 * cfg.SegmentBytes, first}); !slices.Equal(got, []RetentionRan{want}) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := of[commitlog.SegmentRemoved](seen); len(got) != 3 || got[2].Reason != commitlog.RemovedBySize {
		t.Errorf("%+v", got)
	}
	if got := s.Metrics().RemovedBytes["size"]; got != uint64(3*cfg.SegmentBytes) {
		t.Errorf("%d bytes are counted, want %d", got, 3*cfg.SegmentBytes)
	}
	if err := s.retain(); err != nil {
		t.Fatal(err)
	}
	if got := of[RetentionRan](seen); len(got) != 0 {
		t.Errorf("nothing to delete: %+v", got)
	}
}

func TestEvents_recoveryAndCheckpoint(t *testing.T) {
	mem, seen := vfs.NewMem(nil), &events{}
	s, err := Open(testConfig(), Deps{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Append(ctx, msg("T", 0, "x"), DurabilitySync)
	if err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	s, err = Open(testConfig(), Deps{FS: crashed, Now: func() time.Time { return now }, Events: seen.add})
	if err != nil {
		t.Fatal(err)
	}
	end := a.PhysicalOffset + int64(a.Size)
	if began, ended := of[RecoveryBegan](seen), of[RecoveryEnded](seen); !slices.Equal(began, []RecoveryBegan{{}}) || !slices.Equal(ended, []RecoveryEnded{{End: end}}) {
		t.Errorf("%+v, %+v", began, ended)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	written := of[CheckpointWritten](seen)
	if n := len(written); n == 0 || written[n-1].Reached != end {
		t.Errorf("%+v, want one at %d", written, end)
	}
}

// Each type of event.go, and no other, is an event, and its line has a text and
// pairs of keys and values.
func TestEvents_allHaveALine(t *testing.T) {
	kinds := map[string]Event{}
	for _, e := range []Event{
		RecoveryBegan{}, RecoveryEnded{}, LogBegins{}, LogEndLost{}, QueueLostMessages{}, CheckpointDamaged{}, RecordDamaged{}, QueueDamaged{}, QueueIncomplete{}, QueueLostPart{}, QueueEntryRepaired{},
		DirectoryRemade{}, RebuildBegan{}, RebuildEnded{}, RebuildFailed{}, RebuildCut{}, MessagesMissing{}, RecordRejected{}, PlaceTaken{}, PlaceDiffers{},
		DispatchFailed{}, QueueFlushFailed{}, MaintenanceFailed{}, CheckpointWritten{}, IndexRemade{}, IndexFailed{}, IndexIncomplete{},
		ConfigRestored{}, FormatUnknown{}, TermNotBegun{}, RetentionRan{}, DiskChanged{}, DiskUnknown{}, ClockWrong{},
	} {
		kinds[reflect.TypeOf(e).Name()] = e
	}
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		if _, ok := spec.Type.(*ast.StructType); !ok {
			continue
		}
		e, ok := kinds[spec.Name.Name]
		if !ok {
			t.Errorf("%s is not in this test", spec.Name.Name)
			continue
		}
		_, text, args := e.Line()
		if other := texts[text]; text == "" || other != "" || len(args)%2 != 0 {
			t.Errorf("%s: text %q (also of %q), %d keys and values", spec.Name.Name, text, other, len(args))
		}
		texts[text] = spec.Name.Name
	}
	if len(texts) != len(kinds) {
		t.Errorf("%d types, want %d", len(texts), len(kinds))
	}
}
