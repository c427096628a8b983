package policy

import (
	"crypto/hmac"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
)

// RemotingRequest is what the remoting protocol offers for authentication.
type RemotingRequest struct {
	ExtFields map[string]string
	Body      []byte
	Remote    netip.Addr
}

// Fields of a signed remoting request.
const (
	fieldAccessKey     = "AccessKey"
	fieldSignature     = "Signature"
	fieldSecurityToken = "SecurityToken"
	accessKeyJWT       = "jwt"
)

// optionalFields are fields that some official client adds after signing, or
// leaves out of what it signs: the Go client's token, the Java 4 client's
// unique-key mark, the Java 5 client's zone. A signature counts if it fits with
// or without each group.
var optionalFields = [][]string{
	{fieldSecurityToken},
	{"_UNIQUE_KEY_QUERY"},
	{"__ZONE_NAME", "__ZONE_MODE"},
}

// AuthenticateRemoting finds out who sent a remoting request. The error is a
// *Refusal.
func (e *Engine) AuthenticateRemoting(r RemotingRequest) (*Principal, error) {
	accessKey := r.ExtFields[fieldAccessKey]
	if accessKey == "" {
		return nil, errUnauthenticated()
	}
	if accessKey == accessKeyJWT {
		return e.authenticateToken(r.ExtFields[fieldSecurityToken], r.Remote)
	}
	p := e.find(accessKey)
	signature, err := base64.StdEncoding.DecodeString(r.ExtFields[fieldSignature])
	if err != nil || len(signature) == 0 || !p.signedRemoting(r, signature) || !p.known() {
		return nil, errUnauthenticated().by(p, nil, DeniedConnect, kindKey, p.id)
	}
	return p, nilOr(p.admit(r.Remote))
}

// nilOr keeps a nil *Refusal from becoming a non-nil error.
func nilOr(r *Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

func (p *Principal) signedRemoting(r RemotingRequest, signature []byte) bool {
	keys := make([]string, 0, len(r.ExtFields))
	for k := range r.ExtFields {
		if k != fieldSignature {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var present [][]string
	for _, group := range optionalFields {
		if slices.ContainsFunc(group, func(k string) bool { _, ok := r.ExtFields[k]; return ok }) {
			present = append(present, group)
		}
	}
	var content []byte
	for without := range 1 << len(present) {
		content = content[:0]
		for _, k := range keys {
			if !excluded(k, present, without) {
				content = append(content, r.ExtFields[k]...)
			}
		}
		if hmac.Equal(p.mac(content, r.Body), signature) {
			return true
		}
	}
	return false
}

// excluded reports whether key is in one of the groups whose bit is set.
func excluded(key string, groups [][]string, bits int) bool {
	for i, group := range groups {
		if bits&(1<<i) != 0 && slices.Contains(group, key) {
			return true
		}
	}
	return false
}

// SignRemoting adds AccessKey and Signature to ext, as the Java client does.
// It is for Sluice's own calls.
func SignRemoting(ext map[string]string, body []byte, accessKey string, secret []byte) {
	ext[fieldAccessKey] = accessKey
	delete(ext, fieldSignature)
	keys := make([]string, 0, len(ext))
	for k := range ext {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var content strings.Builder
	for _, k := range keys {
		content.WriteString(ext[k])
	}
	p := &Principal{secret: secret}
	ext[fieldSignature] = base64.StdEncoding.EncodeToString(p.mac([]byte(content.String()), body))
}
