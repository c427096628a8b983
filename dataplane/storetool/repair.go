package storetool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/dataplane/replica"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// RepairOptions say how far a Repair goes.
type RepairOptions struct {
	DryRun bool // tell what would change and change nothing
	// Rebuild makes queues and key index anew from the commit log, but not
	// light and batch consume queues, which only a RocketMQ broker can make.
	Rebuild bool
	Now     func() time.Time // names the folder of the copies
	Logger  *slog.Logger     // gets what the store says
}

// FileChange is what a Repair does to one file.
type FileChange struct {
	File string `json:"file"` // below the folder
	What string `json:"what"`
	Copy string `json:"copy,omitempty"` // where the bytes that go are kept, below the folder
}

// Repaired is the outcome of a Repair.
type Repaired struct {
	Folder  string       `json:"folder"`
	DryRun  bool         `json:"dry_run"`
	Changes []FileChange `json:"changes"`
	Faults  []Finding    `json:"faults"` // what is still wrong after it, and what is lost
}

// Repair does to a folder what the next start of a broker would do, and keeps
// a copy of what that cuts off the commit log and of configuration files that
// go, in sluice.cut/<time>/ below the folder. Everything is first done in
// memory, so the copies are on the disk before anything changes. At the end the
// folder is verified.
func Repair(ctx context.Context, o Options, r RepairOptions) (*Repaired, error) {
	f, err := openFolder(&o, true)
	if err != nil {
		return nil, err
	}
	cfg := f.cfg
	if err := f.close(); err != nil {
		return nil, err
	}
	// Copies of the trial and of the repair have the same names.
	now := r.Now()
	clock := func() time.Time { return now }
	trial := vfs.NewOverlay(vfs.ReadOnly())
	out := &Repaired{Folder: o.Dir, DryRun: r.DryRun, Changes: []FileChange{}, Faults: []Finding{}}
	deps := store.Deps{FS: trial, Logger: slog.New(slog.DiscardHandler), Now: clock, Events: func(e store.Event) {
		tell(r.Logger, e, r.DryRun)
		out.noteLoss(e)
	}}
	if err = start(ctx, cfg, deps, r.Rebuild, r.DryRun); err == nil {
		err = out.plan(trial, &cfg, now, r.DryRun)
	}
	if err == nil && r.DryRun {
		err = out.verify(ctx, o, trial)
	}
	if err = errors.Join(err, trial.Close()); err != nil {
		return nil, fmt.Errorf("repair %s: %w", o.Dir, err)
	}
	if r.DryRun {
		return out, nil
	}
	deps = store.Deps{FS: vfs.OS(), Logger: deps.Logger, Now: clock}
	if err := start(ctx, cfg, deps, r.Rebuild, true); err != nil {
		return out, fmt.Errorf("repair %s: %w", o.Dir, err)
	}
	return out, out.verify(ctx, o, nil)
}

// tell logs what the trial did; a dry run tells of nothing that was done.
func tell(log *slog.Logger, e store.Event, dryRun bool) {
	level, text, args := e.Line()
	if !dryRun {
		log.Log(context.Background(), level, text, args...)
		return
	}
	if _, ok := e.(store.RecoveryEnded); ok {
		text = "a repair would do this"
	}
	log.Log(context.Background(), level, text, append(args, "dry_run", true)...)
}

// verify notes what is wrong with the folder on a file system; nil for the disk.
func (out *Repaired) verify(ctx context.Context, o Options, fsys vfs.FS) error {
	o.fs, o.Progress = fsys, nil
	r, err := Verify(ctx, o)
	if err != nil {
		return fmt.Errorf("verify what was repaired: %w", err)
	}
	if slices.ContainsFunc(r.Faults, func(f Finding) bool { return f.Name == lostEndName }) {
		out.Faults = nil // said there, with more
	}
	if out.Faults = append(out.Faults, r.Faults...); len(out.Faults) == 0 {
		out.Faults = []Finding{} // not null in JSON
	}
	return nil
}

// noteLoss has a repair tell of messages that it cannot bring back, also when the
// folder is in order after it.
func (out *Repaired) noteLoss(e store.Event) {
	if lost, ok := e.(store.LogEndLost); ok {
		out.Faults = append(out.Faults, Finding{Name: lostEndName, File: "commitlog", What: fmt.Sprintf("the commit log ended at %d, but it had come to %d and was synced: %d messages are lost", lost.From, lost.To, lost.Messages),
			Fix: "Bring the file back from a copy or a replica, still: its place is kept free."})
	}
}

