// Package httpapi serves the HTTP API that controlplane/api/openapi.yaml
// describes, the console, the pages of error codes and, on loopback, the
// mailbox.
//
// It owns the way of a request: who calls, how often, whether the request has
// the form that the contract asks for, whether the caller may; then one
// service method; then the answer. No rule of the product is in a handler.
// The handler may serve any number of requests at the same time.
package httpapi

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/controlplane/mail"
	"github.com/sluicemq/sluice/internal/auditchain"
	"github.com/sluicemq/sluice/tenant"
)

// Limits are the rates of the API.
type Limits struct {
	Principal cache.Rate // of each caller that is known
	Address   cache.Rate // of each address, for calls without a caller
	SignIn    cache.Rate // of sign-ins to each mail address from one network

	// Of sign-ins to each mail address from everywhere: looser than SignIn, so
	// that a stranger elsewhere does not shut the owner out at once.
	SignInAccount cache.Rate
	// Of sign-up, sign-in, reset, verification, second factors and leak reports
	// together.
	AuthAddress cache.Rate // from each address (IPv6: each /64)
	AuthNetwork cache.Rate // from each network (/24; IPv6: /48)
	// Of mails that somebody without a session can cause.
	MailAddress cache.Rate
	MailNetwork cache.Rate
	MailTotal   cache.Rate
}

// DefaultLimits are used for zero rates.
var DefaultLimits = Limits{
	Principal: cache.Rate{PerSecond: 100, Burst: 300},
	Address:   cache.Rate{PerSecond: 10, Burst: 60},
	SignIn:    cache.Rate{PerSecond: 0.1, Burst: 10},

	SignInAccount: cache.Rate{PerSecond: 0.2, Burst: 30},
	AuthAddress:   cache.Rate{PerSecond: 2, Burst: 60},
	AuthNetwork:   cache.Rate{PerSecond: 10, Burst: 300},
	MailAddress:   cache.Rate{PerSecond: 60.0 / 3600, Burst: 60},
	MailNetwork:   cache.Rate{PerSecond: 300.0 / 3600, Burst: 300},
	MailTotal:     cache.Rate{PerSecond: 10_000.0 / 3600, Burst: 2_000},
}

// MailsPerHour is a rate of mails for Limits.MailTotal; zero for zero. A fifth
// of an hour's may come at once.
func MailsPerHour(n int64) cache.Rate {
	if n <= 0 {
		return cache.Rate{}
	}
	return cache.Rate{PerSecond: float64(n) / 3600, Burst: int(max(1, n/5))}
}

// Config is what can be set.
type Config struct {
	PublicURL string // of this server, without a slash at the end; empty: as the request says
	Limits    Limits
	KeepAlive time.Duration // between comments in a tail; 15s
}

// Limiter counts rates; cache.Cache does.
type Limiter interface {
	Take(ctx context.Context, key string, r cache.Rate) cache.Decision
}

// Transactor runs a function in a transaction; sqldb.DB does.
type Transactor interface {
	InTx(ctx context.Context, fn func(ctx context.Context) error) error
}

// Idempotency keeps answers; controldb.Idempotency does.
type Idempotency interface {
	Claim(ctx context.Context, k controldb.IdemKey, hash string) (answer []byte, done bool, err error)
	Finish(ctx context.Context, k controldb.IdemKey, answer []byte) error
	Drop(ctx context.Context, k controldb.IdemKey) error
}

// Audit keeps what was done; controldb.Audit does.
type Audit interface {
	Append(ctx context.Context, e controldb.AuditEvent) error
	List(ctx context.Context, tenantID tenant.ID, f controldb.AuditFilter, p tenant.Page) ([]controldb.AuditEvent, error)
	// Verify checks the hash chain; see package auditchain.
	Verify(ctx context.Context, tenantID tenant.ID, known ...auditchain.Head) (auditchain.Head, error)
}

// Sealer seals kept answers, which may hold a secret, and gives keys for page
// tokens; tenant.Keyring does.
type Sealer interface {
	Seal(purpose string, plain []byte) []byte
	Open(purpose string, sealed []byte) ([]byte, error)
	Derive(purpose string) []byte
}

// Billing answers for usage and money. Cursors are its own; httpapi makes
// page tokens of them.
type Billing interface {
	Usage(ctx context.Context, tenantID tenant.ID, q api.GetUsageParams, limit int, cursor string) (u api.Usage, next string, err error)
	UsageCSV(ctx context.Context, tenantID tenant.ID, q api.GetUsageCsvParams, w io.Writer) error
	Costs(ctx context.Context, tenantID tenant.ID, month string) (api.Costs, error)
	CostsCSV(ctx context.Context, tenantID tenant.ID, month string, w io.Writer) error
	Plans(ctx context.Context, tenantID tenant.ID) ([]api.Plan, error)
	PriceBooks(ctx context.Context, tenantID tenant.ID) ([]api.PriceBook, error)
}

// Mailbox lists mails that went into a folder; mail.Mailer does.
type Mailbox interface {
	HasFolder() bool
	Messages() ([]mail.Message, error)
}

