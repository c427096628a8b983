package httpapi

import (
	"context"
	"net/netip"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
)

// within masks an address: what one household or one provider's customer has,
// rather than one of the addresses that they can pick from.
func within(addr netip.Addr, v4, v6 int) string {
	bits := v4
	if addr.Is6() {
		bits = v6
	}
	p, err := addr.Prefix(bits)
	if err != nil || !p.IsValid() {
		return "unknown"
	}
	return p.String()
}

// source is one address, or the /64 of IPv6 that stands for one.
func source(addr netip.Addr) string { return within(addr, 32, 64) }

// network is the neighbourhood of an address.
func network(addr netip.Addr) string { return within(addr, 24, 48) }

func (s *server) take(ctx context.Context, name, scope string, r cache.Rate) error {
	if d := s.d.Limiter.Take(ctx, name+":"+scope, r); !d.Allowed {
		return limited(name, scope, r, d)
	}
	return nil
}

// mayTry bounds what is tried without credentials: sign-ups, sign-ins, resets,
// codes. It counts before anything is looked up, so that known and unknown
// addresses meet the same limit. account is empty where none is named.
func (s *server) mayTry(ctx context.Context, c *call, kind, account string) error {
	l := &s.d.Config.Limits
	if err := s.take(ctx, "auth_address", source(c.addr), l.AuthAddress); err != nil {
		return err
	}
	if err := s.take(ctx, "auth_network", network(c.addr), l.AuthNetwork); err != nil {
		return err
	}
	if account == "" {
		return nil
	}
	account = auth.CleanEmail(account) // or each spelling had a limit of its own
	if err := s.take(ctx, kind, account+" from "+network(c.addr), l.SignIn); err != nil {
		return err
	}
	return s.take(ctx, kind+"_account", account, l.SignInAccount)
}

// mayCauseMail bounds the mails that strangers can make us send to addresses of
// their choice; how many one address gets is the business of package auth.
func (s *server) mayCauseMail(ctx context.Context, c *call) error {
	l := &s.d.Config.Limits
	if err := s.take(ctx, "mails_address", source(c.addr), l.MailAddress); err != nil {
		return err
	}
	if err := s.take(ctx, "mails_network", network(c.addr), l.MailNetwork); err != nil {
		return err
	}
	return s.take(ctx, "mails", "all", l.MailTotal)
}
