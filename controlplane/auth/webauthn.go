package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Site is the web site that a browser is at, as WebAuthn sees it.
type Site struct {
	ID     string // the host name, to which credentials are bound
	Origin string // https://host:port
}

// party makes the library's view of a site; false where browsers offer no
// WebAuthn, as at a bare IP address.
func (s Site) party() (*webauthn.WebAuthn, bool) {
	if protocol.ValidateRPID(s.ID) != nil {
		return nil, false
	}
	w, err := webauthn.New(&webauthn.Config{RPID: s.ID, RPDisplayName: "Sluice", RPOrigins: []string{s.Origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementDiscouraged, UserVerification: protocol.VerificationPreferred}})
	return w, err == nil
}

// securityKey is what is sealed in a Factor of type webauthn: what the answer
// of the browser is held against until it is confirmed, then the credential.
type securityKey struct {
	SiteID     string                `json:"site_id"`
	Session    *webauthn.SessionData `json:"session,omitempty"`
	Credential *webauthn.Credential  `json:"credential,omitempty"`
}

func (s *Service) openKey(f Factor) (securityKey, error) {
	var k securityKey
	plain, err := s.d.Keyring.Open(sealFor(f), f.Sealed)
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(plain, &k); err != nil {
		return k, fmt.Errorf("decode security key %s: %w", f.ID, err)
	}
	return k, nil
}

func (s *Service) sealKey(f Factor, k securityKey) ([]byte, error) {
	plain, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode security key %s: %w", f.ID, err)
	}
	return s.d.Keyring.Seal(sealFor(f), plain), nil
}

// keyHolder is a person as the library asks for one.
type keyHolder struct {
	User
	credentials []webauthn.Credential
	factors     map[string]tenant.ID // by credential id
}

func (h *keyHolder) WebAuthnID() []byte                         { return []byte(h.ID) }
func (h *keyHolder) WebAuthnName() string                       { return h.Email }
func (h *keyHolder) WebAuthnDisplayName() string                { return h.Name }
func (h *keyHolder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

// holder reads the security keys that a user has for a site.
func (s *Service) holder(ctx context.Context, u User, siteID string) (*keyHolder, error) {
	h := &keyHolder{User: u, factors: map[string]tenant.ID{}}
	list, err := s.confirmed(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if f.Type != FactorWebAuthn {
			continue
		}
		k, err := s.openKey(f)
		if err != nil {
			return nil, err
		}
		if k.SiteID == siteID && k.Credential != nil {
			h.credentials = append(h.credentials, *k.Credential)
			h.factors[string(k.Credential.ID)] = f.ID
		}
	}
	return h, nil
}

// KeyEnrolment is what a browser needs to make a credential.
type KeyEnrolment struct {
	Factor
	Options json.RawMessage // PublicKeyCredentialCreationOptionsJSON
}

// BeginWebAuthn makes an unconfirmed factor for a security key or passkey at a
// site. Those that were begun before and not confirmed are dropped.
func (s *Service) BeginWebAuthn(ctx context.Context, p *Principal, name string, site Site, note Note) (KeyEnrolment, error) {
	if err := person(p); err != nil {
		return KeyEnrolment{}, err
	}
	if err := tenant.CheckName("name", name); err != nil {
		return KeyEnrolment{}, err
	}
	party, ok := site.party()
	if !ok {
		return KeyEnrolment{}, errs.E(errs.Conflict, "browsers make no security keys for %q: open this server under a host name, such as localhost", site.ID).WithReason("webauthn_unavailable")
	}
	var out KeyEnrolment
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		if err := s.makeRoom(ctx, u.ID); err != nil {
			return err
		}
		h, err := s.holder(ctx, u, site.ID)
		if err != nil {
			return err
		}
		creation, session, err := party.BeginRegistration(h, webauthn.WithExclusions(webauthn.Credentials(h.credentials).CredentialDescriptors()))
		if err != nil {
			return fmt.Errorf("begin registration: %w", err)
		}
		now := s.time()
		f := Factor{ID: tenant.NewID(prefixFactor, now), UserID: u.ID, Type: FactorWebAuthn, Name: name, CreatedAt: now, UpdatedAt: now, Revision: 1}
		if f.Sealed, err = s.sealKey(f, securityKey{SiteID: site.ID, Session: session}); err != nil {
			return err
		}
		if err := s.d.Store.AddFactor(ctx, f); err != nil {
			return err
		}
		out.Factor = f
		if out.Options, err = json.Marshal(creation.Response); err != nil {
			return fmt.Errorf("encode options: %w", err)
		}
		return note.After(ctx, f.ID)
	})
	return out, err
}

