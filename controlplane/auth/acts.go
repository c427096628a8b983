package auth

import (
	"context"

	"github.com/sluicemq/sluice/tenant"
)

// Caller says where a call comes from, for the audit log.
type Caller struct {
	Operation string // operationId
	Address   string
	RequestID string
}

type callerKey struct{}

// WithCaller marks a context with where its call comes from.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns what WithCaller set; zero for what nobody called.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Act is something that a person did before the API knew who they are, such as a
// sign-in: for the audit logs of the tenants that they belong to. The operation is
// that of the caller.
type Act struct {
	UserID     tenant.ID
	KeyID      tenant.ID // of the token that was used, if it was one of a key
	TenantID   tenant.ID // the only one that it concerns; empty: all that they belong to
	TargetType string
	TargetID   tenant.ID
	Refused    string // why not; empty: it was done
}

// acted keeps an act in the transaction of ctx.
func (s *Service) acted(ctx context.Context, a Act) error { return s.d.Acted(ctx, a) }
