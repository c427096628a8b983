package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// call is what is known of a request on its way. One goroutine uses it.
type call struct {
	gin       *gin.Context
	op        *operation
	principal *auth.Principal
	requestID string
	addr      netip.Addr
	begun     time.Time
	body      []byte
	basicID   string // key id of HTTP Basic, for the token endpoint
	basicKey  string

	site   auth.Site // that a browser would be at
	leave  func()    // ends its turn; nil: it has none, or none any more
	target audited
}

// audited names the object of a write.
type audited struct {
	kind        string
	id          string
	namespaceID tenant.ID
}

const callKey = "sluice.call"

// enter returns the call behind the context that the generated code hands
// over, and a context that lives longer than gin's pooled one.
func enter(ctx context.Context) (*call, context.Context) {
	gc, ok := ctx.(*gin.Context)
	if !ok {
		panic("httpapi: handler called without gin")
	}
	c, ok := gc.MustGet(callKey).(*call)
	if !ok {
		panic("httpapi: request has not begun")
	}
	return c, gc.Request.Context()
}

func (c *call) tenantID() tenant.ID { return c.principal.TenantID }

func (c *call) touches(kind, id string, namespaceID tenant.ID) {
	c.target = audited{kind: kind, id: id, namespaceID: namespaceID}
}

// endTurn may be called more than once.
func (c *call) endTurn() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
}

func (c *call) device() auth.Device {
	return auth.Device{UserAgent: c.gin.Request.UserAgent(), Address: c.addr.String(), Site: c.site}
}

// addressOf reads the address of the connection; headers of proxies are not
// believed.
func addressOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// wanted reads If-Match: the revision that a change is meant for, 0 for any.
func wanted(ifMatch *string) (int64, error) {
	if ifMatch == nil || *ifMatch == "*" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.Trim(*ifMatch, `"`), 10, 64)
	if err != nil || n < 1 {
		return 0, errs.Field("header.If-Match", "If-Match is %s; send the ETag of the object, such as \"3\"", *ifMatch)
	}
	return n, nil
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

func waiting(wait *string) time.Duration {
	if wait == nil {
		return 0
	}
	d, err := time.ParseDuration(*wait)
	if err != nil {
		return 0 // the contract has refused it before
	}
	return d
}

func isTrue(b *bool) bool { return b != nil && *b }

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// some is a pointer to v, nil for the zero value: an absent field.
func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
