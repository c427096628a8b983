package policy

import (
	"bytes"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// denials.bin holds what was denied and not acknowledged when the process ended,
// for its next start:
//
//	+----------------+-------------------------------+---------------------------+
//	| "SLDENIA" 0x01 | SignDenials of what follows,  | JSON of a list of Denial  |
//	|                | 64 hexadecimal digits         |                           |
//	+----------------+-------------------------------+---------------------------+
//
// It stays until the next end: a process that was killed tells again what it had
// read, by the same ids. A file that is damaged or of another version is left
// aside with a word in the log.
const (
	denialsName  = "denials.bin"
	denialsMagic = "SLDENIA\x01"
	denialsMAC   = 64
)

var errDenialsFile = errors.New("file of denials is damaged, of another version, or signed with another secret")

// loadDenials reads what an earlier process left.
func loadDenials(dir string, secret []byte) ([]Denial, error) {
	path := filepath.Join(dir, denialsName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutPrefix(raw, []byte(denialsMagic))
	if !ok || len(body) < denialsMAC || !hmac.Equal(body[:denialsMAC], []byte(SignDenials(secret, body[denialsMAC:]))) {
		return nil, fmt.Errorf("%s: %w", path, errDenialsFile)
	}
	var list []Denial
	if err := json.Unmarshal(body[denialsMAC:], &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// keepDenials writes what was not acknowledged, or removes the file when all was.
func (e *Engine) keepDenials() error {
	q := e.denials
	q.mu.Lock()
	defer q.mu.Unlock()
	list := append(q.told.Denials, q.waiting...)
	for _, c := range q.tally.TakeAll() {
		if c.Key.tenant != "" {
			list = append(list, denial(c))
		}
	}
	path := filepath.Join(e.cfg.Dir, denialsName)
	if len(list) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove denials: %w", err)
		}
		return nil
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode denials: %w", err)
	}
	raw := append([]byte(denialsMagic+SignDenials(e.cfg.SystemSecret, body)), body...)
	if err := errors.Join(writeSynced(path+".new", raw), os.Rename(path+".new", path), syncDir(e.cfg.Dir)); err != nil {
		return fmt.Errorf("keep denials: %w", err)
	}
	q.told, q.waiting = DenialReport{}, list
	return nil
}
