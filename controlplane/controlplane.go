// Package controlplane puts the control plane together: database, cache,
// services, HTTP handler, fleet, collection of usage, jobs. It decides nothing
// itself.
//
// New opens and checks everything, Run does the background work until its
// context ends, Close gives everything back. The handler may serve between New
// and Close.
package controlplane

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/billing/billingdb"
	"github.com/sluicemq/sluice/billing/collect"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/controlplane/denials"
	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/controlplane/fleet"
	"github.com/sluicemq/sluice/controlplane/httpapi"
	"github.com/sluicemq/sluice/controlplane/jobs"
	"github.com/sluicemq/sluice/controlplane/mail"
	"github.com/sluicemq/sluice/controlplane/messages"
	"github.com/sluicemq/sluice/controlplane/oidc"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/migrations"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

// Config of a control plane with one cluster.
type Config struct {
	DB            string // as sqldb.Open reads it
	Redis         string // redis:// or rediss://
	RedisOwn      bool   // it serves this process alone
	Mail          string // as mail.Config.Target
	MailFrom      string
	MailURL       string // of the console, for links in mails
	MailsPerHour  int64  // that strangers can cause in all; 0: the default of httpapi
	PublicURL     string // of the console and API; empty: as each request says
	MasterKeyFile string // opens everything that is sealed at rest; made when absent
	// MasterKeys, as tenant.OpenKMS reads them, take the place of MasterKeyFile.
	// The first is in force; the rest are still, or not yet.
	MasterKeys  []string
	SSONetworks []netip.Prefix // private networks that identity providers may lie in
	SSOLoopback bool           // and this machine, by http, too
	// TokenAlgorithms are those that signing keys are kept for, EdDSA and RS256;
	// the first signs. None: EdDSA.
	TokenAlgorithms []string
	Cluster         Cluster
	CollectInterval time.Duration
}

// Cluster is the data plane that this control plane drives.
type Cluster struct {
	Name        string
	Secret      []byte             // of the system principal
	PolicyKey   ed25519.PrivateKey // signs policy
	NameServers []string           // host:port that we call
	Brokers     []string
	Remoting    string // endpoints that users are told
	GRPC        string
}

// Deps are what the process shares.
type Deps struct {
	Console fs.FS // may be nil
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Validate reports everything that is missing, joined, with the path of the
// setting.
func (c *Config) Validate() error {
	var errs []error
	for path, value := range map[string]string{
		"db": c.DB, "redis": c.Redis, "mail": c.Mail, "master_key_file": c.MasterKeyFile, "cluster.name": c.Cluster.Name,
		"cluster.remoting_endpoint": c.Cluster.Remoting, "cluster.grpc_endpoint": c.Cluster.GRPC,
	} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s: missing", path))
		}
	}
	for _, a := range c.TokenAlgorithms {
		if a != auth.AlgorithmEdDSA && a != auth.AlgorithmRS256 {
			errs = append(errs, fmt.Errorf("token_algorithms: %q is none of %s, %s", a, auth.AlgorithmEdDSA, auth.AlgorithmRS256))
		}
	}
	if len(c.Cluster.Secret) == 0 || len(c.Cluster.PolicyKey) == 0 {
		errs = append(errs, errors.New("cluster: secret and policy key are needed"))
	}
	if len(c.Cluster.NameServers) == 0 || len(c.Cluster.Brokers) == 0 {
		errs = append(errs, errors.New("cluster.name_servers, cluster.brokers: at least one of each is needed"))
	}
	return errors.Join(errs...)
}

// Server is a control plane.
type Server struct {
	cfg       Config
	deps      Deps
	db        *sqldb.DB
	cache     *cache.Cache
	mailer    *mail.Mailer
	client    *mqclient.Client
	fleet     *fleet.Fleet
	bell      *bell
	collector *collect.Collector
	denials   *denials.Collector
	recorder  *denials.Recorder
	jobs      *jobs.Table
	usage     *billingdb.Store
	catalog   *catalog.Service
	tenants   *tenant.Service
	handler   http.Handler
	operator  http.Handler
}

// New opens the database, brings its schema up to date and wires everything. On
// an error what was opened is closed again.
func New(ctx context.Context, cfg Config, deps Deps) (_ *Server, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := cfg.databaseLost(); err != nil {
		return nil, err
	}
	if err := s.openStorage(ctx); err != nil {
		return nil, err
	}
	// After the database: a folder with a master key has had one.
	keyring, err := s.openKeyring(ctx)
	if err != nil {
		return nil, err
	}
	if s.client, err = mqclient.New(mqclient.Config{Secret: cfg.Cluster.Secret}); err != nil {
		return nil, err
	}
	if s.mailer, err = mail.New(mail.Config{Target: cfg.Mail, From: cfg.MailFrom, BaseURL: cfg.MailURL}, deps.Now, deps.Logger); err != nil {
		return nil, err
	}
	return s, s.wire(ctx, keyring)
}

