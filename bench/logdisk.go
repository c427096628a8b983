package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// limit runs one test of what the machine itself can do, on the disk of the stores.
func (w *workplace) limit(ctx context.Context, test string) (m measured, err error) {
	program, err := w.program(ctx, "limits")
	if err != nil {
		return m, err
	}
	out, err := exec.CommandContext(ctx, program, "-dir", w.dir, "-run", test, "-duration", min(w.seconds, 5*time.Second).String()).Output()
	if err != nil {
		return m, fmt.Errorf("limits %s: %w", test, err)
	}
	var line struct {
		PerSecond float64 `json:"per_s"`
		MiB       float64 `json:"mib_per_s"`
		P99       float64 `json:"p99_us"`
	}
	if err := json.Unmarshal(out, &line); err != nil {
		return m, fmt.Errorf("limits %s: %w", test, err)
	}
	return measured{PerSecond: line.PerSecond, MBPerSecond: line.MiB * (1 << 20) / 1e6, P99: line.P99}, nil
}

func logCold(ctx context.Context, w *workplace) ([]figure, error) {
	disk, err := w.limit(ctx, "^seq_read_disk$")
	if err != nil {
		return nil, err
	}
	got := results{"disk": disk}
	note := ""
	err = w.one(ctx, ours, false, func(_ string, s server) (err error) {
		if _, err := s.Produce(ctx, w.filling()); err != nil {
			return err
		}
		size, err := eachFile(s.Folder(), forget)
		if err != nil {
			return err
		}
		got[ours], err = s.Consume(ctx, consumption{readers: 1, once: true})
		note = fmt.Sprintf("%.0f MiB stored, %.0f MiB came from the disk", float64(size)/(1<<20), got[ours].Read)
		return err
	})
	return []figure{compare("log-cold consume, 1 reader", "MB/s", got, func(m measured) float64 { return m.MBPerSecond }, true, times{"disk": 0.8}, note, spent(got))}, err
}

// eachFile visits the files of a folder and adds up the bytes that they take on
// the disk. A server may remove files meanwhile.
func eachFile(dir string, visit func(f *os.File) error) (size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			size += info.Sys().(*syscall.Stat_t).Blocks * 512
			err = visit(f)
		}
		return errors.Join(err, f.Close())
	})
	return size, err
}

// forget writes a file to the disk and drops it from the page cache.
func forget(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func logStart(ctx context.Context, w *workplace) ([]figure, error) {
	empty, full := results{}, results{}
	note := ""
	err := w.each(ctx, false, []string{rocketMQ, jetStream}, func(name string, s server) error {
		took, err := s.Restart(ctx, true)
		if err != nil {
			return err
		}
		empty[name] = measured{Millis: took.Seconds() * 1000}
		if name == jetStream { // the row asks for no large store of it
			return nil
		}
		var stored int64
		for stored < w.storeBytes {
			if _, err := s.Produce(ctx, shape{inFlight: 16, batch: 256, seconds: 10 * time.Second}); err != nil {
				return err
			}
			if stored, err = eachFile(s.Folder(), func(*os.File) error { return nil }); err != nil {
				return err
			}
		}
		if name == ours {
			note = fmt.Sprintf("%.1f GiB stored", float64(stored)/(1<<30))
		}
		took, err = s.Restart(ctx, false)
		full[name] = measured{Millis: took.Seconds() * 1000}
		return err
	})
	millis := func(m measured) float64 { return m.Millis }
	first, after := compare("log-start empty store, first message", "ms", empty, millis, false, nil), compare("log-start after kill -9, first message", "ms", full, millis, false, nil, note)
	first.Goal, first.Open, after.Goal, after.Open = 200, false, 3000, false
	return []figure{first, after}, err
}