var errBadAttestation = errs.Field("credential", "the answer of the browser does not belong to this registration, its site or its challenge, or the time for it is over; begin again").WithReason("webauthn_invalid")

// ConfirmWebAuthn makes a security key count, with what the browser made of
// KeyEnrolment.Options; see confirm.
func (s *Service) ConfirmWebAuthn(ctx context.Context, p *Principal, id tenant.ID, answer string, site Site, note Note) (Factor, []string, error) {
	return s.confirm(ctx, p, id, FactorWebAuthn, func(ctx context.Context, f *Factor, now time.Time) error {
		k, err := s.openKey(*f)
		if err != nil {
			return err
		}
		party, ok := site.party()
		parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer))
		if err != nil || !ok || k.Session == nil || k.SiteID != site.ID || now.Sub(f.CreatedAt) > challengeTTL {
			return errBadAttestation
		}
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		c, err := party.CreateCredential(&keyHolder{User: u}, *k.Session, parsed)
		if err != nil {
			return errBadAttestation
		}
		c.Attestation = webauthn.CredentialAttestation{} // asked for none, and nothing looks at it
		hash := sha256.Sum256([]byte(site.ID + "\x00" + string(c.ID)))
		f.CredentialHash = hash[:]
		f.Sealed, err = s.sealKey(*f, securityKey{SiteID: site.ID, Credential: c})
		return err
	}, note)
}

// challengeData is what Challenge.Data holds.
type challengeData struct {
	Reopens  bool                  `json:"reopens,omitempty"` // its end reopens the account
	Password []byte                `json:"password"`          // passwordMark of when it began
	StepUp   tenant.ID             `json:"step_up,omitempty"` // the session whose step-up it serves, and no sign-in
	SiteID   string                `json:"site_id,omitempty"`
	Session  *webauthn.SessionData `json:"session,omitempty"` // of WebAuthn
}

func decodeChallenge(text []byte) (challengeData, error) {
	var d challengeData
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("decode challenge: %w", err)
	}
	return d, nil
}

// askForKey adds to a challenge what a security key of the user is asked; nil
// options when they have none for the site.
func (s *Service) askForKey(ctx context.Context, userID tenant.ID, site Site, d *challengeData) (json.RawMessage, error) {
	party, ok := site.party()
	if !ok {
		return nil, nil
	}
	u, err := s.d.Store.User(ctx, userID)
	if err != nil {
		return nil, err
	}
	h, err := s.holder(ctx, u, site.ID)
	if err != nil || len(h.credentials) == 0 {
		return nil, err
	}
	assertion, session, err := party.BeginLogin(h)
	if err != nil {
		return nil, fmt.Errorf("begin assertion: %w", err)
	}
	d.SiteID, d.Session = site.ID, session
	out, err := json.Marshal(assertion.Response)
	if err != nil {
		return nil, fmt.Errorf("encode options: %w", err)
	}
	return out, nil
}

var (
	errBadAssertion = unauthenticated("webauthn_invalid", "the security key is not one of this account, or its answer is for another site or challenge; sign in again")
	errCloned       = unauthenticated("webauthn_cloned", "the counter of this security key did not go up: it may have been copied. Sign in by other means and remove it")
)

// proveByKey checks the answer of a security key to a challenge, in the
// transaction of ctx, which uses the challenge up.
func (s *Service) proveByKey(ctx context.Context, userID tenant.ID, d challengeData, answer string, site Site) error {
	party, ok := site.party()
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer))
	if err != nil || !ok || d.Session == nil || d.SiteID != site.ID {
		return errBadAssertion
	}
	u, err := s.d.Store.User(ctx, userID) // locks: answers of one person take turns, or a counter could go back
	if err != nil {
		return err
	}
	h, err := s.holder(ctx, u, site.ID)
	if err != nil {
		return err
	}
	c, err := party.ValidateLogin(h, *d.Session, parsed)
	if err != nil || !bytes.Equal(c.ID, parsed.RawID) {
		return errBadAssertion
	}
	if c.Authenticator.CloneWarning {
		s.d.Logger.Warn("counter of a security key went back", "user", userID, "factor", h.factors[string(c.ID)])
		return errCloned
	}
	f, err := s.d.Store.Factor(ctx, userID, h.factors[string(c.ID)])
	if err != nil {
		return err
	}
	sealed, err := s.sealKey(f, securityKey{SiteID: site.ID, Credential: c})
	if err != nil {
		return err
	}
	return s.d.Store.UseCredential(ctx, f.ID, sealed, s.time())
}
