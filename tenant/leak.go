package tenant

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// LeakReport is a secret that somebody found, to be looked up. Whether it is
// anybody's is not known while it is written.
type LeakReport struct {
	ID          ID
	Fingerprint []byte
	Address     string // of who reported it
	At          time.Time
}

const (
	maxLeakText    = 64 << 10
	leaksPerText   = 10
	leaksAtOnce    = 100
	prefixLeak     = "lkr_"
	leakLookAgain  = 5 * time.Second
	fingerprintsOf = 500
)

var (
	ownSecret    = regexp.MustCompile(PrefixSecret + fmt.Sprintf("[A-Za-z0-9]{%d}", secretRandom+secretSumSize))
	foreignToken = regexp.MustCompile(`[A-Za-z0-9_+/=.-]{32,128}`)
)

// leakedIn finds what could be secrets in a text: ours by form and checksum,
// and words that would do as secrets that somebody brings. All of it is done
// without asking anybody.
func leakedIn(text string) []string {
	var out []string
	seen := map[string]bool{}
	add := func(s string) {
		if !seen[s] && len(out) < leaksPerText {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, s := range ownSecret.FindAllString(text, -1) {
		if ValidSecret(s) {
			add(s)
		}
	}
	for _, s := range foreignToken.FindAllString(text, -1) {
		if !strings.Contains(s, PrefixSecret) && CheckSecret("", s) == nil {
			add(s)
		}
	}
	return out
}

// ReportLeak takes a text that holds a secret, such as a line of a public
// repository. A wrong checksum costs no look-up. The work and the answer are
// the same for secrets that exist and those that do not: a report is written,
// and whether it hits a key is found out later, by Leaks.
func (s *Service) ReportLeak(ctx context.Context, text, address string) error {
	if len(text) > maxLeakText {
		e := errs.Field("text", "the text has %d bytes; at most %d", len(text), maxLeakText)
		e.Limit = fmt.Sprint(maxLeakText)
		return e
	}
	found := leakedIn(text)
	if len(found) == 0 {
		return nil
	}
	return s.store.InTx(ctx, func(ctx context.Context) error {
		now := s.time()
		for _, secret := range found {
			r := LeakReport{ID: NewID(prefixLeak, now), Fingerprint: s.keyring.Fingerprint(secret), Address: address, At: now}
			if err := s.store.AddLeakReport(ctx, r); err != nil {
				return err
			}
		}
		s.store.AfterCommit(ctx, func() {
			select {
			case s.reports <- struct{}{}:
			default:
			}
		})
		return nil
	})
}

// RunLeaks looks reports up as they come, until ctx ends. It may run on any
// number of replicas.
func (s *Service) RunLeaks(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(leakLookAgain) // for those of other replicas
	defer tick.Stop()
	for {
		if err := s.Leaks(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-s.reports:
		}
	}
}

// Leaks looks up the reports that wait and revokes the keys that they hit.
func (s *Service) Leaks(ctx context.Context) error {
	for {
		list, err := s.store.LeakReports(ctx, leaksAtOnce)
		if err != nil {
			return fmt.Errorf("read leak reports: %w", err)
		}
		for _, r := range list {
			if err := s.lookUp(ctx, r); err != nil {
				return fmt.Errorf("look up leak report %s: %w", r.ID, err)
			}
		}
		if len(list) < leaksAtOnce {
			return nil
		}
	}
}

// lookUp takes the report and revokes its keys in one transaction: a process
// that dies before the commit leaves the report to the next.
func (s *Service) lookUp(ctx context.Context, r LeakReport) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		mine, err := s.store.TakeLeakReport(ctx, r.ID)
		if err != nil || !mine {
			return err
		}
		keys, err := s.store.KeysByFingerprint(ctx, r.Fingerprint)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if k.RevokedAt != nil || k.Status.Phase == PhaseDeleting {
				continue
			}
			now := s.time()
			k.RevokedAt, k.RevokedReason = &now, KeyLeaked
			if err := s.touchKey(ctx, k); err != nil {
				return err
			}
			if err := s.leaked(ctx, k, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// FillFingerprints gives keys from before there were fingerprints theirs.
// Doing it again, or on two replicas, changes nothing.
func (s *Service) FillFingerprints(ctx context.Context) error {
	after := ID("")
	for {
		keys, err := s.store.KeysWithoutFingerprint(ctx, after, fingerprintsOf)
		if err != nil {
			return fmt.Errorf("read keys without fingerprint: %w", err)
		}
		for _, k := range keys {
			after = k.ID
			secret, err := s.KeySecret(ctx, k)
			if err != nil {
				return err
			}
			if err := s.store.SetFingerprint(ctx, k.TenantID, k.ID, s.keyring.Fingerprint(secret)); err != nil {
				return err
			}
		}
		if len(keys) < fingerprintsOf {
			return nil
		}
	}
}
