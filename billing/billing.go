// Package billing knows what usage is, what a unit costs, and what is owed.
//
// It owns counters and their sums over time, price books, and rating: a pure
// function from quantities to lines, in integers, rounded once per line. It
// does not own how usage gets out of brokers (collect), where it is stored
// (billingdb), plans' quotas (tenant), or payment.
//
// A period is half-open, in UTC. Money is an integer with its currency:
// millionths while rating, minor units on a line.
package billing

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Counter is something that is counted.
type Counter string

// The counters. Sizes are bodies as received plus user properties, in bytes;
// units are blocks begun of 4 KiB and 64 KiB, counted for each message.
const (
	MessagesIn       Counter = "messages_in"
	MessagesOut      Counter = "messages_out"
	BytesIn          Counter = "bytes_in"
	BytesOut         Counter = "bytes_out"
	Units4In         Counter = "units4k_in"
	Units4Out        Counter = "units4k_out"
	Units64In        Counter = "units64k_in"
	Units64Out       Counter = "units64k_out"
	Calls            Counter = "api_calls"
	EmptyPolls       Counter = "empty_polls"
	StoredByteMillis Counter = "byte_ms_stored"
	ConnectionMillis Counter = "connection_ms"
	Rejected         Counter = "rejected"
)

// Counters lists all counters in the order of reports and exports.
func Counters() []Counter {
	return []Counter{MessagesIn, MessagesOut, BytesIn, BytesOut, Units4In, Units4Out, Units64In, Units64Out,
		Calls, EmptyPolls, StoredByteMillis, ConnectionMillis, Rejected}
}

// Quantities are sums of counters; an absent one is zero. Integrals over a
// month pass 64 bits. The numbers are never changed in place: Add replaces
// them, so that copies of the map may share them.
type Quantities map[Counter]*big.Int

// Of returns a quantity, never nil; the caller must not change it.
func (q Quantities) Of(c Counter) *big.Int {
	if n := q[c]; n != nil {
		return n
	}
	return new(big.Int)
}

// Add adds other to q.
func (q Quantities) Add(other Quantities) {
	for c, n := range other {
		if n.Sign() != 0 {
			q[c] = new(big.Int).Add(q.Of(c), n)
		}
	}
}

// Zero reports whether nothing was counted.
func (q Quantities) Zero() bool {
	for _, n := range q {
		if n.Sign() != 0 {
			return false
		}
	}
	return true
}

// Cell is what usage belongs to inside a tenant. Names are bare; fields that do
// not apply are empty.
type Cell struct {
	NamespaceID string
	Topic       string
	Group       string
	APIKeyID    string
	Class       Class
	Protocol    Protocol
}

// Class of messages.
type Class string

// The classes.
const (
	ClassNormal        Class = "normal"
	ClassOrdered       Class = "ordered"
	ClassDelayed       Class = "delayed"
	ClassTransactional Class = "transactional"
)

// Protocol by which usage came.
type Protocol string

// The protocols. HTTP is the console and the API.
const (
	ProtocolRemoting Protocol = "remoting"
	ProtocolGRPC     Protocol = "grpc"
	ProtocolHTTP     Protocol = "http"
)

// Grain is the length of a period.
type Grain string

// The grains.
const (
	GrainMinute Grain = "minute"
	GrainHour   Grain = "hour"
	GrainDay    Grain = "day"
	GrainMonth  Grain = "month"
)

