// Package standalone runs the roles of the binary: all of them in one process
// on embedded defaults, or one by one. It owns configuration, key files,
// listeners, TLS, the admin listener, and the order of start and stop.
package standalone

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/controlplane"
	"github.com/sluicemq/sluice/dataplane/node"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// Addresses are where a process serves; they are what the ready file holds.
type Addresses struct {
	HTTP    string `json:"http,omitempty"`
	Admin   string `json:"admin,omitempty"`
	NameSrv string `json:"namesrv,omitempty"`
	Broker  string `json:"broker,omitempty"`
	GRPC    string `json:"grpc,omitempty"`
	PID     int    `json:"pid"`
}

// Deps are what the process is given from outside.
type Deps struct {
	Console fs.FS // may be nil
	Now     func() time.Time
	Logger  *slog.Logger
}

// Server is a process with one role or all of them.
type Server struct {
	cfg   *Config
	deps  Deps
	lock  *dataLock
	tls   *tls.Config
	keys  *keys
	redis *miniredis.Miniredis

	registry  *prometheus.Registry
	nameSrv   *node.NameServer
	broker    *node.Broker
	control   *controlplane.Server
	http      *http.Server
	httpLn    net.Listener
	admin     *admin
	addresses Addresses
	ran       bool
}

// Role is what a process does.
type Role string

// The roles.
const (
	RoleAll          Role = "standalone"
	RoleControlPlane Role = "controlplane"
	RoleNameServer   Role = "nameserver"
	RoleBroker       Role = "broker"
)

func (r Role) has(part Role) bool { return r == part || r == RoleAll }