// databaseLost keeps a control plane from beginning anew, and from forgetting
// all tenants, where it ran before and its database file is gone.
func (c *Config) databaseLost() error {
	path, ok := strings.CutPrefix(c.DB, "sqlite:")
	if _, err := os.Stat(c.MasterKeyFile); !ok || err != nil {
		return nil
	}
	for _, file := range []string{path, path + "-wal"} {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return nil
		}
	}
	return fmt.Errorf("db %s is missing or empty, but %s shows that a control plane ran here: restore the database, or move the key away to begin anew without tenants", path, c.MasterKeyFile)
}

func (s *Server) openStorage(ctx context.Context) error {
	var err error
	if s.db, err = sqldb.Open(ctx, s.cfg.DB, s.deps.Logger); err != nil {
		return err
	}
	if err := Migrate(ctx, s.db); err != nil {
		return err
	}
	s.cache, err = cache.Open(cache.Config{URL: s.cfg.Redis, Own: s.cfg.RedisOwn}, s.deps.Now, s.deps.Logger)
	return err
}

// Migrate brings a database's schema to this version.
func Migrate(ctx context.Context, db *sqldb.DB) error {
	files, err := migrations.For(string(db.Driver()))
	if err != nil {
		return err
	}
	return db.Migrate(ctx, files)
}

// wire makes the services; nothing here does I/O but registering the cluster.
func (s *Server) wire(ctx context.Context, keyring *tenant.Keyring) error {
	now, log := s.deps.Now, s.deps.Logger
	outbox := controldb.NewOutbox(s.db, now)
	tenantStore := tenantdb.New(s.db, outbox)
	authStore := controldb.NewAuthStore(s.db, outbox)
	s.usage = billingdb.New(s.db, now)
	completeMetric(s.deps.Metrics, s.usage.CompleteThrough)

	var authService *auth.Service
	desired := controldb.NewSource(s.db, tenantStore, keyring, func(ctx context.Context) ([]byte, error) { return authService.JWKS(ctx) })
	desired.Now = now
	source := &remembering{Source: desired, usage: s.usage}
	s.fleet = fleet.New(fleet.Config{
		Cluster: s.cfg.Cluster.Name, Issuer: issuer, SigningKey: s.cfg.Cluster.PolicyKey, Logger: log, Observe: fleetMetrics(s.deps.Metrics),
	}, source, s.nameServers(), s.brokers())
	s.bell = newBell(s.fleet, s.cache)

	audit := controldb.NewAudit(s.db)
	s.recorder = denials.NewRecorder(audit, now, log)
	s.tenants = tenant.New(tenant.Deps{Store: tenantStore, Keyring: keyring, Now: now, Wake: s.bell.Wake,
		Leaked: func(ctx context.Context, k tenant.APIKey, r tenant.LeakReport) error {
			return errors.Join(authService.WarnOfLeak(ctx, k), audit.Append(ctx, controldb.LeakEvent(k, r, now())))
		}})
	tenants := s.tenants
	s.catalog = catalog.New(controldb.New(s.db, tenantStore), s.bell, now)
	authService = auth.New(auth.Config{Issuer: issuer, Algorithms: s.cfg.TokenAlgorithms}, auth.Deps{
		Store: authStore, Tenants: tenants, Founder: &catalog.Founder{Tenants: tenants, Catalog: s.catalog}, Closer: &catalog.Closer{Tenants: tenants, Catalog: s.catalog}, Mailer: s.mailer, Revocations: s.cache,
		Keyring: keyring, Now: now, Logger: log, Wake: func() { s.bell.Wake("") }, Hashed: hashMetric(s.deps.Metrics),
		Audited: func(ctx context.Context, tenantID, userID tenant.ID, action string) error {
			return audit.Append(ctx, controldb.AccountEvent(auth.CallerOf(ctx), tenantID, userID, action, now().UTC()))
		},
		Acted: func(ctx context.Context, a auth.Act) error {
			return audit.Note(ctx, controldb.ActEvent(auth.CallerOf(ctx), a, now().UTC()))
		},
	})
	federated := controldb.NewFederationStore(s.db)
	federationService := federation.New(federation.Deps{
		Store: federated, Auth: authService, Tenants: tenants, OIDC: oidc.New(oidc.Config{Networks: s.cfg.SSONetworks, Loopback: s.cfg.SSOLoopback, Now: now, Logger: log}),
		Resolver: net.DefaultResolver, Sealer: keyring, Now: now, Logger: log,
	})
	idempotency := controldb.NewIdempotency(s.db, now)

	var err error
	s.handler, err = httpapi.New(httpapi.Deps{
		Config: httpapi.Config{PublicURL: s.cfg.PublicURL, Limits: httpapi.Limits{MailTotal: httpapi.MailsPerHour(s.cfg.MailsPerHour)}}, Auth: authService, Tenants: tenants, Federation: federationService, Catalog: s.catalog, Judges: fleet.Judge,
		Messages: messages.New(s.masters(), now),
		Billing:  &usage{billing: billing.NewService(s.usage, now), tenants: tenants, now: now},
		Tx:       s.db, Idempotency: idempotency, Audit: audit, Limiter: s.cache, Sealer: keyring, Refused: s.recorder.Refused, Mailbox: s.mailer,
		Console: s.deps.Console, Observe: httpMetrics(s.deps.Metrics), Now: now, Logger: log,
	})
	if err != nil {
		return err
	}
	s.operator = httpapi.NewOperator(httpapi.OperatorDeps{Tenants: tenants, Tx: s.db, Audit: audit, Now: now, Logger: log})
	s.collector = collect.New(collect.Config{Secret: s.cfg.Cluster.Secret, Interval: s.cfg.CollectInterval, Now: now, Logger: log, KeyUsed: func(ctx context.Context, u collect.KeyUse) error {
		return tenantStore.TouchKey(ctx, u.TenantID, u.KeyID, tenant.KeyUse{At: time.UnixMilli(u.At), Address: u.Address, Operation: u.Operation, Topic: u.Topic})
	}}, s.reporters(), s.usage, s.usage)
	s.denials = denials.New(denials.Config{Secret: s.cfg.Cluster.Secret, Interval: min(s.cfg.CollectInterval, denialsEvery), Now: now, Logger: log}, s.deniers(), audit)
	s.jobs, err = jobs.New(jobs.Control(jobs.Purges{
		RotateKeys: authService.RotateKeys, Tokens: authService.ForgetTokens, Erase: authService.EraseDue, Reseal: s.resealer(keyring), Fingerprints: tenants.FillFingerprints, Auth: authStore.PurgeAuth, Idempotency: idempotency.Purge, Outbox: outbox.Purge, Federation: federated.Purge, Now: now,
	}), log, jobMetrics(s.deps.Metrics))
	if err != nil {
		return err
	}
	if err := authService.CheckKeys(ctx); err != nil {
		return s.wrongKey(err)
	}
	if err := authService.RotateKeys(ctx); err != nil { // there must be a key before the first sign-in
		return err
	}
	return s.catalog.PutCluster(ctx, catalog.Cluster{
		ID: "cl_" + s.cfg.Cluster.Name, Name: s.cfg.Cluster.Name, RemotingEndpoint: s.cfg.Cluster.Remoting, GRPCEndpoint: s.cfg.Cluster.GRPC,
	})
}

