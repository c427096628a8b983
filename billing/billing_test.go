package billing

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

var now = time.Date(2026, 11, 29, 12, 30, 15, 0, time.UTC)

func q(pairs ...any) Quantities {
	out := Quantities{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(Counter)] = big.NewInt(int64(pairs[i+1].(int)))
	}
	return out
}

func TestRate_freeThenPriced(t *testing.T) {
	book := BookAt(now)
	for _, c := range []struct {
		units  int
		micros string
		amount string
	}{
		{0, "0", "0"}, {1_000_000, "0", "0"}, {1_000_001, "0", "0"},
		{1_012_499, "5000", "0"}, // 0.4999… cents
		{1_012_500, "5000", "1"}, // half a cent rounds away from zero
		{3_000_000, "800000", "80"},
	} {
		lines, total := Rate(book, q(Units4In, c.units-c.units/2, Units4Out, c.units/2))
		if got := lines[0]; got.AmountMicros.String() != c.micros || got.Amount.String() != c.amount || total.String() != c.amount {
			t.Errorf("%d units: %s micros, %s cents, total %s; want %s, %s", c.units, got.AmountMicros, got.Amount, total, c.micros, c.amount)
		}
	}
}

// An exact rational is the oracle; lines must add up to the total, and more
// usage must never cost less.
func TestRate_againstRationals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	book := BookAt(now)
	for range 20_000 {
		usage := q(Units4In, rnd.IntN(1<<40), Units4Out, rnd.IntN(1<<40), BytesOut, rnd.IntN(1<<50))
		usage[StoredByteMillis] = new(big.Int).Mul(big.NewInt(rnd.Int64N(1<<60)), big.NewInt(rnd.Int64N(1<<20)))
		lines, total := Rate(book, usage)
		sum := new(big.Int)
		for _, l := range lines {
			exact := new(big.Rat).SetFrac(new(big.Int).Mul(l.Billable, l.Price.UnitPriceMicros), l.Price.PricePer)
			exact.Quo(exact, big.NewRat(10_000, 1)) // cents
			diff := new(big.Rat).Sub(new(big.Rat).SetInt(l.Amount), exact)
			if diff.Abs(diff).Cmp(big.NewRat(1, 2)) > 0 {
				t.Fatalf("%s: %s cents for %s units", l.Price.Meter, l.Amount, l.Billable)
			}
			if new(big.Int).Add(l.Billable, l.Included).Cmp(l.Quantity) != 0 || l.Billable.Sign() < 0 {
				t.Fatalf("%s: %s = %s + %s", l.Price.Meter, l.Quantity, l.Billable, l.Included)
			}
			sum.Add(sum, l.Amount)
		}
		if sum.Cmp(total) != 0 {
			t.Fatalf("lines add up to %s, total %s", sum, total)
		}
		usage.Add(q(Units4In, 1, BytesOut, 1))
		if _, more := Rate(book, usage); more.Cmp(total) < 0 {
			t.Fatalf("more usage costs less: %s after %s", more, total)
		}
	}
}

func TestRate_beyond64Bits(t *testing.T) {
	pib := new(big.Int).Lsh(big.NewInt(1), 50)
	month := big.NewInt(30 * 24 * hourInMillis)
	lines, _ := Rate(BookAt(now), Quantities{StoredByteMillis: new(big.Int).Mul(pib, month)})
	// 1 PiB for 720 h: 1048576 GiB * 720 h, less 720 free, at 140 millionths.
	want := new(big.Int).Div(big.NewInt((1048576*720-720)*140), big.NewInt(10_000))
	if lines[2].Amount.Cmp(want) != 0 {
		t.Errorf("got %s cents, want %s", lines[2].Amount, want)
	}
}

func TestDivRound_halfAwayFromZero(t *testing.T) {
	for _, c := range []struct{ n, d, want int64 }{{5, 10, 1}, {4, 10, 0}, {-5, 10, -1}, {-4, 10, 0}, {15, 10, 2}, {25, 10, 3}, {0, 3, 0}} {
		if got := divRound(big.NewInt(c.n), big.NewInt(c.d)); got.Int64() != c.want {
			t.Errorf("%d/%d = %s, want %d", c.n, c.d, got, c.want)
		}
	}
}

func TestUsageQuery_normalise(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }
	def := UsageQuery{TenantID: "ten_a"}
	if err := def.Normalise(now); err != nil || !def.From.Equal(day(1)) || !def.To.Equal(day(30)) || def.Grain != GrainDay {
		t.Errorf("defaults: %+v, %v", def, err)
	}
	odd := UsageQuery{TenantID: "ten_a", Grain: GrainHour, From: day(3).Add(90 * time.Minute), To: day(3).Add(2 * time.Hour)}
	if err := odd.Normalise(now); err != nil || !odd.From.Equal(day(3).Add(time.Hour)) || !odd.To.Equal(day(3).Add(2*time.Hour)) {
		t.Errorf("aligned: %+v, %v", odd, err)
	}
	for _, c := range []struct {
		name, field string
		q           UsageQuery
	}{
		{"end before start", "to", UsageQuery{From: day(2), To: day(1)}},
		{"empty range", "to", UsageQuery{From: day(2), To: day(2)}},
		{"unknown grain", "grain", UsageQuery{Grain: "week"}},
		{"three dimensions", "group_by", UsageQuery{GroupBy: []Dimension{ByTopic, ByGroup, ByAPIKey}}},
		{"unknown dimension", "group_by", UsageQuery{GroupBy: []Dimension{"colour"}}},
		{"the same twice", "group_by", UsageQuery{GroupBy: []Dimension{ByTopic, ByTopic}}},
		{"too many periods", "from", UsageQuery{Grain: GrainMinute, From: day(1), To: day(3)}},
		{"a century of minutes", "from", UsageQuery{Grain: GrainMinute, From: day(1), To: day(1).AddDate(100, 0, 0)}},
	} {
		c.q.TenantID = "ten_a"
		err := c.q.Normalise(now)
		var e *errs.Error
		if !errors.As(err, &e) || e.Code != errs.Invalid || e.Field != c.field {
			t.Errorf("%s: %v, want field %s", c.name, err, c.field)
		}
	}
}

