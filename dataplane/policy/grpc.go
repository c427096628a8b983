package policy

import (
	"crypto/hmac"
	"encoding/hex"
	"net/netip"
	"strings"
)

// GRPCRequest is what the gRPC protocol offers for authentication: the values
// of the metadata headers "authorization", "x-mq-date-time" and
// "x-mq-session-token".
type GRPCRequest struct {
	Authorization string
	DateTime      string
	SessionToken  string
	Remote        netip.Addr
}

const (
	schemeHMAC   = "MQv2-HMAC-SHA1"
	schemeBearer = "Bearer"
)

// AuthenticateGRPC finds out who sent a gRPC request. The error is a *Refusal.
//
// The signature covers the date text alone, exactly as received; there is no
// time window, because official clients send local time marked as UTC.
func (e *Engine) AuthenticateGRPC(r GRPCRequest) (*Principal, error) {
	scheme, rest, _ := strings.Cut(r.Authorization, " ")
	if strings.EqualFold(scheme, schemeBearer) {
		return e.authenticateToken(strings.TrimSpace(rest), r.Remote)
	}
	if scheme != schemeHMAC {
		return nil, errUnauthenticated()
	}
	items := map[string]string{}
	for item := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(item), "=")
		items[k] = v
	}
	accessKey, _, _ := strings.Cut(items["Credential"], "/") // some clients append a region
	switch {
	case accessKey == accessKeyJWT:
		return e.authenticateToken(r.SessionToken, r.Remote)
	case strings.Count(accessKey, ".") == 2: // a JWT itself: the Go, Python and Rust clients send no session token
		return e.authenticateToken(accessKey, r.Remote)
	}
	p := e.find(accessKey)
	signature, err := hex.DecodeString(items["Signature"])
	if err != nil || r.DateTime == "" || accessKey == "" || !hmac.Equal(p.mac([]byte(r.DateTime)), signature) || !p.known() {
		return nil, errUnauthenticated().by(p, nil, DeniedConnect, kindKey, p.id)
	}
	return p, nilOr(p.admit(r.Remote))
}
