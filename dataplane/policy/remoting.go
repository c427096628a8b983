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
	Fields []Field // a name may come twice: the last one counts
	Body   []byte
	Remote netip.Addr
}

// Field is one field of a remoting header.
type Field = struct{ Key, Value string }

// FieldsOf returns the fields of a map.
func FieldsOf(m map[string]string) []Field {
	fields := make([]Field, 0, len(m))
	for k, v := range m {
		fields = append(fields, Field{k, v})
	}
	return fields
}

// field returns the last value of a name, "" for none.
func (r *RemotingRequest) field(name string) string {
	for i := len(r.Fields) - 1; i >= 0; i-- {
		if r.Fields[i].Key == name {
			return r.Fields[i].Value
		}
	}
	return ""
}

// NeedsToken reports whether a request brings a token instead of a signature:
// to check one takes some hundred times longer.
func (r *RemotingRequest) NeedsToken() bool { return r.field(fieldAccessKey) == accessKeyJWT }

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

// AuthenticateRemoting finds out who sent a remoting request. Nothing of r is
// kept. The error is a *Refusal.
func (e *Engine) AuthenticateRemoting(r RemotingRequest) (*Principal, error) {
	accessKey := r.field(fieldAccessKey)
	if accessKey == "" {
		return nil, errUnauthenticated()
	}
	if accessKey == accessKeyJWT {
		return e.authenticateToken(r.field(fieldSecurityToken), r.Remote)
	}
	p := e.find(accessKey)
	if !p.signedRemoting(&r) || !p.known() {
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

// signatureText is the length of a signature: 20 bytes in Base64.
const signatureText = 28

func (p *Principal) signedRemoting(r *RemotingRequest) bool {
	var signature [signatureText]byte
	text := strings.TrimSpace(r.field(fieldSignature))
	if len(text) != signatureText {
		return false
	}
	copy(signature[:], text)
	n, err := base64.StdEncoding.Decode(signature[:], signature[:])
	if err != nil {
		return false
	}
	var few [32]int16
	fields := few[:0]
	for i := range r.Fields {
		if r.Fields[i].Key != fieldSignature {
			fields = append(fields, int16(i))
		}
	}
	slices.SortStableFunc(fields, func(a, b int16) int { return strings.Compare(r.Fields[a].Key, r.Fields[b].Key) })
	for i := len(fields) - 2; i >= 0; i-- {
		if r.Fields[fields[i]].Key == r.Fields[fields[i+1]].Key {
			fields = slices.Delete(fields, i, i+1)
		}
	}
	var groups [3][]string // of len(optionalFields)
	present := groups[:0]
	for _, group := range optionalFields {
		if slices.ContainsFunc(fields, func(i int16) bool { return slices.Contains(group, r.Fields[i].Key) }) {
			present = append(present, group)
		}
	}
	m := p.takeMAC()
	defer p.giveMAC(m)
	for without := range 1 << len(present) {
		m.content = m.content[:0]
		for _, i := range fields {
			if !excluded(r.Fields[i].Key, present, without) {
				m.content = append(m.content, r.Fields[i].Value...)
			}
		}
		if hmac.Equal(m.sum(m.content, r.Body), signature[:n]) {
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