// Observer is told of each request; route is a path of the contract or a
// word for all others, so that its values are few.
type Observer func(route string, status int, took time.Duration)

// Deps is what the handler needs. Billing, Messages, Mailbox and Console may
// be nil: what they serve then answers 503 or 404.
type Deps struct {
	Config      Config
	Auth        *auth.Service
	Tenants     *tenant.Service
	Federation  *federation.Service
	Catalog     *catalog.Service
	Judges      catalog.Judges
	Messages    catalog.Messages
	Billing     Billing
	Tx          Transactor
	Idempotency Idempotency
	Audit       Audit
	Limiter     Limiter
	Sealer      Sealer
	// Refused is told of callers that are known and were not let in: an event of a
	// tenant, or without one of a person, for the tenants that they belong to. It
	// must not block; nil: nobody.
	Refused func(e controldb.AuditEvent)
	Mailbox Mailbox
	Console fs.FS // index.html and what it loads
	Observe Observer
	Now     func() time.Time
	Logger  *slog.Logger
}

// server implements the generated StrictServerInterface.
type server struct {
	d       Deps
	ops     map[string]*operation // by method and gin path
	pageKey []byte

	recent    recent // of callers that read
	lookups   *turns // reads of the database, by network
	answers   *turns // answers with messages, until they are written
	reads     *turns // reads of messages
	tails     *share // open tails
	tailBytes *share // of messages that wait for readers of tails
}

var _ StrictServerInterface = (*server)(nil)

// New makes the handler. An error means that the contract in this binary is
// broken.
func New(d Deps) (http.Handler, error) {
	s, engine, err := build(d)
	if err != nil {
		return nil, err
	}
	return s.outside(engine), nil
}

func build(d Deps) (*server, *gin.Engine, error) {
	def := func(r *cache.Rate, d cache.Rate) {
		if *r == (cache.Rate{}) {
			*r = d
		}
	}
	def(&d.Config.Limits.Principal, DefaultLimits.Principal)
	def(&d.Config.Limits.Address, DefaultLimits.Address)
	def(&d.Config.Limits.SignIn, DefaultLimits.SignIn)
	def(&d.Config.Limits.SignInAccount, DefaultLimits.SignInAccount)
	def(&d.Config.Limits.AuthAddress, DefaultLimits.AuthAddress)
	def(&d.Config.Limits.AuthNetwork, DefaultLimits.AuthNetwork)
	def(&d.Config.Limits.MailAddress, DefaultLimits.MailAddress)
	def(&d.Config.Limits.MailNetwork, DefaultLimits.MailNetwork)
	def(&d.Config.Limits.MailTotal, DefaultLimits.MailTotal)
	if d.Config.KeepAlive == 0 {
		d.Config.KeepAlive = 15 * time.Second
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Refused == nil {
		d.Refused = func(controldb.AuditEvent) {}
	}
	if d.Observe == nil {
		d.Observe = func(string, int, time.Duration) {}
	}
	s := &server{d: d, pageKey: d.Sealer.Derive("page tokens"),
		recent:    recent{now: d.Now},
		lookups:   newTurns("lookups", lookupsTotal, lookupsTotal+1, lookupsLine, lookupsPatience),
		answers:   newTurns("message_reads", answersTotal, answersEach, answersLine, answersPatience),
		reads:     newTurns("message_reads", readsTotal, readsEach, answersLine, answersPatience),
		tails:     newShare("tails", tailsTotal, tailsEach),
		tailBytes: newShare("tail_bytes", tailBytesTotal, tailBytesEach),
	}
	ops, err := readOperations()
	if err != nil {
		return nil, nil, fmt.Errorf("read the contract: %w", err)
	}
	s.ops = ops

	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.ContextWithFallback = true
	engine.HandleMethodNotAllowed = true
	engine.UseRawPath = true
	engine.UnescapePathValues = true
	engine.RedirectTrailingSlash = false
	engine.ForwardedByClientIP = false
	if err := engine.SetTrustedProxies(nil); err != nil {
		return nil, nil, err
	}
	engine.Use(s.begin)
	engine.NoRoute(s.noRoute)
	engine.NoMethod(s.noMethod)
	routes := engine.Group("/", s.admit)
	strict := NewStrictHandlerWithOptions(s, []StrictMiddlewareFunc{answerOutOfTurn}, StrictGinServerOptions{
		RequestErrorHandlerFunc:  func(c *gin.Context, err error) { s.fail(c, badBody(err)) },
		HandlerErrorFunc:         s.refuse,
		ResponseErrorHandlerFunc: s.unwritten,
	})
	RegisterHandlersWithOptions(routes, strict, GinServerOptions{ErrorHandler: func(c *gin.Context, err error, _ int) { s.fail(c, badBody(err)) }})
	return s, engine, nil
}

// outside serves what is no part of the API.
func (s *server) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mailbox" || r.URL.Path == "/mailbox.json" {
			s.mailbox(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
