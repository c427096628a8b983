package cli

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type usageFlags struct {
	from, to, grain, topic, group, key string
	by                                 []string
}

func (a *app) usageCommand() *cobra.Command {
	var u usageFlags
	c := a.command("usage", "Show what was used", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		f := cmd.Flags()
		params := api.GetUsageParams{Grain: given(f, "grain", api.UsageGrain(u.grain)), Topic: given(f, "topic", u.topic),
			Group: given(f, "group", u.group), ApiKeyId: given(f, "key", u.key), PageSize: fullPage()}
		for flag, to := range map[string]**time.Time{"from": &params.From, "to": &params.To} {
			text := u.from
			if flag == "to" {
				text = u.to
			}
			if f.Changed(flag) {
				t, err := day(flag, text)
				if err != nil {
					return err
				}
				*to = &t
			}
		}
		if params.From == nil && u.grain == "minute" { // a month has too many of them
			hour := time.Now().UTC().Add(-time.Hour).Truncate(time.Minute)
			params.From = &hour
		}
		if len(u.by) > 0 {
			by := make([]api.UsageDimension, len(u.by))
			for i, d := range u.by {
				by[i] = api.UsageDimension(strings.ReplaceAll(d, "-", "_"))
			}
			params.GroupBy = &by
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if a.namespace != "" || u.topic != "" || u.group != "" {
			ns, err := a.ns(ctx)
			if err != nil {
				return err
			}
			params.NamespaceId = &ns
		}
		var whole api.Usage
		rows, err := collect(apiclient.All(func(token *string) ([]api.UsageRow, *string, error) {
			params.PageToken = token
			page, err := apiclient.OK(c.GetUsageWithResponse(ctx, &params))
			whole = page
			return page.Items, page.NextPageToken, err
		}))
		if err != nil {
			return doing("read the usage", err)
		}
		whole.Items, whole.NextPageToken = rows, nil
		return a.showUsage(whole)
	})
	f := c.Flags()
	f.StringVar(&u.from, "from", "", "start, included: a time or a day (default: begin of the running month, with --grain minute an hour ago)")
	f.StringVar(&u.to, "to", "", "end, not included (default: now)")
	f.StringVar(&u.grain, "grain", "day", "length of the periods: minute, hour, day or month")
	f.StringSliceVar(&u.by, "by", nil, "split by up to two of namespace, topic, group, api-key, class, protocol")
	f.StringVar(&u.topic, "topic", "", "only this topic")
	f.StringVar(&u.group, "group", "", "only this consumer group")
	f.StringVar(&u.key, "key", "", "only this API key")
	return c
}

// day reads a time or a day in UTC.
func day(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(fmt.Sprintf("--%s %q is no time", flag, text), "Write it like 2026-09-01 or 2026-09-01T08:00:00Z.")
}

func (a *app) showUsage(u api.Usage) error {
	switch a.form() {
	case outputName:
		return usage("usage has no names", "Use -o table, json or yaml.")
	case outputTable:
	default:
		return a.encode(u)
	}
	dimensions := map[api.UsageDimension]func(api.UsageRow) string{
		api.UsageDimensionNamespace: func(r api.UsageRow) string { return deref(r.NamespaceId) }, api.UsageDimensionTopic: func(r api.UsageRow) string { return deref(r.Topic) },
		api.UsageDimensionGroup: func(r api.UsageRow) string { return deref(r.Group) }, api.UsageDimensionApiKey: func(r api.UsageRow) string { return deref(r.ApiKeyId) },
		api.UsageDimensionClass: func(r api.UsageRow) string { return deref(r.Class) }, api.UsageDimensionProtocol: func(r api.UsageRow) string { return deref(r.Protocol) },
	}
	titles := []string{"FROM"}
	for _, d := range u.GroupBy {
		titles = append(titles, strings.ToUpper(strings.ReplaceAll(string(d), "_", " ")))
	}
	rows := [][]string{append(titles, "MESSAGES IN", "MESSAGES OUT", "BYTES IN", "BYTES OUT", "API CALLS", "REJECTED")}
	for _, r := range u.Items {
		row := []string{r.From.String()}
		for _, d := range u.GroupBy {
			row = append(row, orDash(dimensions[d](r)))
		}
		rows = append(rows, append(row, r.MessagesIn, r.MessagesOut, r.BytesIn, r.BytesOut, r.ApiCalls, r.Rejected))
	}
	total := append([]string{"total"}, make([]string, len(u.GroupBy))...)
	t := u.Totals
	rows = append(rows, append(total, t.MessagesIn, t.MessagesOut, t.BytesIn, t.BytesOut, t.ApiCalls, t.Rejected))
	if err := a.table(rows); err != nil {
		return err
	}
	a.hint("Complete up to %s. Next: sluice cost", u.CompleteThrough)
	return nil
}

func (a *app) costCommand() *cobra.Command {
	var month string
	c := a.command("cost", "Show what a month costs", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		costs, err := apiclient.OK(c.GetCostsWithResponse(ctx, &api.GetCostsParams{Month: given(cmd.Flags(), "month", month)}))
		if err != nil {
			return doing("read the costs", err)
		}
		switch a.form() {
		case outputName:
			_, err := fmt.Fprintln(a.Out, money(costs.Total, int(costs.MinorUnitDigits)), costs.Currency)
			return err
		case outputTable:
		default:
			return a.encode(costs)
		}
		rows := [][]string{{"METER", "QUANTITY", "INCLUDED", "BILLABLE", "UNIT", "PRICE", "AMOUNT"}}
		for _, l := range costs.Lines {
			rows = append(rows, []string{l.Meter, l.Quantity, l.Included, l.Billable, l.Unit,
				fmt.Sprintf("%s per %s", money(l.UnitPriceMicros, 6), pricedUnit(l.PricePer, l.Unit)), money(l.Amount, int(costs.MinorUnitDigits))})
		}
		rows = append(rows, []string{"total", "", "", "", "", "", money(costs.Total, int(costs.MinorUnitDigits)) + " " + costs.Currency})
		if err := a.table(rows); err != nil {
			return err
		}
		state := "The month runs; complete up to " + costs.CompleteThrough.String()
		if costs.Final {
			state = "The month is closed"
		}
		a.hint("%s. Plan %s, prices %s.", state, costs.PlanId, costs.PriceBookId)
		return nil
	})
	c.Flags().StringVar(&month, "month", "", "calendar month in UTC, such as 2026-09 (default: the running one)")
	return c
}

// pricedUnit is what a price is for, in words where there are some.
func pricedUnit(count, unit string) string {
	switch {
	case unit == "byte" && count == "1073741824":
		return "GiB"
	case unit == "byte_ms" && count == "3865470566400000":
		return "GiB-hour"
	case count == "1000000":
		return "million"
	}
	return count
}

// money shows a whole number of units of 10^-digits, with at least two digits
// after the point and no more zeros than that. It never rounds.
func money(amount string, digits int) string {
	n, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		return amount
	}
	sign := ""
	if n.Sign() < 0 {
		sign, n = "-", n.Neg(n)
	}
	if digits <= 0 {
		return sign + n.String()
	}
	text := n.String()
	if len(text) <= digits {
		text = strings.Repeat("0", digits-len(text)+1) + text
	}
	whole, part := text[:len(text)-digits], text[len(text)-digits:]
	for len(part) > 2 && strings.HasSuffix(part, "0") {
		part = part[:len(part)-1]
	}
	return sign + whole + "." + part
}
