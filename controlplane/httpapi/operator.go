package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// OperatorDeps is what the operators' API needs.
type OperatorDeps struct {
	Tenants *tenant.Service
	Tx      Transactor
	Audit   Audit
	Now     func() time.Time
	Logger  *slog.Logger
}

// operator is the one who holds the operators' token; it names no person.
const operatorID = "operator"

// NewOperator serves what operators of Sluice do to tenants, below
// /operator/v1. Whoever mounts it has checked the operators' token. Each act is
// in the audit log of the tenant, with the reason that the operator gave.
func NewOperator(d OperatorDeps) http.Handler {
	o := &operatorAPI{d}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /operator/v1/tenants/{id}", o.answer(func(r *http.Request) (tenant.Tenant, error) {
		return d.Tenants.Tenant(r.Context(), r.PathValue("id"))
	}))
	mux.HandleFunc("POST /operator/v1/tenants/{id}/actions/suspend", o.answer(o.act("suspendTenant", d.Tenants.Suspend)))
	mux.HandleFunc("POST /operator/v1/tenants/{id}/actions/resume", o.answer(o.act("resumeTenant", d.Tenants.Resume)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		o.fail(w, errs.E(errs.NotFound, "no such route: %s %s", r.Method, clip(r.URL.Path)).WithReason("route_not_found"))
	})
	return mux
}

type operatorAPI struct{ d OperatorDeps }

// maxReason is what the audit log keeps of a reason, in characters.
const maxReason = 64

// act does something to a tenant and notes it, both or neither.
func (o *operatorAPI) act(name string, do func(ctx context.Context, id tenant.ID) error) func(*http.Request) (tenant.Tenant, error) {
	return func(r *http.Request) (tenant.Tenant, error) {
		var body struct {
			Reason string `json:"reason"`
		}
		in := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4<<10))
		in.DisallowUnknownFields()
		if err := in.Decode(&body); err != nil {
			return tenant.Tenant{}, errs.Field("body", `the body must be {"reason": "…"}, of at most 4096 bytes`)
		}
		if n := utf8.RuneCountInString(body.Reason); n < 1 || n > maxReason || strings.ContainsFunc(body.Reason, unicode.IsControl) {
			return tenant.Tenant{}, errs.Field("reason", "reason has %d characters; the tenant reads it in its audit log: give 1 to %d, and no control characters", n, maxReason)
		}
		var after tenant.Tenant
		err := o.d.Tx.InTx(r.Context(), func(ctx context.Context) error {
			id := r.PathValue("id")
			before, err := o.d.Tenants.Tenant(ctx, id)
			if err != nil {
				return err
			}
			if err := do(ctx, id); err != nil {
				return err
			}
			if after, err = o.d.Tenants.Tenant(ctx, id); err != nil {
				return err
			}
			now := o.d.Now().UTC()
			e := controldb.AuditEvent{ID: tenant.NewID("evt_", now), TenantID: id, At: now, ActorType: operatorID, ActorID: operatorID,
				SourceIP: addressOf(r).String(), Action: name, TargetType: "tenant", TargetID: id, Reason: body.Reason, RequestID: tenant.NewID("req_", now)}
			if e.BeforeHash, err = fingerprint(tenantOut(before)); err != nil {
				return err
			}
			if e.AfterHash, err = fingerprint(tenantOut(after)); err != nil {
				return err
			}
			return o.d.Audit.Append(ctx, e)
		})
		return after, err
	}
}

func (o *operatorAPI) answer(do func(*http.Request) (tenant.Tenant, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t, err := do(r)
		if err != nil {
			o.fail(w, err)
			return
		}
		o.write(w, http.StatusOK, "application/json", tenantOut(t))
	}
}

func (o *operatorAPI) fail(w http.ResponseWriter, err error) {
	code := errs.CodeOf(err)
	if code == errs.Internal {
		o.d.Logger.Error("operator's request failed", "err", err)
	}
	p := problemOf("", err)
	p.RequestId = tenant.NewID("req_", o.d.Now())
	o.write(w, int(p.Status), "application/problem+json", p)
}

func (o *operatorAPI) write(w http.ResponseWriter, status int, kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		o.d.Logger.Error("answer to an operator not encoded", "err", err)
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the operator may be gone
}
