package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/errs"
)

// errDry rolls a dry run back.
var errDry = errors.New("dry run")

// write runs a write in a transaction with its audit event. A dry run does
// everything and keeps nothing. With an Idempotency-Key the outcome is kept
// in the same transaction, and a repeated request gets it without running do.
// do may run more than once; what it returns must encode as JSON.
func write[T any](ctx context.Context, s *server, c *call, dryRun *bool, do func(ctx context.Context) (T, error)) (T, error) {
	if err := s.d.Tenants.MayChange(ctx, c.tenantID()); err != nil {
		var none T
		return none, err
	}
	return writeOwn(ctx, s, c, dryRun, do)
}

// writeOwn is write for what belongs to the caller and to no tenant, such as a
// session or a password: that a tenant is suspended does not matter.
func writeOwn[T any](ctx context.Context, s *server, c *call, dryRun *bool, do func(ctx context.Context) (T, error)) (T, error) {
	var out T
	if isTrue(dryRun) {
		err := s.d.Tx.InTx(ctx, func(ctx context.Context) error {
			var err error
			if out, err = do(ctx); err != nil {
				return err
			}
			return errDry
		})
		if errors.Is(err, errDry) {
			err = nil
		}
		return out, err
	}
	key, hash, keyed := idempotencyOf(c)
	if keyed {
		replayed, err := claim(ctx, s, c, key, hash, &out)
		if replayed || err != nil {
			return out, err
		}
	}
	defer s.recent.forget() // before the answer is on its way
	err := s.d.Tx.InTx(ctx, func(ctx context.Context) error {
		before, err := s.fingerprintNow(ctx, c)
		if err != nil {
			return err
		}
		if out, err = do(ctx); err != nil {
			return err
		}
		event := s.event(c)
		event.BeforeHash = before
		if event.AfterHash, err = s.fingerprintAfter(ctx, c, before, out); err != nil {
			return err
		}
		if err := s.d.Audit.Append(ctx, event); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if !keyed {
			return nil
		}
		return finish(ctx, s, key, out)
	})
	if err != nil && keyed {
		s.free(ctx, c, key)
	}
	return out, err
}

// writeOutside is write for something that no transaction holds, such as a
// message: when the process dies between the act and its note, the outcome is
// unknown, and a repeated request gets 409 until the claim ends.
func writeOutside[T any](ctx context.Context, s *server, c *call, do func(ctx context.Context) (T, error)) (T, error) {
	var out T
	key, hash, keyed := idempotencyOf(c)
	if keyed {
		replayed, err := claim(ctx, s, c, key, hash, &out)
		if replayed || err != nil {
			return out, err
		}
	}
	out, err := do(ctx)
	if err != nil {
		if keyed {
			s.free(ctx, c, key)
		}
		return out, err
	}
	if keyed {
		if err := finish(context.WithoutCancel(ctx), s, key, out); err != nil {
			s.d.Logger.Error("answer not kept for its Idempotency-Key", "request_id", c.requestID, "err", err)
		}
	}
	return out, nil
}

// writeBrokers is writeOutside for what changes something at brokers, with an
// audit event. do is tried dry first: what cannot be done leaves no event. The
// event is kept before the act, so that nothing is done that no event tells of;
// one of an act that failed then is no lie, it may be half done.
func writeBrokers[T any](ctx context.Context, s *server, c *call, dryRun *bool, do func(ctx context.Context, dry bool) (T, error)) (T, error) {
	if err := s.d.Tenants.MayChange(ctx, c.tenantID()); err != nil {
		var none T
		return none, err
	}
	if isTrue(dryRun) {
		return do(ctx, true)
	}
	return writeOutside(ctx, s, c, func(ctx context.Context) (T, error) {
		var none T
		if _, err := do(ctx, true); err != nil {
			return none, err
		}
		print, err := s.fingerprintNow(ctx, c)
		if err != nil {
			return none, err
		}
		event := s.event(c)
		event.BeforeHash, event.AfterHash = print, print // what the catalogue holds stays
		if err := s.d.Audit.Append(ctx, event); err != nil {
			return none, fmt.Errorf("audit: %w", err)
		}
		return do(ctx, false)
	})
}

func idempotencyOf(c *call) (controldb.IdemKey, string, bool) {
	text := c.gin.GetHeader("Idempotency-Key")
	if text == "" || c.principal == nil {
		return controldb.IdemKey{}, "", false
	}
	h := sha256.New()
	for _, part := range []string{c.gin.Request.Method, c.gin.Request.URL.EscapedPath(), c.gin.GetHeader("If-Match")} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Write(c.body)
	return controldb.IdemKey{TenantID: c.principal.TenantID, Principal: c.principal.ActorID(), Key: text}, hex.EncodeToString(h.Sum(nil)), true
}

func sealPurpose(k controldb.IdemKey) string { return "answer to " + k.Principal + " " + k.Key }

func claim[T any](ctx context.Context, s *server, c *call, key controldb.IdemKey, hash string, out *T) (replayed bool, err error) {
	sealed, done, err := s.d.Idempotency.Claim(ctx, key, hash)
	if err != nil || !done {
		return false, err
	}
	text, err := s.d.Sealer.Open(sealPurpose(key), sealed)
	if err != nil {
		return false, fmt.Errorf("kept answer: %w", err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("kept answer: %w", err)
	}
	c.gin.Header("Idempotency-Replayed", "true")
	return true, nil
}

func finish(ctx context.Context, s *server, key controldb.IdemKey, out any) error {
	text, err := json.Marshal(out)
	if err != nil {
		return errs.E(errs.Internal, "encode answer: %w", err)
	}
	return s.d.Idempotency.Finish(ctx, key, s.d.Sealer.Seal(sealPurpose(key), text))
}

// free lets a request that failed be tried again with the same key.
func (s *server) free(ctx context.Context, c *call, key controldb.IdemKey) {
	if err := s.d.Idempotency.Drop(context.WithoutCancel(ctx), key); err != nil {
		s.d.Logger.Error("Idempotency-Key not freed", "request_id", c.requestID, "err", err)
	}
}
