package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// prepare copies the program to out and builds it there, unless that was done
// since its source last changed. Downloads stay in the tools' own caches.
func (s sdk) prepare(ctx context.Context, out string) error {
	src := filepath.Join(clientsDir, s.source)
	done := filepath.Join(out, ".built")
	built, err := os.Stat(done)
	if err == nil && !changedSince(src, built.ModTime()) {
		return nil
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.CopyFS(out, os.DirFS(src)); err != nil {
		return err
	}
	if err := s.build(ctx, src, out); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

func changedSince(dir string, t time.Time) bool {
	changed := false
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		changed = changed || err == nil && info.ModTime().After(t)
		return err
	})
	return changed || err != nil
}

func tool(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is missing: run through scripts/test-services.sh, or install it", name)
	}
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

func buildGo(ctx context.Context, src, out string) error {
	return tool(ctx, ".", "go", "build", "-o", filepath.Join(out, "smoke"), "./"+src)
}

func maven(flags ...string) func(ctx context.Context, src, out string) error {
	return func(ctx context.Context, _, out string) error {
		args := append([]string{"-q", "-B"}, flags...)
		return tool(ctx, out, "mvn", append(args, "compile", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib")...)
	}
}

func buildNode(ctx context.Context, _, out string) error {
	return tool(ctx, out, "npm", "install", "--no-audit", "--no-fund", "--silent")
}

func buildPython(ctx context.Context, _, out string) error {
	return errors.Join(
		tool(ctx, out, "python3", "-m", "venv", "venv"),
		tool(ctx, out, "venv/bin/pip", "-q", "install", "-r", "requirements.txt"),
	)
}
