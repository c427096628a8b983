// Package auth owns who the caller is and what they may do: passwords, mail
// codes, sessions with refresh tokens, access tokens and their keys, API keys
// as credentials, and the table of roles.
//
// It knows no database and no HTTP: Service holds the rules, Store keeps rows.
// Nothing tells a caller whether a mail address is known, by answer or by
// time. All of it may be used by any number of goroutines.
package auth

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// User is a person.
type User struct {
	ID           tenant.ID
	Email        string // lower case
	Name         string
	PasswordHash string
	Locale       string // en or zh
	LastSignInAt *time.Time
	EraseAt      *time.Time // the account closes, and is erased then
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Revision     int64
}

// Session is a sign-in on one device: a family of refresh tokens.
type Session struct {
	ID         tenant.ID
	UserID     tenant.ID
	TenantID   tenant.ID
	UserAgent  string
	Address    string
	CreatedAt  time.Time
	LastUsedAt time.Time
	// AuthenticatedAt is when the person last proved who they are.
	AuthenticatedAt time.Time
	ExpiresAt       time.Time
	RevokedAt       *time.Time
	RevokedReason   string
	Federated       Federated // zero: it began with a password
}

// RefreshToken is the stored half of a refresh token.
type RefreshToken struct {
	Hash      []byte
	SessionID tenant.ID
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time
}

// Code is a code sent by mail. Payload is what happens when it is entered.
type Code struct {
	ID        tenant.ID
	Email     string
	Purpose   string
	Hash      []byte
	Payload   string
	Tries     int
	CreatedAt time.Time
	ExpiresAt time.Time
}

// SigningKey is a key that signs access tokens.
type SigningKey struct {
	ID        string // kid
	State     KeyState
	Algorithm string // AlgorithmEdDSA or AlgorithmRS256; the key signs and proves by no other
	Public    []byte // Ed25519: 32 bytes; RSA: PKCS #1
	Sealed    []byte // the private key, sealed by the master key
	CreatedAt time.Time
	ChangedAt time.Time
}

// Store is what Service asks of a database; every method takes part in the
// transaction that its context carries. A missing row is NotFound.
type Store interface {
	InTx(ctx context.Context, fn func(ctx context.Context) error) error
	AfterCommit(ctx context.Context, f func())
	Record(ctx context.Context, c tenant.Change) error
	// LockChanges makes transactions of all replicas that call it take turns.
	LockChanges(ctx context.Context) error

	CreateUser(ctx context.Context, u User) error
	User(ctx context.Context, id tenant.ID) (User, error)
	UserByEmail(ctx context.Context, email string) (User, error)
	// UpdateUser writes u where the revision is u.Revision-1.
	UpdateUser(ctx context.Context, u User) error
	SignedIn(ctx context.Context, id tenant.ID, at time.Time) error
	TenantsOf(ctx context.Context, userID tenant.ID) ([]tenant.ID, error)

	AddCode(ctx context.Context, c Code) error
	// Codes lists codes of a purpose that were made after a time, expired
	// ones too, newest first. Tries at the same codes take turns.
	Codes(ctx context.Context, email, purpose string, since time.Time) ([]Code, error)
	CountTry(ctx context.Context, ids []tenant.ID) error
	// DeleteCode reports whether this call removed it: a code works once.
	DeleteCode(ctx context.Context, id tenant.ID) (bool, error)
	DeleteCodes(ctx context.Context, email, purpose string) error

	CreateSession(ctx context.Context, s Session) error
	Session(ctx context.Context, id tenant.ID) (Session, error)
	UseSession(ctx context.Context, id tenant.ID, at time.Time) error
	RevokeSession(ctx context.Context, id tenant.ID, reason string, at time.Time) error
	// Sessions lists the sessions of a user that live at a time, newest first;
	// after is the last id of the page before.
	Sessions(ctx context.Context, userID tenant.ID, at time.Time, p tenant.Page) ([]Session, error)
	SessionAuthenticated(ctx context.Context, id tenant.ID, at time.Time) error
	// RevokeFederated ends the live sessions of these providers, narrowed to a
	// subject and a session of the provider unless they are empty, and returns their ids.
	RevokeFederated(ctx context.Context, providerIDs []tenant.ID, subject, sessionID, reason string, at time.Time) ([]tenant.ID, error)
	// RevokeFederatedOf ends the live sessions of a user in one tenant that are of
	// a provider, and returns their ids.
	RevokeFederatedOf(ctx context.Context, tenantID, userID tenant.ID, reason string, at time.Time) ([]tenant.ID, error)
	// RevokePasswordSessions ends the live sessions in a tenant that are of no
	// provider and of nobody with the role but, and returns their ids.
	RevokePasswordSessions(ctx context.Context, tenantID tenant.ID, but tenant.Role, reason string, at time.Time) ([]tenant.ID, error)
	// RevokeSessionsOf ends the live sessions of a user but one, which may be
	// empty, and returns their ids.
	RevokeSessionsOf(ctx context.Context, userID, but tenant.ID, reason string, at time.Time) ([]tenant.ID, error)
	// RevokeSessionsIn ends the live sessions of a user in one tenant and
	// returns their ids.
	RevokeSessionsIn(ctx context.Context, tenantID, userID tenant.ID, reason string, at time.Time) ([]tenant.ID, error)

	AddRefresh(ctx context.Context, t RefreshToken) error
	Refresh(ctx context.Context, hash []byte) (RefreshToken, error)
	// UseRefresh marks a token as used and reports whether this call did it.
	UseRefresh(ctx context.Context, hash []byte, at time.Time) (bool, error)

	FactorStore
	ClosingStore
	// Memberships lists the tenants of a user, oldest membership first.
	Memberships(ctx context.Context, userID tenant.ID) ([]Membership, error)

	SigningKeys(ctx context.Context) ([]SigningKey, error)
	PutSigningKey(ctx context.Context, k SigningKey) error
	DeleteSigningKey(ctx context.Context, id string) error

	// RevokeToken notes a token until it would have expired; doing it again
	// changes nothing.
	RevokeToken(ctx context.Context, id string, now, expires time.Time) error
	TokenRevoked(ctx context.Context, id string) (bool, error)
	// RevokedTokens lists those that have not expired, with their expiry.
	RevokedTokens(ctx context.Context, now time.Time) (map[string]time.Time, error)
	// ForgetTokens drops those that expired before a time and reports whether
	// there were any.
	ForgetTokens(ctx context.Context, before time.Time) (bool, error)
}

