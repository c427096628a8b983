package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/auditchain"
)

func (a *app) auditCommand() *cobra.Command {
	return a.parent("audit", "Who did what, and proof that nobody changed it", a.auditExport(), a.auditVerify())
}

// auditExport writes all events, oldest first, one JSON object a line.
func (a *app) auditExport() *cobra.Command {
	return a.command("export", "Write all audit events to the output, oldest first, one JSON object a line", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		params := api.ListAuditEventsParams{PageSize: fullPage()}
		events, err := collect(apiclient.All(func(token *string) ([]api.AuditEvent, *string, error) {
			params.PageToken = token
			page, err := apiclient.OK(c.ListAuditEventsWithResponse(ctx, &params))
			return page.Items, page.NextPageToken, err
		}))
		if err != nil {
			return doing("read the audit events", err)
		}
		out := json.NewEncoder(a.Out)
		for _, e := range slices.Backward(events) {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		a.hint("%d events. Check them anywhere with: sluice audit verify FILE", len(events))
		return nil
	})
}

func (a *app) auditVerify() *cobra.Command {
	var known []string
	c := a.command("verify [FILE]", "Check the hash chain: of an export, with no server at all, or on the server", cobra.MaximumNArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		heads, err := parseHeads(known)
		if err != nil {
			return err
		}
		var v api.AuditVerification
		if len(args) == 1 {
			v, err = verifyFile(args[0], heads)
		} else {
			v, err = a.verifyOnServer(ctx, heads)
		}
		if err != nil {
			return err
		}
		switch a.form() {
		case outputTable, outputName:
			if v.Intact && v.Head != nil {
				fmt.Fprintf(a.Out, "intact: %d events, head %d:%s\n", v.Events, v.Head.Sequence, v.Head.Hash)
			} else if v.Intact {
				fmt.Fprintln(a.Out, "intact: no events")
			}
		default:
			if err := a.encode(v); err != nil {
				return err
			}
		}
		if !v.Intact {
			return &Error{Exit: exitRefused, What: "the audit trail is not what was written", Why: fmt.Sprintf("event %d: %s", *v.BrokenAt, *v.Problem),
				Fix: "Keep the file and the output, and tell whoever answers for the audit trail."}
		}
		if v.Head != nil {
			a.hint("Keep the head: with --known %d:… a later check also finds events that were cut off at the end.", v.Head.Sequence)
		}
		return nil
	})
	c.Flags().StringArrayVar(&known, "known", nil, "head of an earlier check, as SEQUENCE:HASH; may be given again")
	return c
}

func parseHeads(texts []string) ([]auditchain.Head, error) {
	var out []auditchain.Head
	for _, text := range texts {
		var h auditchain.Head
		if n, err := fmt.Sscanf(text, "%d:%64s", &h.Sequence, &h.Hash); n != 2 || err != nil || h.Sequence < 1 || len(h.Hash) != 64 {
			return nil, usage(fmt.Sprintf("--known %q is no head", text), "Write it as an earlier check printed it: a number, a colon and 64 digits.")
		}
		out = append(out, h)
	}
	return out, nil
}

func (a *app) verifyOnServer(ctx context.Context, known []auditchain.Head) (api.AuditVerification, error) {
	c, err := a.client(ctx)
	if err != nil {
		return api.AuditVerification{}, err
	}
	heads := make([]api.ChainHead, len(known))
	for i, h := range known {
		heads[i] = api.ChainHead{Sequence: h.Sequence, Hash: h.Hash}
	}
	v, err := apiclient.OK(c.VerifyAuditEventsWithResponse(ctx, api.AuditVerify{Known: &heads}))
	return v, doing("check the audit trail", err)
}

// maxEventBytes bounds one line of an export.
const maxEventBytes = 1 << 20

func verifyFile(path string, known []auditchain.Head) (api.AuditVerification, error) {
	f, err := os.Open(path)
	if err != nil {
		return api.AuditVerification{}, usage(err.Error(), "Name a file that sluice audit export wrote.")
	}
	defer f.Close()
	head, err := verifyExport(f, known)
	var broken *auditchain.BrokenError
	switch {
	case errors.As(err, &broken):
		return api.AuditVerification{Events: broken.Sequence - 1, BrokenAt: &broken.Sequence, Problem: &broken.Problem}, nil
	case err != nil:
		return api.AuditVerification{}, usage(path+": "+err.Error(), "Name a file that sluice audit export wrote.")
	}
	out := api.AuditVerification{Intact: true, Events: head.Sequence}
	if head.Sequence > 0 {
		out.Head = &api.ChainHead{Sequence: head.Sequence, Hash: head.Hash}
	}
	return out, nil
}

func verifyExport(r io.Reader, known []auditchain.Head) (auditchain.Head, error) {
	v := auditchain.NewVerifier(known...)
	v.From(auditchain.Head{})
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEventBytes)
	for n := 1; lines.Scan(); n++ {
		var e api.AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return auditchain.Head{}, fmt.Errorf("line %s: %w", strconv.Itoa(n), err)
		}
		if e.Sequence == nil {
			continue // from before there was a chain
		}
		if err := v.Add(chained(e), deref(e.Hash), deref(e.PreviousHash)); err != nil {
			return auditchain.Head{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return auditchain.Head{}, err
	}
	return v.End()
}

func chained(e api.AuditEvent) *auditchain.Event {
	out := &auditchain.Event{Sequence: *e.Sequence, ID: e.Id, At: e.At.Time, ActorType: string(e.ActorType), ActorID: e.ActorId, KeyID: deref(e.ApiKeyId),
		SourceIP: deref(e.SourceIp), Action: e.Action, TargetType: e.TargetType, TargetID: deref(e.TargetId), NamespaceID: deref(e.NamespaceId),
		Decision: string(e.Decision), Reason: deref(e.Reason), RequestID: deref(e.RequestId),
		BeforeHash: deref(e.BeforeHash), AfterHash: deref(e.AfterHash)}
	if e.Count != nil {
		out.Count = *e.Count
	}
	if e.FirstAt != nil {
		out.FirstAt = e.FirstAt.Time
	}
	return out
}