// issuer is the "iss" of every token that this control plane signs.
const issuer = "sluice"

func (s *Server) nameServers() []fleet.Node {
	var out []fleet.Node
	for _, addr := range s.cfg.Cluster.NameServers {
		out = append(out, fleet.Remote{Node: s.client.At(addr)})
	}
	return out
}

func (s *Server) brokers() []fleet.Broker {
	var out []fleet.Broker
	for _, addr := range s.cfg.Cluster.Brokers {
		out = append(out, fleet.Remote{Node: s.client.At(addr)})
	}
	return out
}

func (s *Server) masters() []mqclient.Node {
	var out []mqclient.Node
	for _, addr := range s.cfg.Cluster.Brokers {
		out = append(out, s.client.At(addr))
	}
	return out
}

func (s *Server) reporters() []collect.Broker {
	var out []collect.Broker
	for _, addr := range s.cfg.Cluster.Brokers {
		out = append(out, fleet.Remote{Node: s.client.At(addr)})
	}
	return out
}

// denialsEvery is how often refusals are collected at the latest.
const denialsEvery = 5 * time.Second

// deniers are all that refuse callers on the message path.
func (s *Server) deniers() []denials.Node {
	var out []denials.Node
	for _, addr := range slices.Concat(s.cfg.Cluster.NameServers, s.cfg.Cluster.Brokers) {
		out = append(out, fleet.Remote{Node: s.client.At(addr)})
	}
	return out
}

// Handler serves the API and the console.
func (s *Server) Handler() http.Handler { return s.handler }

// Operator serves what operators do, below /operator/; the caller guards it.
func (s *Server) Operator() http.Handler { return s.operator }

// Run does the background work until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.jobs.Run(ctx) })
	g.Go(func() error { return s.mailer.Run(ctx) })
	g.Go(func() error { return s.recorder.Run(ctx) })
	g.Go(func() error { return s.bell.run(ctx) })
	g.Go(func() error {
		return s.tenants.RunLeaks(ctx, func(err error) { s.deps.Logger.Error("leak reports not looked up; trying again", "err", err) })
	})
	g.Go(func() error { return s.lead(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Ready reports what does not answer, by the name of the dependency; a nil
// error is one that does.
func (s *Server) Ready(ctx context.Context) map[string]error {
	return map[string]error{"database": s.db.Ping(ctx), "redis": s.cache.Ping(ctx)}
}

// Close closes what New opened.
func (s *Server) Close() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.cache != nil {
		errs = append(errs, s.cache.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}
