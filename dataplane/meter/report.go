package meter

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Report is what a broker says of usage: per source, minute and cell the value
// so far. Merged by maximum, reports may be lost, repeated and reordered.
type Report struct {
	Broker   string         `json:"broker"`
	Sequence uint64         `json:"sequence"` // grows; names the report in Ack
	Time     int64          `json:"time_ms"`  // the broker's wall clock
	Sources  []SourceReport `json:"sources"`
	KeyUses  []KeyUse       `json:"key_uses,omitempty"`
}

// KeyUse says when and for what an API key was used last. It is told until a
// report with it was acknowledged.
type KeyUse struct {
	KeyID     string `json:"api_key_id"`
	TenantID  string `json:"tenant_id"`
	At        int64  `json:"at_ms"`
	Address   string `json:"address"`
	Operation string `json:"operation"`
	Topic     string `json:"topic,omitempty"`
}

// SourceReport is the part of one source: the commit log, or one process.
type SourceReport struct {
	Source string `json:"source"`
	Kind   string `json:"kind"` // SourceLog or SourceProcess
	Dead   bool   `json:"dead,omitempty"`
	// SealedThrough is the last minute that is final, as are all before it:
	// they are in Minutes or were acknowledged, unless More is set.
	SealedThrough int64         `json:"sealed_through"`
	More          bool          `json:"more,omitempty"` // some minutes were left for the next report
	Minutes       []MinuteCells `json:"minutes"`
}

// The kinds of sources.
const (
	SourceLog     = "log"
	SourceProcess = "process"
)

// MinuteCells are the cells of one minute since 1970.
type MinuteCells struct {
	Minute int64       `json:"minute"`
	Sealed bool        `json:"sealed"`
	Cells  []CellCount `json:"cells"`
}

// CellCount is one cell with its values; zeros are left out.
type CellCount struct {
	NamespaceID string            `json:"namespace_id"`
	Topic       string            `json:"topic,omitempty"`
	Group       string            `json:"group,omitempty"`
	KeyID       string            `json:"api_key_id,omitempty"`
	Class       string            `json:"class,omitempty"`
	Protocol    string            `json:"protocol,omitempty"`
	Counts      map[string]uint64 `json:"counts"`
}

// cellsPerReport bounds a report; a backlog takes several.
const cellsPerReport = 20_000

// Report returns the current report and its signature: the hexadecimal
// HMAC-SHA256 of body under the broker's secret.
func (m *Meter) Report() (body []byte, signature string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	m.sequence = max(m.sequence+1, uint64(now.UnixMilli())) // above those of earlier processes
	r := Report{Broker: m.cfg.Broker, Sequence: m.sequence, Time: now.UnixMilli()}
	through := map[string]int64{}
	budget := cellsPerReport
	add := func(source, kind string, dead bool, cells map[int64]map[Cell]Values, open int64) {
		s := SourceReport{Source: source, Kind: kind, Dead: dead, SealedThrough: open - 1}
		for _, minute := range slices.Sorted(maps.Keys(cells)) {
			if budget <= 0 {
				s.More = true
				s.SealedThrough = min(s.SealedThrough, minute-1)
				break
			}
			budget -= len(cells[minute])
			s.Minutes = append(s.Minutes, minuteCells(minute, minute < open, cells[minute]))
		}
		through[source] = s.SealedThrough
		r.Sources = append(r.Sources, s)
	}
	for _, d := range m.adopted {
		add(d.incarnation, SourceProcess, true, d.cells, d.last+1)
	}
	cells, open := m.fold.read()
	add(m.fold.source, SourceLog, false, cells, open)
	cells, open = m.egress.read()
	add(m.egress.incarnation, SourceProcess, false, cells, open)

	r.KeyUses = m.uses.report(m.cfg.KeyUses, r.Sequence)
	if body, err = json.Marshal(&r); err != nil {
		return nil, "", fmt.Errorf("encode usage report: %w", err)
	}
	m.sent[r.Sequence] = through
	for sequence := range m.sent { // an acknowledgement this late is of no use any more
		if sequence+600_000 < r.Sequence {
			delete(m.sent, sequence)
		}
	}
	return body, Sign(m.cfg.Secret, body), nil
}

// Sign returns the signature of a report's body.
func Sign(secret, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Verify reports whether signature is that of body, in constant time.
func Verify(secret, body []byte, signature string) bool {
	return hmac.Equal([]byte(Sign(secret, body)), []byte(signature))
}

func minuteCells(minute int64, sealed bool, cells map[Cell]Values) MinuteCells {
	out := MinuteCells{Minute: minute, Sealed: sealed, Cells: make([]CellCount, 0, len(cells))}
	for _, cell := range slices.SortedFunc(maps.Keys(cells), compareCells) {
		c := CellCount{NamespaceID: cell.NamespaceID, Topic: cell.Topic, Group: cell.Group, KeyID: cell.KeyID, Counts: map[string]uint64{}}
		if cell.Class != 0 {
			c.Class = string(rune(cell.Class))
		}
		if cell.Protocol != 0 {
			c.Protocol = string(rune(cell.Protocol))
		}
		for i, n := range cells[cell] {
			if n != 0 {
				c.Counts[Counter(i).String()] = n
			}
		}
		out.Cells = append(out.Cells, c)
	}
	return out
}

// Ack says that the report of the given sequence is stored for good: its sealed
// minutes are dropped. An unknown sequence is ignored; the minutes come again.
func (m *Meter) Ack(sequence uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses.ack(sequence)
	through, ok := m.sent[sequence]
	if !ok {
		return nil
	}
	delete(m.sent, sequence)
	var errs []error
	var left []*deadFile
	for _, d := range m.adopted {
		sealed, ok := through[d.incarnation]
		if ok && sealed >= d.last {
			errs = append(errs, d.remove())
			continue
		}
		for minute := range d.cells {
			if ok && minute <= sealed {
				delete(d.cells, minute)
			}
		}
		left = append(left, d)
	}
	m.adopted = left
	if sealed, ok := through[m.fold.source]; ok {
		m.fold.drop(sealed)
	}
	if sealed, ok := through[m.egress.incarnation]; ok {
		m.egress.drop(sealed)
	}
	return errors.Join(errs...)
}
