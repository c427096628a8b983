package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/auditchain"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func eventOut(e controldb.AuditEvent) api.AuditEvent {
	out := api.AuditEvent{Id: e.ID, At: at(e.At), ActorType: api.AuditActorType(e.ActorType), ActorId: e.ActorID, ApiKeyId: some(e.KeyID), SourceIp: some(e.SourceIP),
		Action: e.Action, TargetType: e.TargetType, TargetId: some(e.TargetID), NamespaceId: some(e.NamespaceID), Decision: "allowed", Reason: some(e.Reason),
		RequestId: some(e.RequestID), BeforeHash: some(e.BeforeHash), AfterHash: some(e.AfterHash), CreatedAt: at(e.At), UpdatedAt: at(e.At), Revision: 1}
	if e.Denied {
		out.Decision = "denied"
	}
	if e.Count > 0 {
		out.Count, out.FirstAt = &e.Count, some(at(e.FirstAt))
	}
	if e.Sequence > 0 {
		out.Sequence, out.Hash, out.PreviousHash = &e.Sequence, &e.Hash, &e.PreviousHash
	}
	return out
}

// VerifyAuditEvents checks the hash chain of the tenant.
func (s *server) VerifyAuditEvents(gc context.Context, r VerifyAuditEventsRequestObject) (VerifyAuditEventsResponseObject, error) {
	c, ctx := enter(gc)
	var known []auditchain.Head
	for _, h := range or(r.Body.Known, nil) {
		known = append(known, auditchain.Head{Sequence: h.Sequence, Hash: h.Hash})
	}
	head, err := s.d.Audit.Verify(ctx, c.tenantID(), known...)
	var broken *auditchain.BrokenError
	switch {
	case errors.As(err, &broken):
		return VerifyAuditEvents200JSONResponse{Events: broken.Sequence - 1, BrokenAt: &broken.Sequence, Problem: &broken.Problem}, nil
	case err != nil:
		return nil, err
	}
	out := VerifyAuditEvents200JSONResponse{Intact: true, Events: head.Sequence}
	if head.Sequence > 0 {
		out.Head = &api.ChainHead{Sequence: head.Sequence, Hash: head.Hash}
	}
	return out, nil
}

// ListAuditEvents shows what was done in the tenant.
func (s *server) ListAuditEvents(gc context.Context, r ListAuditEventsRequestObject) (ListAuditEventsResponseObject, error) {
	c, ctx := enter(gc)
	p := r.Params
	f := controldb.AuditFilter{From: or(p.From, time.Time{}), To: or(p.To, time.Time{}), ActorID: or(p.ActorId, ""), Action: or(p.Action, ""), TargetID: or(p.TargetId, "")}
	if p.From != nil && p.To != nil && !p.From.Before(*p.To) {
		return nil, errs.Field("query.from", "from is not before to")
	}
	items, next, err := listed(s, c, p.PageSize, p.PageToken,
		func(pg tenant.Page) ([]controldb.AuditEvent, error) { return s.d.Audit.List(ctx, c.tenantID(), f, pg) },
		func(e controldb.AuditEvent) string { return e.ID }, eventOut)
	if err != nil {
		return nil, err
	}
	return ListAuditEvents200JSONResponse{Items: items, NextPageToken: next}, nil
}