// New opens everything that the role needs: data folder, keys, listeners,
// stores. Nothing is served yet. On an error all is closed again; a folder or
// port in use is named with the setting that chose it.
func New(ctx context.Context, role Role, cfg *Config, deps Deps) (_ *Server, err error) {
	if err := cfg.Finish(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, registry: prometheus.NewRegistry(), addresses: Addresses{PID: os.Getpid()}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.lock, err = lockData(cfg.Data); err != nil {
		return nil, err
	}
	if s.keys, err = openKeys(cfg, role.has(RoleControlPlane), role.has(RoleControlPlane)); err != nil {
		return nil, err
	}
	if s.tls, err = tlsConfig(cfg, deps.Now()); err != nil {
		return nil, err
	}
	if s.admin, err = newAdmin(cfg, s.registry, s.ready, deps.Logger); err != nil {
		return nil, err
	}
	s.addresses.Admin = s.admin.ln.Addr().String()
	if role.has(RoleNameServer) {
		if err := s.openNameServer(); err != nil {
			return nil, err
		}
	}
	if role.has(RoleBroker) {
		if err := s.openBroker(); err != nil {
			return nil, err
		}
	}
	if role.has(RoleControlPlane) {
		if err := s.openControlPlane(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) listen(path, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; is another Sluice running? Else choose another address with --%s", path, addr, err, path)
	}
	return ln, nil
}

func (s *Server) common(dir string) node.Common {
	return node.Common{
		Dir: filepath.Join(s.cfg.Data, dir), Cluster: s.cfg.ClusterName, Secret: s.keys.secret, Trusted: []ed25519.PublicKey{s.keys.public},
		TLSMode: s.cfg.TLSMode, TLS: s.tls, Now: s.deps.Now, Logger: s.deps.Logger, Metrics: s.registry,
	}
}

func (s *Server) openNameServer() error {
	ln, err := s.listen("namesrv", s.cfg.NameSrv)
	if err != nil {
		return err
	}
	if s.nameSrv, err = node.NewNameServer(s.common("namesrv"), ln); err != nil {
		return err
	}
	s.addresses.NameSrv = s.nameSrv.Addr().String()
	return nil
}

func (s *Server) openBroker() error {
	ln, err := s.listen("broker", s.cfg.Broker)
	if err != nil {
		return err
	}
	grpc, err := s.listen("grpc", s.cfg.GRPC)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	nameServers := list(s.cfg.NameServers)
	if s.nameSrv != nil {
		nameServers = []string{s.addresses.NameSrv}
	}
	if len(nameServers) == 0 {
		return errors.Join(errors.New("cluster.name_servers: a broker needs at least one"), ln.Close(), grpc.Close())
	}
	st, err := s.cfg.store()
	if err != nil {
		return errors.Join(err, ln.Close(), grpc.Close())
	}
	cfg := node.BrokerConfig{Name: s.cfg.BrokerName, Advertise: s.cfg.Advertise, NameServers: nameServers, Store: st, MaxInFlight: int(s.cfg.PopMaxInFlight)}
	cfg.Transactions = transaction.DefaultConfig()
	cfg.Transactions.First, cfg.Transactions.Period = s.cfg.TransactionFirstCheck, s.cfg.TransactionCheckInterval
	cfg.Transactions.Checks, cfg.Transactions.MaxAge = int(s.cfg.TransactionCheckMax), s.cfg.Retention
	if s.cfg.Advertise != "" {
		_, port, err := net.SplitHostPort(grpc.Addr().String())
		if err != nil {
			return errors.Join(err, ln.Close(), grpc.Close())
		}
		cfg.AdvertiseGRPC = []string{net.JoinHostPort(s.cfg.Advertise, port)}
	}
	if s.broker, err = node.NewBroker(s.common("broker"), cfg, ln, grpc); err != nil {
		return err
	}
	s.addresses.Broker, s.addresses.GRPC = s.broker.Addr().String(), s.broker.GRPCAddr().String()
	return nil
}

func (s *Server) openControlPlane(ctx context.Context) error {
	var err error
	if s.httpLn, err = s.listen("http", s.cfg.HTTP); err != nil {
		return err
	}
	s.addresses.HTTP = s.httpLn.Addr().String()
	redis := s.cfg.Redis
	if redis == "embedded" {
		if s.redis, err = miniredis.Run(); err != nil {
			return fmt.Errorf("start the embedded Redis: %w", err)
		}
		// Other users of this machine reach the port too, and it says which
		// sessions live.
		password := hex.EncodeToString(randomBytes(32))
		s.redis.RequireAuth(password)
		redis = "redis://:" + password + "@" + s.redis.Addr()
	}
	cluster := controlplane.Cluster{
		Name: s.cfg.ClusterName, Secret: s.keys.secret, PolicyKey: s.keys.signing, NameServers: list(s.cfg.NameServers), Brokers: list(s.cfg.Brokers),
		Remoting: s.cfg.RemotingEndpoint, GRPC: s.cfg.GRPCEndpoint,
	}
	if s.nameSrv != nil {
		cluster.NameServers, cluster.Brokers = []string{s.addresses.NameSrv}, []string{s.addresses.Broker}
	}
	if cluster.Remoting == "" && len(cluster.NameServers) > 0 {
		cluster.Remoting = s.told(cluster.NameServers[0])
	}
	if cluster.GRPC == "" && s.broker != nil {
		cluster.GRPC = s.told(s.addresses.GRPC)
	}
	networks, loopback, err := s.cfg.ssoNetworks()
	if err != nil {
		return err
	}
	s.control, err = controlplane.New(ctx, controlplane.Config{
		DB: s.cfg.DB, Redis: redis, RedisOwn: s.redis != nil, Mail: s.cfg.Mail, MailFrom: s.cfg.MailFrom, MailURL: s.mailURL(), PublicURL: s.cfg.PublicURL, MailsPerHour: s.cfg.MailsPerHour,
		MasterKeyFile: filepath.Join(s.cfg.Data, "master.key"), MasterKeys: s.cfg.masterKeys(), TokenAlgorithms: list(s.cfg.TokenAlgorithms), Cluster: cluster, CollectInterval: s.cfg.CollectInterval,
		SSONetworks: networks, SSOLoopback: loopback,
	}, controlplane.Deps{Console: s.deps.Console, Now: s.deps.Now, Logger: s.deps.Logger, Metrics: s.registry})
	if err != nil {
		return err
	}
	s.http = s.httpServer(s.control.Handler())
	s.admin.mux.Handle("/operator/", s.admin.guarded(s.control.Operator()))
	return nil
}

// httpServer bounds how long a request may take to come and its answer to be
// taken; a tail, which lasts, sets its own deadlines.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
}

// mailURL is where links in mails lead: a mail has no request that could say.
func (s *Server) mailURL() string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL
	}
	return "http://" + s.told(s.addresses.HTTP)
}

