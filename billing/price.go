package billing

import (
	"math/big"
	"time"
)

// Meter is a quantity with a price.
type Meter string

// The meters of the price book.
const (
	MeterUnits   Meter = "billable_units" // 4 KiB units, in and out
	MeterEgress  Meter = "egress_bytes"   // bytes delivered
	MeterStorage Meter = "stored_byte_ms" // bytes kept, over time
)

// Quantity returns what the meter counts of a period's usage.
func (m Meter) Quantity(q Quantities) *big.Int {
	switch m {
	case MeterUnits:
		return new(big.Int).Add(q.Of(Units4In), q.Of(Units4Out))
	case MeterEgress:
		return q.Of(BytesOut)
	case MeterStorage:
		return q.Of(StoredByteMillis)
	}
	return new(big.Int)
}

// Price is what PricePer units of a meter cost, in millionths of the book's
// currency; Included units of a calendar month are free.
type Price struct {
	Meter           Meter
	Unit            string // what is counted, one by one
	PricePer        *big.Int
	UnitPriceMicros *big.Int
	Included        *big.Int
	Description     string
}

// PriceBook holds for a time. A book in force never changes: another price is
// another book.
type PriceBook struct {
	ID              string
	Currency        string
	MinorUnitDigits int32 // digits after the point of the currency's minor unit
	From            time.Time
	To              *time.Time // nil: until further notice
	Prices          []Price
	CreatedAt       time.Time
}

const (
	gib          = 1 << 30
	hourInMillis = 3_600_000
)

// Books returns the price books, oldest first.
func Books() []PriceBook {
	first := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	gibHour := new(big.Int).Mul(big.NewInt(gib), big.NewInt(hourInMillis))
	return []PriceBook{{
		ID: "pbk_2026_09", Currency: "USD", MinorUnitDigits: 2, From: first, CreatedAt: first,
		Prices: []Price{
			{Meter: MeterUnits, Unit: "unit_4k", PricePer: big.NewInt(1_000_000), UnitPriceMicros: big.NewInt(400_000),
				Included: big.NewInt(1_000_000), Description: "per million 4 KiB units sent or delivered"},
			{Meter: MeterEgress, Unit: "byte", PricePer: big.NewInt(gib), UnitPriceMicros: big.NewInt(90_000),
				Included: big.NewInt(gib), Description: "per GiB delivered"},
			{Meter: MeterStorage, Unit: "byte_ms", PricePer: gibHour, UnitPriceMicros: big.NewInt(140),
				Included: new(big.Int).Mul(gibHour, big.NewInt(720)), Description: "per GiB kept for an hour"},
		},
	}}
}

// BookAt returns the book in force at t, the first one for times before it.
func BookAt(t time.Time) PriceBook {
	books := Books()
	found := books[0]
	for _, b := range books {
		if !b.From.After(t) {
			found = b
		}
	}
	return found
}

// Line is one line of the bill.
type Line struct {
	Price        Price
	Quantity     *big.Int
	Included     *big.Int // free units that were used
	Billable     *big.Int // Quantity less Included
	AmountMicros *big.Int // for show: what small sums come to
	Amount       *big.Int // minor units, rounded once, half away from zero
}

// Rate prices a month's usage. It is a pure function: no clock, no database,
// no floating point.
func Rate(book PriceBook, usage Quantities) (lines []Line, total *big.Int) {
	total = new(big.Int)
	microsPerMinor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(6-book.MinorUnitDigits)), nil)
	for _, p := range book.Prices {
		l := Line{Price: p, Quantity: p.Meter.Quantity(usage)}
		l.Included = minInt(l.Quantity, p.Included)
		l.Billable = new(big.Int).Sub(l.Quantity, l.Included)
		exact := new(big.Int).Mul(l.Billable, p.UnitPriceMicros) // over PricePer
		l.AmountMicros = divRound(exact, p.PricePer)
		l.Amount = divRound(exact, new(big.Int).Mul(p.PricePer, microsPerMinor))
		total.Add(total, l.Amount)
		lines = append(lines, l)
	}
	return lines, total
}

func minInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// divRound divides and rounds half away from zero; d is positive.
func divRound(n, d *big.Int) *big.Int {
	abs := new(big.Int).Abs(n)
	q := new(big.Int).Add(new(big.Int).Lsh(abs, 1), d)
	q.Div(q, new(big.Int).Lsh(d, 1))
	if n.Sign() < 0 {
		q.Neg(q)
	}
	return q
}

// Costs are what a month costs so far.
type Costs struct {
	From, To        time.Time
	PlanID          string
	Book            PriceBook
	CompleteThrough time.Time
	Final           bool // the month is over and complete
	Lines           []Line
	Total           *big.Int // minor units; the sum of the lines' amounts
}