func TestGrains_tileTime(t *testing.T) {
	for _, g := range []Grain{GrainMinute, GrainHour, GrainDay, GrainMonth} {
		at := time.Date(2027, 12, 31, 23, 59, 59, 0, time.UTC)
		for range 5000 {
			start := g.Floor(at)
			end := g.Next(start)
			if at.Before(start) || !at.Before(end) || !g.Floor(end).Equal(end) || !g.Floor(end.Add(-time.Nanosecond)).Equal(start) {
				t.Fatalf("%s at %s: [%s, %s)", g, at, start, end)
			}
			at = at.Add(time.Duration(rand.Int64N(int64(50 * time.Hour))))
		}
	}
}

// fakeStore answers with fixed records.
type fakeStore struct{ records []Record }

func (f fakeStore) Usage(context.Context, UsageQuery) ([]Record, error) { return f.records, nil }
func (f fakeStore) CompleteThrough(context.Context) (time.Time, error) {
	return now.Truncate(time.Minute), nil
}

func TestUsage_breakdownAddsUpToTotals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var records []Record
	for range 2000 {
		records = append(records, Record{
			Start: GrainDay.Floor(now).AddDate(0, 0, -rnd.IntN(20)),
			Cell: Cell{NamespaceID: fmt.Sprint("ns", rnd.IntN(2)), Topic: fmt.Sprint("t", rnd.IntN(5)), Group: fmt.Sprint("g", rnd.IntN(3)),
				APIKeyID: fmt.Sprint("slk_", rnd.IntN(4)), Class: ClassNormal, Protocol: ProtocolGRPC},
			Quantities: q(MessagesIn, rnd.IntN(3), BytesOut, rnd.IntN(1000)),
		})
	}
	s := NewService(fakeStore{records}, func() time.Time { return now })
	var first Quantities
	for _, dims := range [][]Dimension{nil, {ByTopic}, {ByGroup, ByAPIKey}, {ByNamespace, ByTopic}, {ByClass, ByProtocol}} {
		u, err := s.Usage(t.Context(), UsageQuery{TenantID: "ten_a", GroupBy: dims})
		if err != nil {
			t.Fatal(err)
		}
		sum := Quantities{}
		for i, r := range u.Rows {
			sum.Add(r.Quantities)
			if i > 0 && u.Rows[i-1].From.Equal(r.From) && u.Rows[i-1].Cell.order() >= r.Cell.order() {
				t.Errorf("rows %d and %d are out of order or the same", i-1, i)
			}
			if keep(r.Cell, dims) != r.Cell {
				t.Errorf("row %+v shows a dimension that was not asked for", r.Cell)
			}
		}
		if first == nil {
			first = u.Totals
		}
		for _, c := range Counters() {
			if sum.Of(c).Cmp(u.Totals.Of(c)) != 0 || first.Of(c).Cmp(u.Totals.Of(c)) != 0 {
				t.Errorf("%v %s: rows %s, totals %s, undivided %s", dims, c, sum.Of(c), u.Totals.Of(c), first.Of(c))
			}
		}
	}
}

func TestCSV(t *testing.T) {
	s := NewService(fakeStore{[]Record{
		{Start: GrainDay.Floor(now), Cell: Cell{Topic: "orders"}, Quantities: q(MessagesIn, 9007199254740993, ConnectionMillis, 1500)},
		{Start: GrainDay.Floor(now), Cell: Cell{Topic: "zero"}},
	}}, func() time.Time { return now })
	u, err := s.Usage(t.Context(), UsageQuery{TenantID: "ten_a", GroupBy: []Dimension{ByTopic}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := u.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	want := "from,to,topic,messages_in,messages_out,bytes_in,bytes_out,units4k_in,units4k_out,units64k_in,units64k_out,api_calls,empty_polls,byte_ms_stored,connection_seconds,rejected\r\n" +
		"2026-11-29T00:00:00.000Z,2026-11-30T00:00:00.000Z,orders,9007199254740993,0,0,0,0,0,0,0,0,0,0,2,0\r\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	c, err := s.Costs(t.Context(), "ten_a", "pln_free", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := c.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 5 || rows[4][3] != "total" || rows[4][11] != "0.00" {
		t.Errorf("%v, %v", rows, err)
	}
	if c.Final {
		t.Error("a running month is final")
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		minor  int64
		digits int32
		want   string
	}{{5, 2, "0.05"}, {-5, 2, "-0.05"}, {12345, 2, "123.45"}, {7, 0, "7"}, {0, 3, "0.000"}} {
		if got := Decimal(big.NewInt(c.minor), c.digits); got != c.want {
			t.Errorf("%d with %d digits is %s, want %s", c.minor, c.digits, got, c.want)
		}
	}
}
