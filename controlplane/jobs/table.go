package jobs

import (
	"context"
	"time"
)

// Purges is what Control asks of the rest.
type Purges struct {
	RotateKeys   func(ctx context.Context) error                    // auth.Service.RotateKeys
	Tokens       func(ctx context.Context) error                    // auth.Service.ForgetTokens
	Erase        func(ctx context.Context) error                    // auth.Service.EraseDue
	Reseal       func(ctx context.Context) error                    // what an older root key sealed
	Fingerprints func(ctx context.Context) error                    // tenant.Service.FillFingerprints
	Auth         func(ctx context.Context, before time.Time) error  // controldb.AuthStore.PurgeAuth
	Federation   func(ctx context.Context, before time.Time) error  // controldb.FederationStore.Purge
	Idempotency  func(ctx context.Context) error                    // controldb.Idempotency.Purge
	Outbox       func(ctx context.Context, age time.Duration) error // controldb.Outbox.Purge
	Now          func() time.Time
}

// How long things are kept after they are over.
const (
	keepOutbox = 24 * time.Hour
	keepAuth   = 24 * time.Hour
)

// Control is the table of the control plane without billing.
func Control(p Purges) []Job {
	return []Job{
		{Name: "rotate_signing_keys", Schedule: "@every 5m", AtStart: true, Run: p.RotateKeys},
		{Name: "forget_revoked_tokens", Schedule: "@every 1m", Run: p.Tokens},
		{Name: "erase_accounts", Schedule: "@every 1m", AtStart: true, Timeout: 10 * time.Minute, Run: p.Erase},
		{Name: "reseal", Schedule: "@every 1m", AtStart: true, Timeout: 10 * time.Minute, Run: p.Reseal},
		{Name: "fill_secret_fingerprints", Schedule: "@every 10m", AtStart: true, Timeout: 10 * time.Minute, Run: p.Fingerprints},
		{Name: "purge_idempotency_keys", Schedule: "@every 10m", Run: p.Idempotency},
		{Name: "purge_auth", Schedule: "@every 15m", Run: func(ctx context.Context) error { return p.Auth(ctx, p.Now().Add(-keepAuth)) }},
		{Name: "purge_federation", Schedule: "@every 15m", Run: func(ctx context.Context) error { return p.Federation(ctx, p.Now()) }},
		{Name: "purge_outbox", Schedule: "@every 30m", Run: func(ctx context.Context) error { return p.Outbox(ctx, keepOutbox) }},
	}
}
