package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// formatFile says which version of this program's format a folder has, and the
// sizes that it was made with. RocketMQ leaves it alone.
//
//	{"sum": CRC-32 (IEEE) of the text of format, "format": {"version": …}}
//
// What raises FormatVersion: a change that an older program would take for
// damage, or that it would destroy. It comes with code that reads the version
// before, and with a line here that says what the change guards.
//
//	1  as FORMAT.md says
const formatFile = "sluice.store.json"

// FormatVersion is the newest format that this program reads, and the one
// that it writes.
const FormatVersion = 1

type sealedFormat struct {
	Sum    uint32          `json:"sum"`
	Format json.RawMessage `json:"format"`
}

// Format is the content of the format file.
type Format struct {
	Version           int   `json:"version"`
	SegmentBytes      int64 `json:"segmentBytes"`
	QueueSegmentBytes int64 `json:"queueSegmentBytes"`
	IndexSlots        int32 `json:"indexSlots"`
	IndexEntries      int32 `json:"indexEntries"`
}

func (c *Config) format() Format {
	return Format{FormatVersion, c.SegmentBytes, c.QueueSegmentBytes, c.IndexSlots, c.IndexEntries}
}

// ReadFormat returns the format of a folder; the zero Format where nothing
// says it, as in a folder of RocketMQ. ErrNewerVersion comes with the format.
func ReadFormat(fsys vfs.FS, dir string) (Format, error) {
	s := &Store{cfg: Config{Dir: dir}, fs: fsys, log: discard}
	return s.readFormat()
}

func (s *Store) readFormat() (Format, error) {
	var f Format
	data, err := s.LoadConfig(formatFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		f, err = DecodeFormat(data)
	}
	if errors.Is(err, ErrConfigDamaged) {
		// Sizes that do not fit are found with the files, too.
		s.happened(FormatUnknown{err})
		return Format{}, nil
	}
	if err == nil && f.Version > FormatVersion {
		err = fmt.Errorf("the store has format %d, this program knows formats up to %d: start it with the newer program that wrote it: %w", f.Version, FormatVersion, ErrNewerVersion)
	}
	return f, err
}

// DecodeFormat reads the content of the format file. A wrong checksum is
// ErrConfigDamaged.
func DecodeFormat(data []byte) (f Format, err error) {
	var sealed sealedFormat
	if json.Unmarshal(data, &sealed) != nil || crc32.ChecksumIEEE(sealed.Format) != sealed.Sum || json.Unmarshal(sealed.Format, &f) != nil {
		return Format{}, fmt.Errorf("wrong checksum: %w", ErrConfigDamaged)
	}
	return f, nil
}

// checkFormat refuses a folder that a newer program wrote, or one that has
// data in files of other sizes than the configuration says. It sets made.
func (s *Store) checkFormat() error {
	was, err := s.readFormat()
	if err != nil || was.Version == 0 {
		return err
	}
	s.made = was
	for _, size := range []struct {
		name    string
		is, was int64
	}{{"segment_bytes", s.cfg.SegmentBytes, was.SegmentBytes}, {"queue_segment_bytes", s.cfg.QueueSegmentBytes, was.QueueSegmentBytes}} {
		if size.is == size.was {
			continue
		}
		empty, err := s.noLog()
		if err != nil || empty {
			return err
		}
		return fmt.Errorf("store.%s is %d, but the store was made with %d: set it back: %w", size.name, size.is, size.was, ErrSizes)
	}
	return nil
}

// indexFits tells whether the key index was made with the configured sizes,
// as far as is known.
func (s *Store) indexFits() bool {
	return s.made.Version == 0 || s.made.IndexSlots == s.cfg.IndexSlots && s.made.IndexEntries == s.cfg.IndexEntries
}

// noLog tells whether the store has never had a message.
func (s *Store) noLog() (bool, error) {
	infos, err := s.fs.ReadDir(s.path("commitlog"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(infos) == 0, err
}

// saveFormat writes the format file where it is missing or says other sizes.
func (s *Store) saveFormat() error {
	if was, err := s.readFormat(); err != nil || was == s.cfg.format() {
		return err
	}
	data, err := json.Marshal(s.cfg.format())
	if err == nil {
		data, err = json.Marshal(sealedFormat{crc32.ChecksumIEEE(data), data})
	}
	if err != nil {
		return err
	}
	return s.SaveConfig(formatFile, data)
}
