package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// SaveConfig replaces the file config/<name> at once and durably; the one that
// was there becomes <name>.bak. data must be JSON, or LoadConfig will take it
// for damaged. Saves of one name must not overlap.
func (s *Store) SaveConfig(name string, data []byte) error {
	if err := ValidName(name); err != nil {
		return fmt.Errorf("configuration %w", err)
	}
	file := s.path("config", name)
	s.configMu.Lock()
	defer s.configMu.Unlock()
	if err := s.saveConfigLocked(file, data); err != nil {
		return fmt.Errorf("save %s: %w", file, err)
	}
	return nil
}

// saveConfigLocked never leaves a moment without a whole file: the new one is
// complete and synced before the old one moves, and while no <name> is there
// <name>.bak is.
func (s *Store) saveConfigLocked(file string, data []byte) error {
	if err := vfs.WriteFile(s.fs, file+".tmp", data); err != nil {
		return err
	}
	if err := s.fs.Rename(file, file+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.fs.Rename(file+".tmp", file); err != nil {
		return err
	}
	return s.fs.SyncDir(s.path("config"))
}

// LoadConfig returns the content of config/<name>. If that is missing, empty or
// not JSON, the copy <name>.bak is returned and the damaged file kept as
// <name>.damaged. Unquoted numeric keys, which other writers of the folder
// produce, come back quoted. Errors: fs.ErrNotExist when neither file is
// there, ErrConfigDamaged when there is none that can be read.
func (s *Store) LoadConfig(name string) ([]byte, error) {
	if err := ValidName(name); err != nil {
		return nil, fmt.Errorf("configuration %w", err)
	}
	file := s.path("config", name)
	data, err := s.loadJSON(file)
	if err == nil {
		return data, nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if !missing && !errors.Is(err, ErrConfigDamaged) {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	data, bakErr := s.loadJSON(file + ".bak")
	if bakErr != nil {
		if missing && errors.Is(bakErr, fs.ErrNotExist) {
			return nil, err
		}
		if !errors.Is(bakErr, fs.ErrNotExist) && !errors.Is(bakErr, ErrConfigDamaged) {
			return nil, fmt.Errorf("load %s: %w", file, bakErr)
		}
		// Not ErrNotExist, which callers take for a fresh store.
		return nil, fmt.Errorf("load %s: %v; its copy: %v: %w", file, err, bakErr, ErrConfigDamaged)
	}
	s.happened(ConfigRestored{file, err})
	if !missing {
		// Out of the way, or the next save would make it the copy.
		if err := s.fs.Rename(file, file+".damaged"); err != nil {
			return nil, fmt.Errorf("load %s: %w", file, err)
		}
		if err := s.fs.SyncDir(s.path("config")); err != nil {
			return nil, fmt.Errorf("load %s: %w", file, err)
		}
	}
	return data, nil
}

func (s *Store) loadJSON(file string) ([]byte, error) {
	data, err := vfs.ReadFile(s.fs, file)
	if err != nil {
		return nil, err
	}
	data = quoteKeys(data)
	if err := CheckConfig(data); err != nil {
		return nil, err
	}
	return data, nil
}

// CheckConfig reports what keeps LoadConfig from reading the content of a
// file: ErrConfigDamaged.
func CheckConfig(data []byte) error {
	var any json.RawMessage
	if err := json.Unmarshal(quoteKeys(data), &any); err != nil {
		return fmt.Errorf("%d bytes that are not JSON (%v): %w", len(data), err, ErrConfigDamaged)
	}
	return nil
}

// quoteKeys puts quotes around numbers that stand as keys of objects: outside
// of strings, a number in front of a colon is one.
func quoteKeys(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/16)
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '"':
			end := stringEnd(data, i)
			out = append(out, data[i:end]...)
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(data) && data[end] >= '0' && data[end] <= '9' {
				end++
			}
			next := end
			for next < len(data) && (data[next] == ' ' || data[next] == '\t' || data[next] == '\n' || data[next] == '\r') {
				next++
			}
			if next < len(data) && data[next] == ':' {
				out = append(out, '"')
				out = append(out, data[i:end]...)
				out = append(out, '"')
			} else {
				out = append(out, data[i:end]...)
			}
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// stringEnd returns the position behind the string that begins at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
