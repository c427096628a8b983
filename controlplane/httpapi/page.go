package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

const defaultPageSize = 50

// pageState is what a page token says: where to go on, and for which request.
// The whole is signed, so that a cursor cannot be made up or moved.
type pageState struct {
	After string `json:"a"`
	For   string `json:"f"` // hash of tenant, operation and filters
}

// pageFor hashes what a token belongs to.
func pageFor(c *call) string {
	q := url.Values{}
	for k, v := range c.gin.Request.URL.Query() {
		if k != "page_token" && k != "page_size" {
			q[k] = v
		}
	}
	sum := sha256.Sum256([]byte(c.principal.TenantID + "\x00" + c.op.id + "\x00" + c.gin.Request.URL.Path + "\x00" + q.Encode()))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func (s *server) sign(payload string) string {
	m := hmac.New(sha256.New, s.pageKey)
	m.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}

// after reads the page token of a request; "" on the first page.
func (s *server) after(c *call, token *string) (string, error) {
	if token == nil {
		return "", nil
	}
	bad := errs.Field("query.page_token", "the page token belongs to another request, or was changed; start from the first page").WithReason("page_token_invalid")
	payload, mac, ok := strings.Cut(*token, ".")
	if !ok || !hmac.Equal([]byte(mac), []byte(s.sign(payload))) {
		return "", bad
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "", bad
	}
	var st pageState
	if err := json.Unmarshal(text, &st); err != nil || st.For != pageFor(c) {
		return "", bad
	}
	return st.After, nil
}

// next makes the token for what comes after; nil when there is nothing.
func (s *server) next(c *call, after string) *string {
	if after == "" {
		return nil
	}
	text, err := json.Marshal(pageState{After: after, For: pageFor(c)})
	if err != nil {
		panic("httpapi: page state: " + err.Error()) // two strings always encode
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	token := payload + "." + s.sign(payload)
	return &token
}

// listed reads a page of a list and converts it. One more than asked for is
// read, to know whether there is a next page.
func listed[T, D any](s *server, c *call, size *int32, token *string, read func(tenant.Page) ([]T, error), id func(T) string, convert func(T) D) ([]D, *string, error) {
	after, err := s.after(c, token)
	if err != nil {
		return nil, nil, err
	}
	n := int(or(size, defaultPageSize))
	items, err := read(tenant.Page{Size: n + 1, After: after})
	if err != nil {
		return nil, nil, err
	}
	var next *string
	if len(items) > n {
		items = items[:n]
		next = s.next(c, id(items[n-1]))
	}
	out := make([]D, len(items))
	for i, item := range items {
		out[i] = convert(item)
	}
	return out, next, nil
}

// whole pages through a list that is short enough to be made at once.
func whole[D any](s *server, c *call, size *int32, token *string, items []D, id func(D) string) ([]D, *string, error) {
	return listed(s, c, size, token, func(p tenant.Page) ([]D, error) {
		from := 0
		for from < len(items) && p.After != "" {
			from++
			if id(items[from-1]) == p.After {
				break
			}
		}
		return items[from:min(len(items), from+p.Size)], nil
	}, id, func(d D) D { return d })
}