// told is an address as users reach it.
func (s *Server) told(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if s.cfg.Advertise == "" || err != nil {
		return addr
	}
	return net.JoinHostPort(s.cfg.Advertise, port)
}

// Addresses are where the process serves.
func (s *Server) Addresses() Addresses { return s.addresses }

// Run serves until ctx ends, then stops from the outside in: HTTP, control
// plane, broker, name server. nil means that everything accepted was finished.
func (s *Server) Run(ctx context.Context) error {
	s.ran = true
	layers := []func(context.Context) error{s.admin.run}
	if s.redis != nil {
		layers = append(layers, s.runRedis)
	}
	if s.nameSrv != nil {
		layers = append(layers, s.nameSrv.Run)
	}
	if s.broker != nil {
		layers = append(layers, s.broker.Run)
	}
	if s.control != nil {
		layers = append(layers, s.control.Run, s.serveHTTP)
	}
	if s.cfg.ReadyFile != "" {
		layers = append(layers, s.announce)
	}
	err := runLayers(ctx, layers)
	return errors.Join(err, s.close())
}

// runLayers runs all layers until ctx ends or one of them fails; then it ends
// them in reverse order, each after the ones above it are gone.
func runLayers(ctx context.Context, layers []func(context.Context) error) error {
	var above errgroup.Group
	down, cancel := context.WithCancel(ctx)
	defer cancel()
	type layer struct {
		cancel context.CancelFunc
		done   chan error
	}
	running := make([]layer, len(layers))
	for i, run := range layers {
		layerCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		running[i] = layer{stop, make(chan error, 1)}
		above.Go(func() error {
			err := run(layerCtx)
			running[i].done <- err
			if err != nil {
				cancel()
			}
			return nil
		})
	}
	<-down.Done()
	var errs []error
	for i := len(running) - 1; i >= 0; i-- {
		running[i].cancel()
		errs = append(errs, <-running[i].done)
	}
	return errors.Join(append(errs, above.Wait())...)
}

func (s *Server) serveHTTP(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.http.Serve(withTLS(s.httpLn, s.cfg.TLSMode, s.tls)); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := s.http.Shutdown(grace); err != nil { // open tails do not end by themselves
			return s.http.Close()
		}
		return nil
	})
	return g.Wait()
}

// runRedis moves the embedded Redis's clock, which does not move by itself.
func (s *Server) runRedis(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.redis.FastForward(time.Second)
		}
	}
}

// ready reports what is not ready, by name.
func (s *Server) ready(ctx context.Context) map[string]error {
	out := map[string]error{}
	if s.control != nil {
		out = s.control.Ready(ctx)
	}
	if s.broker != nil {
		out["broker"] = nil
		if s.broker.PolicyRevision() == 0 {
			out["broker"] = errors.New("no policy yet")
		}
	}
	if s.nameSrv != nil {
		out["namesrv"] = s.nameSrv.Ready()
	}
	return out
}

// announce writes the ready file once everything serves.
func (s *Server) announce(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		pending := false
		for _, err := range s.ready(ctx) {
			pending = pending || err != nil
		}
		if !pending {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	raw, err := json.Marshal(s.addresses)
	if err != nil {
		return err
	}
	tmp := s.cfg.ReadyFile + ".new"
	if err := errors.Join(os.WriteFile(tmp, append(raw, '\n'), 0o644), os.Rename(tmp, s.cfg.ReadyFile)); err != nil {
		return fmt.Errorf("ready_file: %w", err)
	}
	return nil
}

func (s *Server) close() error {
	var errs []error
	if s.control != nil {
		errs = append(errs, s.control.Close())
	}
	if s.httpLn != nil {
		if err := s.httpLn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.broker != nil && !s.ran {
		errs = append(errs, s.broker.Close())
	}
	if s.nameSrv != nil && !s.ran {
		errs = append(errs, s.nameSrv.Close())
	}
	if s.redis != nil {
		s.redis.Close()
	}
	if s.admin != nil {
		errs = append(errs, s.admin.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}