// Tenants is what Service asks of package tenant.
type Tenants interface {
	Tenant(ctx context.Context, tenantID tenant.ID) (tenant.Tenant, error)
	Member(ctx context.Context, tenantID, userID tenant.ID) (tenant.Member, error)
	ChangeMember(ctx context.Context, tenantID, userID tenant.ID, role tenant.Role, want int64, may tenant.MemberCheck) (was, now tenant.Member, err error)
	RemoveMember(ctx context.Context, tenantID, userID tenant.ID, want int64, may tenant.MemberCheck) error
	Invite(ctx context.Context, tenantID tenant.ID, in tenant.Invitation) (i tenant.Invitation, token string, err error)
	RenewInvitation(ctx context.Context, tenantID, id tenant.ID, want int64, may func(tenant.Invitation) error) (i tenant.Invitation, token string, err error)
	InvitationByToken(ctx context.Context, token string) (tenant.Invitation, tenant.Tenant, error)
	AcceptInvitation(ctx context.Context, i tenant.Invitation, userID tenant.ID) (tenant.Member, error)
	ServiceAccount(ctx context.Context, tenantID, id tenant.ID) (tenant.ServiceAccount, error)
	// BindingsOf returns all bindings of a principal in one query.
	BindingsOf(ctx context.Context, tenantID, principalID tenant.ID) ([]tenant.Binding, error)
	Bind(ctx context.Context, tenantID tenant.ID, in tenant.Binding, may tenant.BindingCheck) (tenant.Binding, error)
	UpdateBinding(ctx context.Context, tenantID, id tenant.ID, end *time.Time, want int64, may tenant.BindingCheck) (tenant.Binding, error)
	Unbind(ctx context.Context, tenantID, id tenant.ID, want int64, may tenant.BindingCheck) error
	CreateRole(ctx context.Context, tenantID tenant.ID, in tenant.CustomRole) (tenant.CustomRole, error)
	UpdateRole(ctx context.Context, tenantID, id tenant.ID, u tenant.RoleUpdate, want int64, may func(tenant.CustomRole) error) (tenant.CustomRole, error)
	KeyByID(ctx context.Context, id tenant.ID) (tenant.APIKey, error)
	KeySecret(ctx context.Context, k tenant.APIKey) (string, error)
	KeyUsed(ctx context.Context, k tenant.APIKey, use tenant.KeyUse) error
	Members(ctx context.Context, tenantID tenant.ID, p tenant.Page) ([]tenant.Member, error)
	BeginClosing(ctx context.Context, tenantID, userID tenant.ID) error
	EndClosing(ctx context.Context, tenantID, userID tenant.ID) error
	EraseMember(ctx context.Context, tenantID, userID tenant.ID) (empty bool, err error)
}

// Founder makes everything that a new tenant starts with, in the transaction
// of its context.
type Founder interface {
	Begin(ctx context.Context, tenantName string, owner tenant.ID) (catalog.Beginning, error)
}

