package billing

import (
	"encoding/csv"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"
)

// millis is how times are written everywhere: RFC 3339, UTC, milliseconds.
const millis = "2006-01-02T15:04:05.000Z"

// Seconds returns a sum of milliseconds in whole seconds, rounded half up.
func Seconds(ms *big.Int) *big.Int { return divRound(ms, big.NewInt(1000)) }

// WriteCSV writes the rows of u (RFC 4180). The columns are the fields of a
// usage row; a dimension that was not asked for has no column.
func (u Usage) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	dims := []struct {
		by   Dimension
		name string
		of   func(Cell) string
	}{
		{ByNamespace, "namespace_id", func(c Cell) string { return c.NamespaceID }},
		{ByTopic, "topic", func(c Cell) string { return c.Topic }},
		{ByGroup, "group", func(c Cell) string { return c.Group }},
		{ByAPIKey, "api_key_id", func(c Cell) string { return c.APIKeyID }},
		{ByClass, "class", func(c Cell) string { return string(c.Class) }},
		{ByProtocol, "protocol", func(c Cell) string { return string(c.Protocol) }},
	}
	header := []string{"from", "to"}
	for _, d := range dims {
		if slices.Contains(u.Query.GroupBy, d.by) {
			header = append(header, d.name)
		}
	}
	for _, c := range Counters() {
		header = append(header, column(c))
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for _, r := range u.Rows {
		line := []string{r.From.Format(millis), r.To.Format(millis)}
		for _, d := range dims {
			if slices.Contains(u.Query.GroupBy, d.by) {
				line = append(line, d.of(r.Cell))
			}
		}
		for _, c := range Counters() {
			line = append(line, shown(c, r.Quantities).String())
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// column names a counter to users; connection time is shown in seconds.
func column(c Counter) string {
	if c == ConnectionMillis {
		return "connection_seconds"
	}
	return string(c)
}

func shown(c Counter, q Quantities) *big.Int {
	if c == ConnectionMillis {
		return Seconds(q.Of(c))
	}
	return q.Of(c)
}

// WriteCSV writes the lines of c and its total.
func (c Costs) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	rows := [][]string{{"from", "to", "currency", "meter", "unit", "quantity", "included", "billable", "price_per", "unit_price_micros", "amount_micros", "amount"}}
	at := func(t time.Time) string { return t.Format(millis) }
	for _, l := range c.Lines {
		rows = append(rows, []string{at(c.From), at(c.To), c.Book.Currency, string(l.Price.Meter), l.Price.Unit, l.Quantity.String(), l.Included.String(),
			l.Billable.String(), l.Price.PricePer.String(), l.Price.UnitPriceMicros.String(), l.AmountMicros.String(), Decimal(l.Amount, c.Book.MinorUnitDigits)})
	}
	rows = append(rows, []string{at(c.From), at(c.To), c.Book.Currency, "total", "", "", "", "", "", "", "", Decimal(c.Total, c.Book.MinorUnitDigits)})
	return out.WriteAll(rows)
}

// Decimal writes minor units with the currency's point: 5 with two digits is
// "0.05".
func Decimal(minor *big.Int, digits int32) string {
	text := new(big.Int).Abs(minor).String()
	if n := int(digits) + 1 - len(text); n > 0 {
		text = strings.Repeat("0", n) + text
	}
	if digits > 0 {
		text = text[:len(text)-int(digits)] + "." + text[len(text)-int(digits):]
	}
	if minor.Sign() < 0 {
		text = "-" + text
	}
	return text
}
