package vfs

import (
	"path/filepath"
	"testing"
	"time"
)

// The end of what a file holds is found behind holes, in front of them, and
// where there are none; the same on each file system.
func TestContentEnd(t *testing.T) {
	const mib = 1 << 20
	for name, fs := range map[string]FS{"os": OS(), "mem": NewMem(time.Now)} {
		dir := t.TempDir()
		if err := fs.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			size   int64
			writes []int64 // one byte at each
			zeros  []int64 // a zero byte at each
			from   int64
			want   int64
		}{
			{0, nil, nil, 0, 0},
			{64 * mib, nil, nil, 0, 0},
			{64 * mib, nil, nil, 5 * mib, 5 * mib},
			{64 * mib, []int64{0}, nil, 0, 1},
			{64 * mib, []int64{0}, nil, 1, 1},
			{64 * mib, []int64{3, 40*mib + 7}, nil, 4, 40*mib + 8},
			{64 * mib, []int64{3, 64*mib - 1}, nil, 4, 64 * mib},
			{64 * mib, []int64{3}, []int64{50 * mib}, 0, 4},
			{64 * mib, []int64{3}, []int64{50 * mib}, 4, 4},
			{mib + 5, []int64{mib + 4}, nil, 0, mib + 5},
			{10, []int64{2}, nil, 20, 20},
		} {
			f, err := fs.Create(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(c.size); err != nil {
				t.Fatal(err)
			}
			for value, at := range map[byte][]int64{1: c.writes, 0: c.zeros} {
				for _, off := range at {
					if _, err := f.WriteAt([]byte{value}, off); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got, err := ContentEnd(f, c.from); err != nil || got != c.want {
				t.Errorf("%s case %d: got %d, %v, want %d", name, i, got, err, c.want)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
