package policy

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Snapshot is everything a name server or broker must know of all tenants on
// its cluster. The control plane builds it; see Seal for how it travels.
type Snapshot struct {
	Issuer     string               `json:"issuer,omitempty"`  // "iss" that message-path tokens must carry
	Tokens     []TokenKey           `json:"tokens,omitempty"`  // public keys that message-path tokens may be signed with
	Revoked    map[string]int64     `json:"revoked,omitempty"` // ids of tokens that are refused, with the second at which they expire
	Keys       map[string]Key       `json:"keys,omitempty"`    // by key id
	Namespaces map[string]Namespace `json:"namespaces,omitempty"`
}

// TokenKey is one public key of the control plane's JWKS. It proves tokens of
// its algorithm and no other.
type TokenKey struct {
	KID       string `json:"kid"`
	Algorithm string `json:"alg,omitempty"` // empty: AlgorithmEdDSA
	Public    []byte `json:"public"`        // Ed25519: 32 bytes; RSA: PKCS #1
}

// Key is an API key. A revoked or disabled key stays as long as its owner may
// still sign with it, so that the refusal can say what happened.
type Key struct {
	Secret       string     `json:"secret"`
	TenantID     string     `json:"tenant_id"`
	OwnerID      string     `json:"owner_id,omitempty"` // the person or service account that rules may name
	Revoked      bool       `json:"revoked,omitempty"`
	Disabled     bool       `json:"disabled,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	AllowedCIDRs []string   `json:"allowed_cidrs,omitempty"` // empty: every address
	Scopes       []Scope    `json:"scopes"`
}

// Scope is what a key may do in one namespace. A pattern is a name, a prefix
// followed by "*", or "*"; an empty list holds nothing.
type Scope struct {
	NamespaceID string     `json:"namespace_id"`
	Permissions []string   `json:"permissions"`
	Topics      []string   `json:"topics,omitempty"`
	Groups      []string   `json:"groups,omitempty"`
	CIDRs       []string   `json:"cidrs,omitempty"`      // addresses that the scope is for; empty: all
	ExpiresAt   *time.Time `json:"expires_at,omitempty"` // the scope is void from then on
}

// Namespace is the isolation unit on brokers.
type Namespace struct {
	TenantID  string           `json:"tenant_id"`
	Suspended bool             `json:"suspended,omitempty"`
	Limits    Limits           `json:"limits"`
	Topics    map[string]Topic `json:"topics,omitempty"` // by bare name; only topics that have something to say
	ACL       []Rule           `json:"acl,omitempty"`    // see Rule for how they are evaluated
}

// Limits are rates of a namespace on this process; 0 means no limit.
type Limits struct {
	SendMessagesPerSecond    int64 `json:"send_messages_per_second,omitempty"`
	SendBytesPerSecond       int64 `json:"send_bytes_per_second,omitempty"`
	ReceiveMessagesPerSecond int64 `json:"receive_messages_per_second,omitempty"`
	RequestsPerSecond        int64 `json:"requests_per_second,omitempty"`
}

// Topic holds the limits of one topic; 0 means no limit of its own.
type Topic struct {
	SendMessagesPerSecond int64 `json:"send_messages_per_second,omitempty"`
	MaxMessageBytes       int64 `json:"max_message_bytes,omitempty"`
}

// Delta turns the snapshot of revision base into the next one.
type Delta struct {
	Issuer         *string              `json:"issuer,omitempty"`
	Tokens         *[]TokenKey          `json:"tokens,omitempty"`
	Revoked        map[string]int64     `json:"revoked,omitempty"` // added
	DropRevoked    []string             `json:"drop_revoked,omitempty"`
	Keys           map[string]Key       `json:"keys,omitempty"` // added or replaced
	DropKeys       []string             `json:"drop_keys,omitempty"`
	Namespaces     map[string]Namespace `json:"namespaces,omitempty"` // added or replaced
	DropNamespaces []string             `json:"drop_namespaces,omitempty"`
}

// apply returns a new snapshot; s is not changed.
func (s *Snapshot) apply(d *Delta) *Snapshot {
	n := &Snapshot{Issuer: s.Issuer, Tokens: s.Tokens, Revoked: s.Revoked, Keys: maps.Clone(s.Keys), Namespaces: maps.Clone(s.Namespaces)}
	if n.Keys == nil {
		n.Keys = map[string]Key{}
	}
	if n.Namespaces == nil {
		n.Namespaces = map[string]Namespace{}
	}
	if d.Issuer != nil {
		n.Issuer = *d.Issuer
	}
	if d.Tokens != nil {
		n.Tokens = *d.Tokens
	}
	if len(d.Revoked)+len(d.DropRevoked) > 0 {
		n.Revoked = map[string]int64{}
		maps.Copy(n.Revoked, s.Revoked)
		for _, id := range d.DropRevoked {
			delete(n.Revoked, id)
		}
		maps.Copy(n.Revoked, d.Revoked)
	}
	for _, id := range d.DropKeys {
		delete(n.Keys, id)
	}
	maps.Copy(n.Keys, d.Keys)
	for _, id := range d.DropNamespaces {
		delete(n.Namespaces, id)
	}
	maps.Copy(n.Namespaces, d.Namespaces)
	return n
}

// Envelope kinds.
const (
	kindSnapshot = "snapshot"
	kindDelta    = "delta"
)

// envelope is the signed form in which policy travels.
type envelope struct {
	Kind      string `json:"kind"`
	Cluster   string `json:"cluster"`
	Base      uint64 `json:"base,omitempty"`
	Revision  uint64 `json:"revision"`
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// signed returns the bytes that the signature covers: every field with its
// length in front, so that no two envelopes share them.
func (e *envelope) signed() []byte {
	var b bytes.Buffer
	field := func(p []byte) {
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		b.Write(p)
	}
	field([]byte("sluice policy 1"))
	field([]byte(e.Kind))
	field([]byte(e.Cluster))
	field(binary.BigEndian.AppendUint64(nil, e.Base))
	field(binary.BigEndian.AppendUint64(nil, e.Revision))
	field(e.Payload)
	return b.Bytes()
}

// SealSnapshot signs a whole snapshot for one cluster. Revisions grow by every
// change of the control plane's state; a process takes a snapshot of any
// revision above its own.
func SealSnapshot(key ed25519.PrivateKey, cluster string, revision uint64, s *Snapshot) ([]byte, error) {
	return seal(key, &envelope{Kind: kindSnapshot, Cluster: cluster, Revision: revision}, s)
}

// SealDelta signs the step from revision base to revision. A process whose
// revision is not base answers ErrStale and wants a snapshot.
func SealDelta(key ed25519.PrivateKey, cluster string, base, revision uint64, d *Delta) ([]byte, error) {
	return seal(key, &envelope{Kind: kindDelta, Cluster: cluster, Base: base, Revision: revision}, d)
}

func seal(key ed25519.PrivateKey, e *envelope, payload any) ([]byte, error) {
	var err error
	if e.Payload, err = json.Marshal(payload); err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	e.Signature = ed25519.Sign(key, e.signed())
	return json.Marshal(e)
}

// The failures of Engine.Apply that callers tell apart.
var (
	ErrStale     = errors.New("policy delta does not fit the current revision")
	ErrUntrusted = errors.New("policy is not signed by a trusted key")
)

// MaxEnvelopeBytes bounds what Apply reads; a policy of 10,000 tenants is far
// below it.
const MaxEnvelopeBytes = 256 << 20

func openEnvelope(trusted []ed25519.PublicKey, cluster string, raw []byte) (*envelope, error) {
	if len(raw) > MaxEnvelopeBytes {
		return nil, fmt.Errorf("policy of %d bytes is over the limit of %d", len(raw), MaxEnvelopeBytes)
	}
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("decode policy envelope: %w", err)
	}
	content := e.signed()
	ok := false
	for _, key := range trusted {
		ok = ok || ed25519.Verify(key, content, e.Signature)
	}
	if !ok {
		return nil, ErrUntrusted
	}
	if e.Cluster != cluster {
		return nil, fmt.Errorf("policy is for cluster %q, this is %q", e.Cluster, cluster)
	}
	return &e, nil
}

// Hash identifies a snapshot's content; equal content has an equal hash
// (encoding/json sorts map keys).
func (s *Snapshot) Hash() string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