// start opens the store and closes it again; with index it waits until all
// keys are known.
func start(ctx context.Context, cfg store.Config, deps store.Deps, rebuild, index bool) error {
	if rebuild {
		if err := forget(cfg.Dir, deps.FS); err != nil {
			return err
		}
	}
	s, err := store.Open(cfg, deps)
	if err != nil {
		return err
	}
	if !index {
		return s.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	// A look-up waits for the index.
	_, err = s.FindByKey(ctx, store.KeyQuery{Topic: "none", Key: "none", Max: 1})
	cancel()
	return errors.Join(err, <-done, s.Close())
}

// forget removes what can be made anew. The lock is held meanwhile; a broker
// that starts right after it makes the same anew.
func forget(dir string, fsys vfs.FS) error {
	lock, err := fsys.Lock(filepath.Join(dir, "lock"), []byte("lock"))
	if err != nil {
		return err
	}
	names := []string{"index", "sluice.index", "queues.state", "sluice.queues"}
	topics, err := fsys.ReadDir(filepath.Join(dir, "consumequeue"))
	for _, topic := range topics {
		if !strings.HasPrefix(topic.Name, lightPrefix) {
			names = append(names, filepath.Join("consumequeue", topic.Name))
		}
	}
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, fsys.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(append(errs, fsys.SyncDir(dir), lock.Close())...)
}

// derived begins the names of files that are made again or mean nothing.
// What goes of the commit log is copied by the start.
var derived = []string{"commitlog/", "consumequeue/", "index/", "sluice.index/", "sluice.queues/", "queues.state", "checkpoint", "abort", "lock", replica.FileName}

// plan lists the changes of the trial and makes the copies, but of the commit log,
// which the start makes itself.
func (out *Repaired) plan(trial *vfs.Overlay, cfg *store.Config, now time.Time, dryRun bool) error {
	changes, err := trial.Changes()
	if err != nil {
		return err
	}
	cut := filepath.Join(cutFolder, now.UTC().Format("20060102T150405Z"))
	for _, c := range changes {
		rel, err := filepath.Rel(cfg.Dir, c.Name)
		if err != nil {
			return err
		}
		change := FileChange{File: rel}
		switch {
		case c.Was < 0 && c.Now < 0:
			continue
		case c.Now < 0:
			change.What = fmt.Sprintf("removed, it has %d bytes", c.Was)
		case c.Was < 0:
			change.What = fmt.Sprintf("made, with %d bytes", c.Now)
		default:
			change.What = fmt.Sprintf("written from byte %d on", c.From)
		}
		lost := c.Was > 0
		for _, prefix := range derived {
			lost = lost && !strings.HasPrefix(filepath.ToSlash(rel), prefix)
		}
		if lost {
			if change.Copy, err = keep(cfg.Dir, rel, cut, c.From, dryRun); err != nil {
				return err
			}
		}
		out.Changes = append(out.Changes, change)
	}
	out.nameCopies(cfg.SegmentBytes)
	return nil
}

// nameCopies says of commit log files where the start has kept what it cut off.
func (out *Repaired) nameCopies(segmentBytes int64) {
	for _, made := range out.Changes {
		at, err := strconv.ParseInt(filepath.Base(made.File), 10, 64)
		if err != nil || !strings.HasPrefix(made.File, cutFolder) {
			continue
		}
		from := filepath.Join("commitlog", fmt.Sprintf("%020d", at-at%segmentBytes))
		for i := range out.Changes {
			if out.Changes[i].File == from {
				out.Changes[i].Copy = made.File
			}
		}
	}
}

// keep copies the bytes of a file from an offset on, without the zeros at its
// end, and returns the name of the copy; "" when there are none.
func keep(dir, rel, cut string, from int64, dryRun bool) (string, error) {
	in, err := vfs.ReadOnly().Open(filepath.Join(dir, rel))
	if err != nil {
		return "", err
	}
	defer in.Close()
	end, err := vfs.ContentEnd(in, from)
	if err != nil || end <= from {
		return "", err
	}
	name := filepath.Join(cut, fmt.Sprintf("%s.from-%d", rel, from))
	if dryRun {
		return name, nil
	}
	fsys, path := vfs.OS(), filepath.Join(dir, name)
	if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
		return "", err
	}
	out, err := fsys.Create(path)
	if err != nil {
		return "", err
	}
	b := make([]byte, copyBytes)
	for at := from; at < end && err == nil; {
		n := min(copyBytes, end-at)
		if _, err = in.ReadAt(b[:n], at); err == nil {
			_, err = out.WriteAt(b[:n], at-from)
		}
		at += n
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", fmt.Errorf("copy what goes of %s: %w", rel, err)
	}
	for p := filepath.Dir(path); ; p = filepath.Dir(p) {
		if err := fsys.SyncDir(p); err != nil || p == filepath.Clean(dir) {
			return name, err
		}
	}
}

const copyBytes = 1 << 20
