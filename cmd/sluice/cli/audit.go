package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/auditchain"
)

func (a *app) auditCommand() *cobra.Command {
	return a.parent("audit", "Who did what, and proof that nobody changed it", a.auditList(), a.auditExport(), a.auditVerify())
}

var auditView = view[api.AuditEvent]{name: func(e api.AuditEvent) string { return e.Id }, columns: []column[api.AuditEvent]{
	{title: "at", value: func(e api.AuditEvent) string { return e.At.String() }},
	{title: "actor", value: func(e api.AuditEvent) string { return e.ActorId }},
	{title: "key", value: func(e api.AuditEvent) string { return deref(e.ApiKeyId) }},
	{title: "address", value: func(e api.AuditEvent) string { return deref(e.SourceIp) }},
	{title: "action", value: func(e api.AuditEvent) string { return e.Action }},
	{title: "target", value: func(e api.AuditEvent) string { return strings.TrimSpace(e.TargetType + " " + deref(e.TargetId)) }},
	{title: "decision", value: func(e api.AuditEvent) string { return string(e.Decision) }},
	{title: "reason", value: func(e api.AuditEvent) string { return deref(e.Reason) }},
	{title: "count", value: func(e api.AuditEvent) string {
		if e.Count == nil {
			return ""
		}
		return strconv.FormatInt(*e.Count, 10)
	}},
}}

// auditFilter are the flags that pick events.
type auditFilter struct{ from, to, actor, action, target string }

func (f *auditFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.from, "from", "", "start, included: a time or a day")
	c.Flags().StringVar(&f.to, "to", "", "end, not included")
	c.Flags().StringVar(&f.actor, "actor", "", "only what this one did: the id of a person or service account")
	c.Flags().StringVar(&f.action, "action", "", "only this: an operation of the API such as createTopic; publish, subscribe, connect … for what brokers refused")
	c.Flags().StringVar(&f.target, "target", "", "only what was done to this object, by id")
}

// params says the flags in the words of the API; some tells whether there were any.
func (f *auditFilter) params(c *cobra.Command) (p api.ListAuditEventsParams, some bool, err error) {
	flags := c.Flags()
	p = api.ListAuditEventsParams{PageSize: fullPage(), ActorId: given(flags, "actor", f.actor), Action: given(flags, "action", f.action), TargetId: given(flags, "target", f.target)}
	for _, t := range []struct {
		flag, text string
		to         **time.Time
	}{{"from", f.from, &p.From}, {"to", f.to, &p.To}} {
		if !flags.Changed(t.flag) {
			continue
		}
		at, err := day(t.flag, t.text)
		if err != nil {
			return p, false, err
		}
		*t.to = &at
	}
	return p, p.From != nil || p.To != nil || p.ActorId != nil || p.Action != nil || p.TargetId != nil, nil
}

// auditEvents reads events, newest first, page by page.
func auditEvents(ctx context.Context, c *apiclient.SDK, params api.ListAuditEventsParams) iter.Seq2[api.AuditEvent, error] {
	return apiclient.All(func(token *string) ([]api.AuditEvent, *string, error) {
		params.PageToken = token
		page, err := apiclient.OK(c.ListAuditEventsWithResponse(ctx, &params))
		return page.Items, page.NextPageToken, err
	})
}

func (a *app) auditList() *cobra.Command {
	var f auditFilter
	var limit int
	c := a.command("list", "List audit events, newest first", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return usage(fmt.Sprintf("--limit %d is no number of events", limit), "Give 1 or more.")
		}
		params, _, err := f.params(cmd)
		if err != nil {
			return err
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		params.PageSize = ptr(int32(min(limit, int(*params.PageSize)))) //nolint:gosec // at most a full page
		var items []api.AuditEvent
		for e, err := range auditEvents(ctx, c, params) {
			if err != nil {
				return doing("read the audit events", err)
			}
			if items = append(items, e); len(items) == limit {
				break
			}
		}
		return showList(a, auditView, items)
	})
	f.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "how many events at most")
	return c
}

// auditExport writes all events in the order of their chain, one JSON object a
// line.
func (a *app) auditExport() *cobra.Command {
	var f auditFilter
	c := a.command("export", "Write all audit events to the output, oldest first, one JSON object a line", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if a.output != "" && a.output != outputJSON {
			return usage("an export is one JSON object a line", "Leave -o out, or use sluice audit list.")
		}
		params, part, err := f.params(cmd)
		if err != nil {
			return err
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		var events []api.AuditEvent
		settled := int64(0) // the chain's end when the first page was read, or in front of it
		for e, err := range auditEvents(ctx, c, params) {
			if err != nil {
				return doing("read the audit events", err)
			}
			if events = append(events, e); len(events) <= int(*params.PageSize) {
				settled = max(settled, place(e))
			}
		}
		if events = inOrder(events); !part {
			events = untilHole(events, settled)
		}
		out := json.NewEncoder(a.Out)
		for _, e := range events {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		if part {
			a.hint("%d events. This is a part: only a whole export shows that none is missing.", len(events))
		} else {
			a.hint("%d events. Check them anywhere with: sluice audit verify FILE", len(events))
		}
		return nil
	})
	f.flags(c)
	return c
}

// inOrder sorts events, listed newest first, by their places in the chain; those
// from before there was one come first.
func inOrder(events []api.AuditEvent) []api.AuditEvent {
	slices.Reverse(events)
	slices.SortStableFunc(events, func(a, b api.AuditEvent) int { return cmp.Compare(place(a), place(b)) })
	return events
}

func place(e api.AuditEvent) int64 {
	if e.Sequence == nil {
		return 0
	}
	return *e.Sequence
}

// untilHole leaves out the newest events where one in front of them is missing,
// because it was written while the list was read: they come with the next export.
// Up to settled all was there before: a hole in that stays for verify to find.
func untilHole(events []api.AuditEvent, settled int64) []api.AuditEvent {
	for i := 1; i < len(events); i++ {
		if place(events[i-1]) >= settled && place(events[i]) > place(events[i-1])+1 {
			return events[:i]
		}
	}
	return events
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
