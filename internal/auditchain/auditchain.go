// Package auditchain is the hash chain over the audit events of a tenant: what
// the server writes, and what anybody can check with nothing but an export.
//
// Each event's hash covers all its fields and the hash of the event in front,
// and sequence numbers have no holes: an event that was changed, removed, moved
// or put in between breaks the chain at its place. Only the newest events can
// be cut off without a trace in what is left; who kept a head of an earlier
// time (Head) finds that, too.
package auditchain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Event is an audit event as the chain sees it.
type Event struct {
	Sequence    int64 // 1 for the first of a tenant
	ID          string
	At          time.Time // whole milliseconds count
	ActorType   string
	ActorID     string
	KeyID       string
	SourceIP    string
	Action      string
	TargetType  string
	TargetID    string
	NamespaceID string
	Decision    string
	Reason      string
	RequestID   string
	BeforeHash  string // fingerprint of the object before and after; may be empty
	AfterHash   string
	Count       int64     // how often it happened, when events were counted into one; else 0
	FirstAt     time.Time // the first time then, At is the last; whole milliseconds count
}

// Head is the newest event of a chain. The zero Head is that of an empty one.
type Head struct {
	Sequence int64
	Hash     string // 64 hexadecimal digits
}

// The first thing that a hash covers. The third version is for events that count
// several, the second for others that have fingerprints, the first for the rest:
// it says which fields follow, so that none can be put in or left out.
const (
	version             = "sluice audit 1"
	versionFingerprints = "sluice audit 2"
	versionCount        = "sluice audit 3"
)

// Next returns the head with e behind h. e.Sequence does not count: it is
// h.Sequence+1.
func (h Head) Next(e *Event) Head {
	sum := sha256.New()
	field := func(text string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		sum.Write(n[:])
		sum.Write([]byte(text))
	}
	number := func(v int64) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(v))
		sum.Write(n[:])
	}
	next := Head{Sequence: h.Sequence + 1}
	fields := []string{
		e.ID, e.ActorType, e.ActorID, e.KeyID, e.SourceIP, e.Action, e.TargetType, e.TargetID, e.NamespaceID, e.Decision, e.Reason, e.RequestID,
	}
	counts := e.Count != 0 || !e.FirstAt.IsZero()
	switch {
	case counts:
		field(versionCount)
		fields = append(fields, e.BeforeHash, e.AfterHash)
	case e.BeforeHash+e.AfterHash != "":
		field(versionFingerprints)
		fields = append(fields, e.BeforeHash, e.AfterHash)
	default:
		field(version)
	}
	field(h.Hash)
	number(next.Sequence)
	number(e.At.UnixMilli())
	for _, text := range fields {
		field(text)
	}
	if counts {
		number(e.Count)
		number(e.FirstAt.UnixMilli())
	}
	next.Hash = hex.EncodeToString(sum.Sum(nil))
	return next
}

// BrokenError says where a chain is broken.
type BrokenError struct {
	Sequence int64 // where an event is missing or wrong
	Problem  string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the audit chain is broken at event %d: %s", e.Sequence, e.Problem)
}

// Verifier checks a chain, event by event, oldest first.
type Verifier struct {
	head   Head
	begun  bool
	anchor []Head
}

// NewVerifier checks a chain that also has to hold the heads of earlier times.
func NewVerifier(known ...Head) *Verifier { return &Verifier{anchor: known} }

// From says what lies in front of the first event: the zero Head for a whole
// chain.
func (v *Verifier) From(h Head) { v.begun, v.head = true, h }

// Add takes the next event with the hash and the one in front that were kept
// for it. Without From the first event may be any of the chain: what is in front
// of it is then taken for granted. The error is a *BrokenError.
func (v *Verifier) Add(e *Event, hash, previous string) error {
	if !v.begun {
		v.begun, v.head = true, Head{e.Sequence - 1, previous}
		if e.Sequence == 1 && previous != "" {
			return &BrokenError{1, "the first event has one in front"}
		}
	}
	want := v.head.Sequence + 1
	switch {
	case e.Sequence > want:
		return &BrokenError{want, fmt.Sprintf("events %d to %d are missing", want, e.Sequence-1)}
	case e.Sequence < want:
		return &BrokenError{e.Sequence, "it is there twice, or events are out of order"}
	case previous != v.head.Hash:
		return &BrokenError{e.Sequence, "it does not follow the event in front: one of the two was changed"}
	}
	next := v.head.Next(e)
	if next.Hash != hash {
		return &BrokenError{e.Sequence, "its content was changed"}
	}
	for _, a := range v.anchor {
		if a.Sequence == next.Sequence && a.Hash != next.Hash {
			return &BrokenError{e.Sequence, "it is not the event that was there before: the chain was written anew"}
		}
	}
	v.head = next
	return nil
}

// End says that there are no more events, and returns the head. The error is a
// *BrokenError when a head that was known lies behind it.
func (v *Verifier) End() (Head, error) {
	for _, a := range v.anchor {
		if a.Sequence > v.head.Sequence {
			return v.head, &BrokenError{v.head.Sequence + 1, fmt.Sprintf("the newest events are missing: there were %d", a.Sequence)}
		}
	}
	return v.head, nil
}
