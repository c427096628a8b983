package tenant

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Security is what a tenant demands of its people and keys beyond what
// everybody must do.
type Security struct {
	MFARequired bool          // people sign in with a second factor
	SSORequired bool          // people sign in through the tenant's identity provider only
	MaxKeyAge   time.Duration // an API key ends this long after it was made; 0: no limit
}

// The bounds of Security.MaxKeyAge.
const (
	MinMaxKeyAge = time.Hour
	MaxMaxKeyAge = 10 * 365 * 24 * time.Hour
)

// SecurityUpdate is what to change of a Security; nil means as it is.
type SecurityUpdate struct {
	MFARequired *bool
	SSORequired *bool
	MaxKeyAge   *time.Duration // points to 0: no limit
}

func (s *Security) apply(u SecurityUpdate) error {
	if age := u.MaxKeyAge; age != nil && *age != 0 && (*age < MinMaxKeyAge || *age > MaxMaxKeyAge) {
		e := errs.Field("security.max_key_age", "max_key_age must be %s to %s, or null for no limit", hours(MinMaxKeyAge), hours(MaxMaxKeyAge))
		e.Limit = hours(MinMaxKeyAge) + " to " + hours(MaxMaxKeyAge)
		return e
	}
	set(&s.MFARequired, u.MFARequired)
	set(&s.SSORequired, u.SSORequired)
	set(&s.MaxKeyAge, u.MaxKeyAge)
	return nil
}

// hours writes a length of time, in whole hours if it has no rest.
func hours(d time.Duration) string {
	if d%time.Hour != 0 {
		return d.String()
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}

// keysAged tells brokers of all keys of a tenant, for they end at another time.
func (s *Service) keysAged(ctx context.Context, tenantID ID) error {
	page := Page{Size: 1000}
	for {
		keys, err := s.store.Keys(ctx, tenantID, KeyFilter{}, page)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := s.changed(ctx, keyChange(k)); err != nil {
				return err
			}
			page.After = k.ID
		}
		if len(keys) < page.Size {
			return nil
		}
	}
}
