package controlplane

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/tenant"
)

// openKeyring opens the master keys and, with them, the root keys of the
// database. Once that is done, what the first master did not wrap is wrapped
// by it: the log says which master keys are still needed.
func (s *Server) openKeyring(ctx context.Context) (*tenant.Keyring, error) {
	settings := s.cfg.MasterKeys
	if len(settings) == 0 {
		settings = []string{"file:" + s.cfg.MasterKeyFile}
	}
	var masters []tenant.KMS
	var ids []string
	for _, setting := range settings {
		m, err := tenant.OpenKMS(ctx, setting)
		if err != nil {
			return nil, err
		}
		masters, ids = append(masters, m), append(ids, m.KeyID())
	}
	store := controldb.NewRootKeys(s.db)
	ring, changed, err := tenant.OpenKeyring(ctx, store, masters, s.deps.Now)
	if err != nil {
		return nil, s.wrongKey(err)
	}
	list, err := store.RootKeys(ctx)
	if err != nil {
		return nil, err
	}
	if changed || len(masters) > 1 {
		s.deps.Logger.Info("master keys opened; those that are not needed may be taken away", "configured", strings.Join(ids, ", "), "needed", tenant.MasterKeys(list), "rewrapped", changed)
	}
	return ring, nil
}

func (s *Server) wrongKey(err error) error {
	return fmt.Errorf("the master key (%s) does not open what the database holds, such as the secrets of API keys: restore the one that belongs to it: %w",
		strings.Join(append([]string{s.cfg.MasterKeyFile}, s.cfg.MasterKeys...), ", "), err)
}

// resealer is the job that moves values to the newest root key.
func (s *Server) resealer(ring *tenant.Keyring) func(ctx context.Context) error {
	left := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_reseal_left", Help: "Values that an older root key sealed and the newest has yet to."})
	registry(s.deps.Metrics).MustRegister(left)
	store := controldb.NewRootKeys(s.db)
	return func(ctx context.Context) error {
		done, n, err := store.Reseal(ctx, ring)
		if err != nil {
			return err
		}
		left.Set(float64(n))
		if done > 0 {
			s.deps.Logger.Info("values were sealed by the newest root key", "done", done, "left", n)
		}
		return nil
	}
}
