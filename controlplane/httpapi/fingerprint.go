package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/sluicemq/sluice/internal/errs"
)

// readers show the object that a path names as its GET does; the audit log
// keeps the fingerprints of an object before and after each write of it.
var readers = map[string]func(ctx context.Context, s *server, c *call) (any, error){
	"/v1/me": func(ctx context.Context, s *server, c *call) (any, error) {
		me, err := s.me(ctx, c)
		return me, err
	},
	"/v1/tenant": func(ctx context.Context, s *server, c *call) (any, error) {
		t, err := s.d.Tenants.Tenant(ctx, c.tenantID())
		return tenantOut(t), err
	},
	"/v1/members/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		m, err := s.d.Tenants.Member(ctx, c.tenantID(), c.gin.Param("id"))
		return memberOut(m), err
	},
	"/v1/invitations/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		i, err := s.d.Tenants.Invitation(ctx, c.tenantID(), c.gin.Param("id"))
		return s.invitationOut(i), err
	},
	"/v1/identity-providers/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		p, err := s.d.Federation.Provider(ctx, c.tenantID(), c.gin.Param("id"))
		return s.providerOut(c, p), err
	},
	"/v1/workload-identities/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		w, err := s.d.Tenants.Workload(ctx, c.tenantID(), c.gin.Param("id"))
		return workloadOut(w), err
	},
	"/v1/roles/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		r, err := s.role(ctx, c, c.gin.Param("id"))
		return r, err
	},
	"/v1/role-bindings/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		b, err := s.d.Tenants.Binding(ctx, c.tenantID(), c.gin.Param("id"))
		return bindingOut(b), err
	},
	"/v1/service-accounts/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		a, err := s.d.Tenants.ServiceAccount(ctx, c.tenantID(), c.gin.Param("id"))
		return serviceAccountOut(a), err
	},
	"/v1/api-keys/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		k, err := s.d.Tenants.Key(ctx, c.tenantID(), c.gin.Param("id"))
		return s.keyOut(k), err
	},
	"/v1/namespaces/{ns}": func(ctx context.Context, s *server, c *call) (any, error) {
		n, err := s.d.Tenants.Namespace(ctx, c.tenantID(), c.gin.Param("ns"))
		if err != nil {
			return nil, err
		}
		where, err := s.endpoints(ctx)
		return s.namespaceOut(c, where, n), err
	},
	"/v1/namespaces/{ns}/topics/{topic}": func(ctx context.Context, s *server, c *call) (any, error) {
		t, err := s.d.Catalog.Topic(ctx, c.tenantID(), c.gin.Param("ns"), c.gin.Param("topic"))
		return topicOut(t), err
	},
	"/v1/namespaces/{ns}/groups/{group}": func(ctx context.Context, s *server, c *call) (any, error) {
		g, err := s.d.Catalog.Group(ctx, c.tenantID(), c.gin.Param("ns"), c.gin.Param("group"))
		return groupOut(g), err
	},
	"/v1/namespaces/{ns}/acls/{id}": func(ctx context.Context, s *server, c *call) (any, error) {
		r, err := s.d.Tenants.Rule(ctx, c.tenantID(), c.gin.Param("ns"), c.gin.Param("id"))
		return aclOut(r), err
	},
}

// own shows what belongs to a person and not to a tenant, by the kind of the call's
// target, as it is in the lists under /v1/me.
var own = map[string]func(ctx context.Context, s *server, c *call) (any, error){
	"user": readers["/v1/me"],
	"session": func(ctx context.Context, s *server, c *call) (any, error) {
		v, err := s.d.Auth.OwnSession(ctx, c.principal, c.target.id)
		return liveSession(c, v), err
	},
	"mfa_factor": func(ctx context.Context, s *server, c *call) (any, error) {
		f, err := s.d.Auth.OwnFactor(ctx, c.principal, c.target.id)
		return factorOut(f), err
	},
}

var actionOf = regexp.MustCompile(`/actions/[^/]+$`)

// fingerprintNow is that of the object that the request's path names: empty when
// there is none, or for a path that names no object.
func (s *server) fingerprintNow(ctx context.Context, c *call) (string, error) {
	read := readers[actionOf.ReplaceAllString(c.op.path, "")]
	if read == nil {
		read = own[c.target.kind]
	}
	if read == nil {
		return "", nil
	}
	object, err := read(ctx, s, c)
	if errs.Is(err, errs.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fingerprint(object)
}

// fingerprintAfter is that of the object after a write which made out: the same
// object, or a new one.
func (s *server) fingerprintAfter(ctx context.Context, c *call, before string, out any) (string, error) {
	if before != "" {
		return s.fingerprintNow(ctx, c)
	}
	return fingerprint(out)
}

// volatile are fields that change without a write, and what no log may hold.
var volatile = []string{"last_used", "last_used_at", "last_sign_in_at", "secret", "endpoints", "state"}

// fingerprint is the SHA-256, in hexadecimal, of an object as the API shows it:
// JSON without blanks, names sorted, without the fields that change by
// themselves. It is empty for what is no object with an id.
func fingerprint(object any) (string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&fields) != nil || fields["id"] == nil || fields["id"] == "" {
		return "", nil
	}
	for _, name := range volatile {
		delete(fields, name)
	}
	if _, way := fields["status"].(map[string]any); way { // to the brokers; of a tenant it is a word that people set
		delete(fields, "status")
	}
	if text, err = json.Marshal(fields); err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
