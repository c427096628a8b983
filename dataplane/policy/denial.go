package policy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/sluicemq/sluice/internal/tally"
)

// Denial is a kind of refusal with how often it happened: for the audit log of
// the tenant whose key asked. Refusals of nobody's key are told to nobody, and
// those for want of rate or for a name that cannot be are no denials.
type Denial struct {
	ID          string    `json:"id"` // the same when it is told again
	TenantID    string    `json:"tenant_id"`
	KeyID       string    `json:"api_key_id,omitempty"`
	OwnerID     string    `json:"owner_id,omitempty"`
	NamespaceID string    `json:"namespace_id,omitempty"` // the key's
	Action      string    `json:"action"`                 // see the Denied constants
	Kind        string    `json:"kind"`                   // topic, group, namespace, request or api_key
	Name        string    `json:"name,omitempty"`
	Code        string    `json:"code"` // of the Refusal; CodeOthers
	Address     string    `json:"address,omitempty"`
	RequestID   string    `json:"request_id,omitempty"` // of the last one
	Count       int64     `json:"count"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
}

// What was denied.
const (
	DeniedConnect   = "connect" // the key, its address, or a namespace
	DeniedPublish   = "publish"
	DeniedSubscribe = "subscribe"
	DeniedManage    = "manage"
	DeniedDescribe  = "describe"
)

var deniedOperations = map[Operation]string{
	OperationPub: DeniedPublish, OperationSub: DeniedSubscribe, OperationManage: DeniedManage, OperationDescribe: DeniedDescribe,
}

// kindKey is the Kind of what concerns a key as a whole.
const kindKey = "api_key"

// CodeOthers stands for what was denied beyond deniedKinds.
const CodeOthers = "others"

// Bounds of what is counted between two reports: kinds of one tenant, kinds of
// all, bytes of a name.
const (
	deniedKinds = 32
	deniedTotal = 50_000
	deniedName  = 120
)

// denied is what makes a refusal one kind of Denial. The zero tenant is that of
// keys that nobody has: it is counted like any other, so that an answer takes as
// long, and told to nobody.
type denied struct {
	tenant, key, owner, namespace string
	action, kind, name, code      string
	address                       netip.Addr
}

// by marks a refusal as a denial of p's; name may be what a client made up.
func (r *Refusal) by(p *Principal, ns *namespace, action, kind, name string) *Refusal {
	if p.system {
		return r
	}
	r.denied = &denied{tenant: p.tenant, key: p.id, owner: p.owner, action: action, kind: kind, name: name, code: r.Code}
	if ns != nil {
		r.denied.namespace = ns.id
	}
	return r
}

// RefuseRequest refuses p a request that is for Sluice itself; what names it.
func (p *Principal) RefuseRequest(what, text string) *Refusal {
	return refuse(CodePermissionDenied, "%s", text).by(p, nil, DeniedManage, "request", what)
}

// Denied counts a refusal that a caller was given, if it is a denial. The fronts
// call it where answers leave: what was asked and then allowed another way is
// none.
func (e *Engine) Denied(r *Refusal, remote netip.Addr, requestID string) {
	if r.denied == nil {
		return
	}
	d := *r.denied
	d.name, d.address = cleanName(d.name), remote.Unmap()
	e.denials.tally.Add(d, strings.Clone(requestID))
}

// cleanName bounds a name that a client made up, and keeps none of its request.
func cleanName(name string) string {
	if len(name) > deniedName {
		name = name[:deniedName] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(strings.Clone(name), string(unicode.ReplacementChar)))
}

// DenialReport is a part of what was denied. It is told until it is acknowledged.
type DenialReport struct {
	ID      string   `json:"id"` // for the acknowledgement; empty: there is nothing to tell
	Denials []Denial `json:"denials"`
}

// denialsPerReport bounds a report to some megabytes.
const denialsPerReport = 5_000

// denials are counted, and taken from tally to be told.
type denials struct {
	tally *tally.Tally[denied]

	mu      sync.Mutex
	waiting []Denial     // taken, and in no report yet
	told    DenialReport // not acknowledged
}

func newDenials(now func() time.Time) *denials {
	return &denials{tally: tally.New(tally.Config[denied]{
		Owner: func(d denied) string { return d.tenant },
		Others: func(d denied) denied {
			return denied{tenant: d.tenant, action: DeniedConnect, kind: kindKey, code: CodeOthers}
		},
		PerOwner: deniedKinds, Total: deniedTotal, Now: now,
	})}
}

// Denials returns a report and its signature: the hexadecimal HMAC-SHA256 of body
// under the system's secret. ack is the report that the caller has stored for
// good, empty for none; until it is acknowledged, the same report comes again.
func (e *Engine) Denials(ack string) (body []byte, signature string, err error) {
	q := e.denials
	q.mu.Lock()
	defer q.mu.Unlock()
	if ack != "" && ack == q.told.ID {
		q.told = DenialReport{}
	}
	if q.told.ID == "" {
		q.next()
	}
	if body, err = json.Marshal(q.told); err != nil {
		return nil, "", fmt.Errorf("encode denials: %w", err)
	}
	return body, SignDenials(e.cfg.SystemSecret, body), nil
}

// next makes a report of what there is to tell; with q.mu.
func (q *denials) next() {
	if len(q.waiting) == 0 {
		for _, c := range q.tally.Take() {
			if c.Key.tenant != "" {
				q.waiting = append(q.waiting, denial(c))
			}
		}
	}
	n := min(len(q.waiting), denialsPerReport)
	if n == 0 {
		return
	}
	q.told = DenialReport{ID: rand.Text(), Denials: q.waiting[:n:n]}
	q.waiting = q.waiting[n:]
}

func denial(c tally.Counted[denied]) Denial {
	d := Denial{ID: rand.Text(), TenantID: c.Key.tenant, KeyID: c.Key.key, OwnerID: c.Key.owner, NamespaceID: c.Key.namespace, Action: c.Key.action,
		Kind: c.Key.kind, Name: c.Key.name, Code: c.Key.code, RequestID: c.Detail, Count: c.Count, First: c.First.UTC(), Last: c.Last.UTC()}
	if c.Key.address.IsValid() {
		d.Address = c.Key.address.String()
	}
	return d
}

// SignDenials returns the signature of a report's body.
func SignDenials(secret, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("sluice denials\x00"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
