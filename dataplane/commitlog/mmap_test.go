package commitlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkWriteOrMap is why the log writes with write(2): records of 1 KiB into
// a new file of 256 MiB by gathered writes, and by copies into a mapping. See
// FORMAT.md.
func BenchmarkWriteOrMap(b *testing.B) {
	const fileBytes, recordBytes = 256 << 20, 1 << 10
	fresh := func(b *testing.B, n int) *os.File {
		f, err := os.Create(filepath.Join(b.TempDir(), fmt.Sprint(n)))
		if err == nil {
			err = f.Truncate(fileBytes)
		}
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	for _, gather := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("write=%d", gather), func(b *testing.B) {
			buf := make([]byte, gather*recordBytes)
			b.SetBytes(recordBytes)
			f := fresh(b, 0)
			defer func() { f.Close() }()
			off := int64(0)
			for n := 0; n < b.N; n += gather {
				if off+int64(len(buf)) > fileBytes {
					f.Close()
					f, off = fresh(b, n), 0
				}
				if _, err := f.WriteAt(buf, off); err != nil {
					b.Fatal(err)
				}
				off += int64(len(buf))
			}
		})
	}
	b.Run("mmap", func(b *testing.B) {
		record := make([]byte, recordBytes)
		b.SetBytes(recordBytes)
		var f *os.File
		var m []byte
		off := fileBytes
		for n := range b.N {
			if off == fileBytes {
				if m != nil {
					unix.Munmap(m)
					f.Close()
				}
				var err error
				f = fresh(b, n)
				if m, err = unix.Mmap(int(f.Fd()), 0, fileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
					b.Fatal(err)
				}
				off = 0
			}
			off += copy(m[off:], record)
		}
		unix.Munmap(m)
		f.Close()
	})
}