// Floor returns the start of the period that holds t.
func (g Grain) Floor(t time.Time) time.Time {
	t = t.UTC()
	switch g {
	case GrainMinute:
		return t.Truncate(time.Minute)
	case GrainHour:
		return t.Truncate(time.Hour)
	case GrainMonth:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case GrainDay:
	}
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// Next returns the end of the period that begins at start.
func (g Grain) Next(start time.Time) time.Time {
	switch g {
	case GrainMinute:
		return start.Add(time.Minute)
	case GrainHour:
		return start.Add(time.Hour)
	case GrainMonth:
		return start.AddDate(0, 1, 0)
	case GrainDay:
	}
	return start.AddDate(0, 0, 1)
}

// Dimension is what usage can be split by.
type Dimension string

// The dimensions.
const (
	ByNamespace Dimension = "namespace"
	ByTopic     Dimension = "topic"
	ByGroup     Dimension = "group"
	ByAPIKey    Dimension = "api_key"
	ByClass     Dimension = "class"
	ByProtocol  Dimension = "protocol"
)

// keep returns cell with only the dimensions that rows are split by.
func keep(cell Cell, dims []Dimension) Cell {
	var out Cell
	for _, d := range dims {
		switch d {
		case ByNamespace:
			out.NamespaceID = cell.NamespaceID
		case ByTopic:
			out.Topic = cell.Topic
		case ByGroup:
			out.Group = cell.Group
		case ByAPIKey:
			out.APIKeyID = cell.APIKeyID
		case ByClass:
			out.Class = cell.Class
		case ByProtocol:
			out.Protocol = cell.Protocol
		}
	}
	return out
}

// UsageQuery asks for a tenant's usage. Empty filters match all.
type UsageQuery struct {
	TenantID    string
	From, To    time.Time // From is cut down to the grain, To up
	Grain       Grain
	GroupBy     []Dimension // at most two
	NamespaceID string
	Topic       string
	Group       string
	APIKeyID    string
}

// Limits of a query.
const (
	maxPeriods    = 1500
	maxDimensions = 2
	maxRows       = 100_000
)

// Normalise checks q and aligns its ends with the grain.
func (q *UsageQuery) Normalise(now time.Time) error {
	if q.TenantID == "" {
		return errs.E(errs.Internal, "usage query without a tenant")
	}
	if q.Grain == "" {
		q.Grain = GrainDay
	}
	if !slices.Contains([]Grain{GrainMinute, GrainHour, GrainDay, GrainMonth}, q.Grain) {
		return errs.Field("grain", "unknown grain %q: use minute, hour, day or month", q.Grain)
	}
	if q.From.IsZero() {
		q.From = GrainMonth.Floor(now)
	}
	if q.To.IsZero() {
		q.To = now
	}
	if !q.From.Before(q.To) {
		return errs.Field("to", "the end %s is not after the start %s", q.To.UTC().Format(time.RFC3339), q.From.UTC().Format(time.RFC3339))
	}
	if len(q.GroupBy) > maxDimensions {
		return limited(errs.Field("group_by", "at most %d dimensions", maxDimensions), maxDimensions)
	}
	for i, d := range q.GroupBy {
		if !slices.Contains([]Dimension{ByNamespace, ByTopic, ByGroup, ByAPIKey, ByClass, ByProtocol}, d) {
			return errs.Field("group_by", "unknown dimension %q", d)
		}
		if slices.Contains(q.GroupBy[:i], d) {
			return errs.Field("group_by", "dimension %q is named twice", d)
		}
	}
	q.From = q.Grain.Floor(q.From)
	end := q.Grain.Floor(q.To)
	if end.Before(q.To) {
		end = q.Grain.Next(end)
	}
	q.To = end
	n := 0
	for t := q.From; t.Before(q.To); t = q.Grain.Next(t) {
		if n++; n > maxPeriods {
			return limited(errs.Field("from", "more than %d periods of a %s: shorten the range or take a longer grain", maxPeriods, q.Grain), maxPeriods)
		}
	}
	return nil
}

func limited(e *errs.Error, limit int) *errs.Error {
	e.Limit = fmt.Sprint(limit)
	return e
}

// UsageRow is what one period and combination of dimensions counted.
type UsageRow struct {
	From, To   time.Time
	Cell       Cell // only the dimensions of the query are set
	Quantities Quantities
}

// Usage answers a query. Everything before CompleteThrough is final.
type Usage struct {
	Query           UsageQuery
	CompleteThrough time.Time
	Totals          Quantities
	Rows            []UsageRow // by period, then dimensions; rows of zeros are left out
}

// Record is stored usage of one cell in one period.
type Record struct {
	Start      time.Time
	Cell       Cell
	Quantities Quantities
}

// aggregate folds records into the rows of q.
func aggregate(q UsageQuery, records []Record) (rows []UsageRow, totals Quantities, err error) {
	type key struct {
		start time.Time
		cell  Cell
	}
	index := map[key]int{}
	totals = Quantities{}
	for _, r := range records {
		if r.Quantities.Zero() {
			continue
		}
		k := key{r.Start, keep(r.Cell, q.GroupBy)}
		i, ok := index[k]
		if !ok {
			if len(rows) == maxRows {
				return nil, nil, limited(errs.Field("group_by", "more than %d rows: shorten the range or split by less", maxRows), maxRows)
			}
			i = len(rows)
			index[k] = i
			rows = append(rows, UsageRow{From: r.Start, To: q.Grain.Next(r.Start), Cell: k.cell, Quantities: Quantities{}})
		}
		rows[i].Quantities.Add(r.Quantities)
		totals.Add(r.Quantities)
	}
	slices.SortFunc(rows, func(a, b UsageRow) int {
		if c := a.From.Compare(b.From); c != 0 {
			return c
		}
		return strings.Compare(a.Cell.order(), b.Cell.order())
	})
	return rows, totals, nil
}

// order is a text that sorts cells; NUL is in no name.
func (c Cell) order() string {
	return strings.Join([]string{c.NamespaceID, c.Topic, c.Group, c.APIKeyID, string(c.Class), string(c.Protocol)}, "\x00")
}
