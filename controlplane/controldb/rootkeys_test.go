package controldb

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

// The master key changes while two control planes run: all that was sealed is
// sealed anew, once, and no secret is out of reach at any time.
func TestReseal_masterKeyChangesUnderTwoReplicas(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		one, err := tenant.NewLocalKey(bytes.Repeat([]byte{1}, 32))
		check(t, err)
		two, err := tenant.NewLocalKey(bytes.Repeat([]byte{2}, 32))
		check(t, err)
		store := NewRootKeys(f.db)
		now := func() time.Time { return f.now }
		open := func(masters ...tenant.KMS) *tenant.Keyring {
			t.Helper()
			f.now = f.now.Add(time.Second)
			k, _, err := tenant.OpenKeyring(ctx, store, masters, now)
			check(t, err)
			return k
		}
		running := open(one, two)
		service := func(k *tenant.Keyring) *tenant.Service {
			return tenant.New(tenant.Deps{Store: tenantdb.New(f.db, f.outbox), Keyring: k, Now: now})
		}
		const tenants = resealBatch + 7
		var keys []tenant.APIKey
		secrets := map[string]string{}
		s := service(running)
		for i := range tenants {
			org, err := s.Found(ctx, "T", tenant.NewID(tenant.PrefixUser, f.now))
			check(t, err)
			if i%50 != 0 {
				continue
			}
			account, err := s.CreateServiceAccount(ctx, org.ID, tenant.ServiceAccount{Name: "a"})
			check(t, err)
			k, secret, err := s.CreateKey(ctx, org.ID, tenant.KeyCreate{OwnerID: account.ID, Name: "k", ControlRole: tenant.RoleViewer})
			check(t, err)
			keys, secrets[k.ID] = append(keys, k), secret
		}
		authStore := NewAuthStore(f.db, f.outbox)
		check(t, f.db.InTx(ctx, func(ctx context.Context) error {
			factor := auth.Factor{ID: "mfa_1", UserID: "usr_1", Type: auth.FactorTOTP, Name: "phone", Sealed: running.Seal("second factor mfa_1", []byte("totp")), CreatedAt: f.now, UpdatedAt: f.now, Revision: 1}
			if err := authStore.AddFactor(ctx, factor); err != nil {
				return err
			}
			return authStore.PutSigningKey(ctx, auth.SigningKey{ID: "kid_1", State: auth.KeyCurrent, Public: []byte("p"), Sealed: running.Seal("signing key kid_1", []byte("seed"))})
		}))

		fresh := open(two, one)
		if done, left, err := store.Reseal(ctx, running); err != nil || done != 0 || left != 0 {
			t.Errorf("a replica that knows no newer root key: %d done, %d left, %v", done, left, err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for range 2 {
			wg.Go(func() {
				done, _, err := store.Reseal(ctx, fresh)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total += done
				mu.Unlock()
			})
		}
		wg.Wait()
		if total != tenants+2 {
			t.Errorf("%d values were sealed anew, want %d", total, tenants+2)
		}
		if _, left, err := store.Reseal(ctx, fresh); err != nil || left != 0 {
			t.Errorf("%d left, %v", left, err)
		}
		list, err := store.RootKeys(ctx)
		check(t, err)
		if got := tenant.MasterKeys(list); got != two.KeyID() {
			t.Errorf("master keys needed: %s", got)
		}
		alone := open(two) // the old one was taken away
		for _, ring := range []*tenant.Keyring{running, fresh, alone} {
			for _, k := range keys {
				if secret, err := service(ring).KeySecret(ctx, k); err != nil || secret != secrets[k.ID] {
					t.Fatalf("secret of %s: %v", k.ID, err)
				}
			}
		}
		signing, err := authStore.SigningKeys(sqldb.AcrossTenants(ctx))
		check(t, err)
		if plain, err := alone.Open("signing key kid_1", signing[0].Sealed); err != nil || string(plain) != "seed" || !bytes.HasPrefix(signing[0].Sealed, alone.Newest()) {
			t.Errorf("signing key: %q, %v", plain, err)
		}
		factor, err := authStore.Factor(sqldb.AcrossTenants(ctx), "usr_1", "mfa_1")
		check(t, err)
		if plain, err := alone.Open("second factor mfa_1", factor.Sealed); err != nil || string(plain) != "totp" || !bytes.HasPrefix(factor.Sealed, alone.Newest()) {
			t.Errorf("second factor: %q, %v", plain, err)
		}
	})
}

// Every column of bytes in the schema is told: what root keys seal is sealed
// anew by Reseal, or it is said why not. A migration that adds one fails here
// until somebody decides.
func TestReseal_knowsEveryColumnOfBytes(t *testing.T) {
	const (
		byRoot   = "sealed by a root key"
		byTenant = "sealed by the tenant's data key, which Reseal moves"
		brief    = "sealed by a root key, deleted within a day"
		open     = "a digest, a public key, or sealed in no way"
	)
	kinds := map[string]string{
		"tenants.data_key": byRoot, "signing_keys.sealed": byRoot, "mfa_factors.sealed": byRoot,
		"api_keys.sealed": byTenant, "identity_providers.sealed": byTenant,
		"idempotency_keys.answer": brief, "sign_in_attempts.sealed": brief,
		"mail_codes.code_hash": open, "refresh_tokens.token_hash": open, "signing_keys.public_key": open, "recovery_codes.code_hash": open, "mfa_factors.credential_hash": open,
		"mfa_challenges.token_hash": open, "mfa_challenges.data": open, "invitations.token_hash": open, "api_keys.secret_fingerprint": open,
		"leak_reports.fingerprint": open, "root_keys.wrapped": open, "sign_in_attempts.state_hash": open, "seen_tokens.digest": open,
	}
	each(t, func(t *testing.T, f *fixture) {
		query := "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns WHERE table_schema = DATABASE() AND data_type REGEXP 'blob|binary'"
		if f.db.Driver() == sqldb.SQLite {
			query = "SELECT m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'BLOB'"
		}
		var columns []string
		check(t, f.db.Conn(sqldb.AcrossTenants(t.Context())).Raw(query).Scan(&columns).Error)
		found := map[string]bool{}
		for _, c := range columns {
			found[c] = true
			if kinds[c] == "" {
				t.Errorf("nobody says what is in %s: when a root key seals it, it belongs in sealedColumns", c)
			}
		}
		resealed := map[string]bool{}
		for _, c := range sealedColumns {
			resealed[c.table+"."+c.column] = true
		}
		for c, kind := range kinds {
			if !found[c] {
				t.Errorf("there is no column %s", c)
			}
			if (kind == byRoot) != resealed[c] {
				t.Errorf("%s is %s; sealed anew: %v", c, kind, resealed[c])
			}
		}
	})
}
