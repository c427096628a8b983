package standalone

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin is the operators' listener. Health is for everybody who reaches it; the
// rest wants the token of <data>/operator.token.
type admin struct {
	ln     net.Listener
	server *http.Server
	mux    *http.ServeMux
	token  string
	ready  func(context.Context) map[string]error
}

// minTokenBytes keeps a token that lost its content from letting everybody in.
const minTokenBytes = 16

func newAdmin(c *Config, registry *prometheus.Registry, ready func(context.Context) map[string]error, log *slog.Logger) (*admin, error) {
	token, err := readOrCreate(filepath.Join(c.Data, "operator.token"), true, func() string { return hex.EncodeToString(randomBytes(32)) })
	if err != nil {
		return nil, fmt.Errorf("operator.token: %w", err)
	}
	if len(token) < minTokenBytes || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s: want at least %d printable characters: delete it to get a new one", filepath.Join(c.Data, "operator.token"), minTokenBytes)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a := &admin{token: token, ready: ready}
	if a.ln, err = net.Listen("tcp", c.Admin); err != nil {
		return nil, fmt.Errorf("admin %s: %w; is another Sluice running? Else choose another address with --admin", c.Admin, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", a.guarded(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	mux.Handle("/debug/pprof/", a.guarded(http.HandlerFunc(pprof.Index)))
	mux.Handle("/debug/pprof/profile", a.guarded(http.HandlerFunc(pprof.Profile)))
	mux.Handle("/debug/pprof/trace", a.guarded(http.HandlerFunc(pprof.Trace)))
	a.mux = mux
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	return a, nil
}

func (a *admin) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="operators"`)
			http.Error(w, "send the token of operator.token in the data folder as Authorization: Bearer", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (a *admin) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	states := a.ready(ctx)
	var b strings.Builder
	status := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if err := states[name]; err != nil {
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&b, "%s: %v\n", name, err)
		} else {
			fmt.Fprintf(&b, "%s: ok\n", name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, b.String())
}

func (a *admin) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- a.server.Serve(a.ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	err := a.server.Close()
	<-failed
	return err
}

func (a *admin) close() error {
	if err := a.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