// Mailer sends mails; the kinds of them are its business.
type Mailer interface {
	SignUpCode(ctx context.Context, to, locale, tenantName, code string) error
	AccountExists(ctx context.Context, to, locale string) error
	ResetCode(ctx context.Context, to, locale, code string) error
	// NoMail does the work of a mail and sends none, so that nobody can tell by
	// time whether one went out.
	NoMail(ctx context.Context) error
	PasswordChanged(ctx context.Context, to, locale string) error
	EmailCode(ctx context.Context, to, locale, code string) error
	// FactorChanged tells of an event of second factors; see FactorEvent.
	FactorChanged(ctx context.Context, to, locale, event, name string) error
	// AccountChanged tells of an event of closing an account; see AccountEvent.
	AccountChanged(ctx context.Context, to, locale, event, until string) error
	EmailChanged(ctx context.Context, to, locale, newAddress, undoCode string) error
	Invitation(ctx context.Context, to, locale, tenantName, token string) error
	KeyLeaked(ctx context.Context, to, locale, tenantName, keyID, keyName string) error
}

// Revocations remembers for a short time which sessions live, so that not
// every request asks the database. It may forget anything at any time.
type Revocations interface {
	// Live reports what is remembered; known is false when nothing is, or
	// when it cannot be asked.
	Live(ctx context.Context, sessionID tenant.ID) (live, known bool)
	SetLive(ctx context.Context, sessionID tenant.ID)
	SetRevoked(ctx context.Context, sessionID tenant.ID)
}

// Keyring is what Service asks of tenant.Keyring.
type Keyring interface {
	Seal(purpose string, plain []byte) []byte
	Open(purpose string, sealed []byte) ([]byte, error)
	Derive(purpose string) []byte
}

// Config sets the times; zero values get the defaults named.
type Config struct {
	Issuer       string        // iss of tokens: "sluice"
	AccessTTL    time.Duration // 15m
	SessionTTL   time.Duration // 720h
	FederatedTTL time.Duration // 12h: of sessions that began at an identity provider
	CodeTTL      time.Duration // 10m
	KeyRotation  time.Duration // 720h
	Algorithms   []string      // of signing keys that are kept; the first signs. EdDSA
	StepUp       time.Duration // 15m: how long a proof of identity holds for risky acts
	PasswordCost PasswordCost  // DefaultPasswordCost
}

// Deps is what a Service needs.
type Deps struct {
	Store       Store
	Tenants     Tenants
	Founder     Founder
	Closer      Closer
	Mailer      Mailer
	Revocations Revocations // nil: the database is asked each time
	Keyring     Keyring
	Now         func() time.Time
	Logger      *slog.Logger
	Wake        func() // the key set changed; nil: nobody to tell
	Hashed      func() // a password was hashed, which costs most; nil: nobody counts
	// Audited keeps in a tenant's audit trail what closing, reopening and erasing
	// an account did there, in the transaction that does it; nil: nobody.
	Audited func(ctx context.Context, tenantID, userID tenant.ID, action string) error
	// Acted keeps an Act in the transaction of ctx; it is in the trails a little
	// later. nil: nobody.
	Acted func(ctx context.Context, a Act) error
}

// Service holds the rules.
type Service struct {
	cfg     Config
	d       Deps
	hasher  *hasher
	pepper  []byte
	signing keyCache
}

// New makes a Service.
func New(cfg Config, d Deps) *Service {
	if cfg.Issuer == "" {
		cfg.Issuer = "sluice"
	}
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.AccessTTL, 15*time.Minute)
	def(&cfg.SessionTTL, 720*time.Hour)
	def(&cfg.FederatedTTL, 12*time.Hour)
	def(&cfg.CodeTTL, 10*time.Minute)
	def(&cfg.KeyRotation, 720*time.Hour)
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = []string{AlgorithmEdDSA}
	}
	def(&cfg.StepUp, 15*time.Minute)
	if cfg.PasswordCost == (PasswordCost{}) {
		cfg.PasswordCost = DefaultPasswordCost
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Wake == nil {
		d.Wake = func() {}
	}
	if d.Revocations == nil {
		d.Revocations = forgetful{}
	}
	if d.Hashed == nil {
		d.Hashed = func() {}
	}
	if d.Audited == nil {
		d.Audited = func(context.Context, tenant.ID, tenant.ID, string) error { return nil }
	}
	if d.Acted == nil {
		d.Acted = func(context.Context, Act) error { return nil }
	}
	return &Service{cfg: cfg, d: d, hasher: newHasher(cfg.PasswordCost, d.Hashed), pepper: d.Keyring.Derive("mail codes")}
}

type forgetful struct{}

func (forgetful) Live(context.Context, tenant.ID) (live, known bool) { return false, false }
func (forgetful) SetLive(context.Context, tenant.ID)                 {}
func (forgetful) SetRevoked(context.Context, tenant.ID)              {}

// Issuer is the iss of tokens.
func (s *Service) Issuer() string { return s.cfg.Issuer }

// CodeTTL is how long a mail code works.
func (s *Service) CodeTTL() time.Duration { return s.cfg.CodeTTL }

func (s *Service) time() time.Time { return s.d.Now().UTC().Truncate(time.Millisecond) }

// CleanEmail writes a mail address as it is stored and compared: in lower case,
// without blanks around it, those of Unicode included.
func CleanEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

func unauthenticated(reason, format string, args ...any) error {
	return errs.E(errs.Unauthenticated, format, args...).WithReason(reason)
}
