package meter

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// The checkpoint is drawn in FORMAT.md. It is replaced by rename; the one
// before stays as .bak and is read when the newer one cannot be: the fold then
// only counts a little more of the log again.
const (
	checkpointName    = "ingress.checkpoint"
	checkpointMagic   = "SLMETER"
	checkpointVersion = 1
	checkpointHeader  = len(checkpointMagic) + 1 + 4
)

var (
	errNotCheckpoint     = errors.New("not a meter checkpoint")
	errCheckpointVersion = errors.New("meter checkpoint of an unknown version")
	errCheckpointDamaged = errors.New("meter checkpoint is damaged")
)

type savedFold struct {
	Source string       `json:"source"`
	Next   int64        `json:"next"`
	Minute int64        `json:"minute"`
	Open   int64        `json:"open"`
	Cells  []savedCell  `json:"cells"`
	Topics []savedTopic `json:"topics"`
}

type savedCell struct {
	Minute int64  `json:"minute"`
	Cell   Cell   `json:"cell"`
	Values Values `json:"values"`
}

type savedTopic struct {
	NamespaceID string           `json:"ns"`
	Topic       string           `json:"topic"`
	Minutes     []retainedMinute `json:"minutes"`
}

// save is durable when it returns.
func (f *fold) save() error {
	f.mu.Lock()
	s := savedFold{Source: f.source, Next: f.next, Minute: f.minute, Open: f.open}
	for minute, cells := range f.cells {
		for cell, v := range cells {
			s.Cells = append(s.Cells, savedCell{minute, cell, *v})
		}
	}
	for key, t := range f.topics {
		s.Topics = append(s.Topics, savedTopic{key.namespaceID, key.topic, append([]retainedMinute(nil), t.Minutes...)})
	}
	f.mu.Unlock()

	body, err := json.Marshal(&s)
	if err != nil {
		return fmt.Errorf("encode meter checkpoint: %w", err)
	}
	raw := append([]byte(checkpointMagic), checkpointVersion)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(body))
	raw = append(raw, body...)
	path := filepath.Join(f.cfg.Dir, checkpointName)
	w, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write meter checkpoint: %w", err)
	}
	_, err = w.Write(raw)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return fmt.Errorf("write meter checkpoint: %w", err)
	}
	if err := os.Rename(path, path+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep previous meter checkpoint: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace meter checkpoint: %w", err)
	}
	d, err := os.Open(f.cfg.Dir)
	if err != nil {
		return fmt.Errorf("sync meter folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reports whether there was a checkpoint. Two unreadable ones are an
// error: starting from nothing would give the old usage a new name.
func (f *fold) load() (bool, error) {
	path := filepath.Join(f.cfg.Dir, checkpointName)
	err := f.loadFile(path)
	if err == nil {
		return true, nil
	}
	previous := f.loadFile(path + ".bak")
	if previous == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Error("meter checkpoint cannot be read; the one before is used", "err", err)
		}
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) && errors.Is(previous, fs.ErrNotExist) {
		return false, nil
	}
	return false, fmt.Errorf("%s: %w", path, err)
}

func (f *fold) loadFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s, err := decodeCheckpoint(raw)
	if err != nil {
		return err
	}
	f.source, f.next, f.minute, f.open = s.Source, s.Next, s.Minute, s.Open
	for _, c := range s.Cells {
		if f.cells[c.Minute] == nil {
			f.cells[c.Minute] = map[Cell]*Values{}
		}
		f.cells[c.Minute][c.Cell] = &c.Values
	}
	for _, t := range s.Topics {
		r := &retained{Minutes: t.Minutes}
		for _, m := range t.Minutes {
			r.Total += m.Bytes
		}
		f.topics[topicKey{t.NamespaceID, t.Topic}] = r
	}
	return nil
}

func decodeCheckpoint(raw []byte) (*savedFold, error) {
	if len(raw) < checkpointHeader || string(raw[:len(checkpointMagic)]) != checkpointMagic {
		return nil, errNotCheckpoint
	}
	if raw[len(checkpointMagic)] != checkpointVersion {
		return nil, errCheckpointVersion
	}
	body := raw[checkpointHeader:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(raw[len(checkpointMagic)+1:]) {
		return nil, errCheckpointDamaged
	}
	var s savedFold
	if err := json.Unmarshal(body, &s); err != nil || s.Source == "" {
		return nil, errCheckpointDamaged
	}
	return &s, nil
}
