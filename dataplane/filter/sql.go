package filter

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/sluicemq/sluice/dataplane/message"
)

// The nodes evaluate as RocketMQ's expressions do. Every property is a text;
// beside a number it must be one, beside a truth value it is true when it says
// so. What cannot be compared is an error, and an error anywhere that is
// reached means that the message does not match. NULL follows SQL's
// three-valued logic.
//
// We differ where it cannot take a message from anybody who got it before:
// whole numbers in properties have 64 bits beside every literal (RocketMQ: 32
// bits beside a small one), 0.0 is a number, and text behind a complete
// expression is refused, not ignored.

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInt
	kindFloat
	kindText
	kindError
)

type value struct {
	kind kind
	yes  bool
	n    int64 // of a whole number; the bits of a fraction
	text []byte
}

func fraction(f float64) value { return value{kind: kindFloat, n: int64(math.Float64bits(f))} }

func (v value) f() float64 { return math.Float64frombits(uint64(v.n)) }

// node is a part of an expression.
type node interface {
	// eval returns the value for a message. Its text aliases the message's.
	eval(m *view) value
}

// maxSlots is how many properties of an expression are found in one pass over
// a message; what it names beyond is looked for one by one.
const maxSlots = 16

// view is one message as an expression sees it.
type view struct {
	properties []byte
	values     [maxSlots][]byte // by slot; nil for one that is absent
}

var views = sync.Pool{New: func() any { return new(view) }}

// matchSQL evaluates the expression.
func (f *Filter) matchSQL(properties []byte) bool {
	m := views.Get().(*view)
	m.properties = properties
	for k, v := range message.Properties(properties) {
		for i, name := range f.names {
			if len(k) == len(name) && string(k) == name {
				m.values[i] = v
				break
			}
		}
	}
	v := f.sql.eval(m)
	clear(m.values[:len(f.names)])
	m.properties = nil
	views.Put(m)
	return v.kind == kindBool && v.yes
}

var (
	yes   = value{kind: kindBool, yes: true}
	no    = value{kind: kindBool}
	wrong = value{kind: kindError}
)

func truthOf(b bool) value {
	if b {
		return yes
	}
	return no
}

type (
	constant     struct{ value }
	propertyNode struct {
		name string
		slot int // -1: none
	}
	absent       struct{} // a property that no expression sees
	castNode     struct{ x propertyNode }
	notNode      struct{ x node }
	negativeNode struct{ x node }
	andNode      []node
	orNode       []node
	equalNode    struct{ l, r node }
	orderNode    struct {
		order order
		l, r  node
	}
	betweenNode struct {
		x, low, high node
		not          bool
	}
	inNode struct {
		x     propertyNode
		texts []string // sorted
		not   bool
	}
	textNode struct {
		x    node
		text string
		find find
		not  bool
	}
)

type order uint8

const (
	orderGreater order = iota
	orderGreaterEqual
	orderLess
	orderLessEqual
)

var orders = map[string]order{">": orderGreater, ">=": orderGreaterEqual, "<": orderLess, "<=": orderLessEqual}

type find uint8

const (
	findInside find = iota
	findStart
	findEnd
)

var finds = map[string]find{"CONTAINS": findInside, "STARTSWITH": findStart, "ENDSWITH": findEnd}

// truth tells whether a node is true, false or NULL by its nature.
func truth(n node) bool {
	switch n := n.(type) {
	case constant:
		return n.kind == kindBool || n.kind == kindNull
	case propertyNode, negativeNode:
		return false
	}
	return true
}

func (c constant) eval(*view) value { return c.value }

func (absent) eval(*view) value { return value{} }

func (p propertyNode) eval(m *view) value {
	if p.slot >= 0 {
		if text := m.values[p.slot]; text != nil {
			return value{kind: kindText, text: text}
		}
		return value{}
	}
	text, ok := message.FindProperty(m.properties, p.name)
	if !ok {
		return value{}
	}
	return value{kind: kindText, text: text}
}

// eval of a bare property: a text is never true.
func (c castNode) eval(m *view) value {
	if c.x.eval(m).kind == kindNull {
		return value{}
	}
	return no
}

func (n notNode) eval(m *view) value {
	v := n.x.eval(m)
	if v.kind == kindBool {
		v.yes = !v.yes
	}
	return v
}

func (n negativeNode) eval(m *view) value {
	v := n.x.eval(m)
	if v.kind == kindError {
		return v
	}
	return v.negative()
}

// negative is NULL for what is no number.
func (v value) negative() value {
	switch v.kind {
	case kindInt:
		return value{kind: kindInt, n: -v.n}
	case kindFloat:
		return fraction(-v.f())
	}
	return value{}
}

func (a andNode) eval(m *view) value {
	result := yes
	for _, n := range a {
		v := n.eval(m)
		switch {
		case v.kind == kindNull:
			result = v
		case v.kind == kindError || !v.yes:
			return v
		}
	}
	return result
}

func (o orNode) eval(m *view) value {
	result := no
	for _, n := range o {
		v := n.eval(m)
		switch {
		case v.kind == kindNull:
			result = v
		case v.kind == kindError || v.yes:
			return v
		}
	}
	return result
}

// eval: NULL on the left alone is NULL, on the right alone is false, on both
// sides is true; so IS NULL is this with NULL on the right.
func (e equalNode) eval(m *view) value {
	l := e.l.eval(m)
	if l.kind == kindError {
		return l
	}
	r := e.r.eval(m)
	switch {
	case r.kind == kindError:
		return r
	case l.kind == kindNull && r.kind == kindNull:
		return yes
	case l.kind == kindNull:
		return l
	case r.kind == kindNull:
		return no
	}
	n, ok := compare(l, r)
	if !ok {
		return wrong
	}
	return truthOf(n == 0)
}

func (o orderNode) eval(m *view) value {
	l := o.l.eval(m)
	if l.kind == kindError || l.kind == kindNull {
		return l
	}
	return o.order.of(l, o.r.eval(m))
}

// of compares two values of which the left one is neither NULL nor an error.
func (o order) of(l, r value) value {
	if r.kind == kindError || r.kind == kindNull {
		return r
	}
	if l.kind == kindText && r.kind == kindText {
		var lOK, rOK bool
		if l, lOK = l.float(); !lOK {
			return wrong
		}
		if r, rOK = r.float(); !rOK {
			return wrong
		}
	}
	n, ok := compare(l, r)
	if !ok {
		return wrong
	}
	switch o {
	case orderGreater:
		return truthOf(n > 0)
	case orderGreaterEqual:
		return truthOf(n >= 0)
	case orderLess:
		return truthOf(n < 0)
	}
	return truthOf(n <= 0)
}

// eval: NOT BETWEEN is "under the low bound or over the high one", which is
// not the same as NOT (BETWEEN) when a bound is NULL.
func (b betweenNode) eval(m *view) value {
	x := b.x.eval(m)
	if x.kind == kindError || x.kind == kindNull {
		return x
	}
	under, over := orderGreaterEqual, orderLessEqual
	if b.not {
		under, over = orderLess, orderGreater
	}
	low := under.of(x, b.low.eval(m))
	if low.kind == kindError || low.kind == kindBool && low.yes == b.not {
		return low
	}
	high := over.of(x, b.high.eval(m))
	if low.kind == kindNull && high.kind == kindBool && high.yes != b.not {
		return low
	}
	return high
}

func (i inNode) eval(m *view) value {
	v := i.x.eval(m)
	if v.kind != kindText {
		return value{}
	}
	_, found := slices.BinarySearch(i.texts, unsafe.String(unsafe.SliceData(v.text), len(v.text)))
	return truthOf(found != i.not)
}

// eval is false, not NULL, for what is absent or no text, and for an empty
// text to find: also with NOT.
func (t textNode) eval(m *view) value {
	v := t.x.eval(m)
	if v.kind == kindError {
		return v
	}
	if v.kind != kindText || t.text == "" {
		return no
	}
	text := unsafe.Slice(unsafe.StringData(t.text), len(t.text))
	var found bool
	switch t.find {
	case findInside:
		found = bytes.Contains(v.text, text)
	case findStart:
		found = bytes.HasPrefix(v.text, text)
	case findEnd:
		found = bytes.HasSuffix(v.text, text)
	}
	return truthOf(found != t.not)
}

// compare orders two values that are not NULL; ok is false when they cannot be
// compared. What differs in nature is unequal.
func compare(l, r value) (n int, ok bool) {
	switch {
	case l.kind == r.kind:
	case l.kind == kindInt && r.kind == kindFloat:
		l = fraction(float64(l.n))
	case l.kind == kindFloat && r.kind == kindInt:
		r = fraction(float64(r.n))
	case l.kind == kindText && r.kind == kindBool:
		l, ok = truthOf(bytes.EqualFold(l.text, []byte("true"))), true
	case l.kind == kindText:
		if l, ok = l.like(r.kind); !ok {
			return 0, false
		}
	case r.kind == kindText:
		if r, ok = r.like(l.kind); !ok {
			return 0, false
		}
	default:
		return -1, true
	}
	switch l.kind {
	case kindBool:
		return cmp.Compare(bit(l.yes), bit(r.yes)), true
	case kindInt:
		return cmp.Compare(l.n, r.n), true
	case kindFloat:
		return compareFloats(l.f(), r.f()), true
	}
	return bytes.Compare(l.text, r.text), true
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareFloats orders as Java's Double does: NaN is over everything.
func compareFloats(l, r float64) int {
	switch {
	case math.IsNaN(l) && math.IsNaN(r):
		return 0
	case math.IsNaN(l):
		return 1
	case math.IsNaN(r):
		return -1
	}
	return cmp.Compare(l, r)
}

// like reads a text as a number of a kind.
func (v value) like(k kind) (value, bool) {
	switch k {
	case kindInt:
		n, ok := parseInt(v.text)
		return value{kind: kindInt, n: n}, ok
	case kindFloat:
		return v.float()
	}
	return value{}, false
}

// parseInt reads a whole number of 64 bits. Unlike strconv it makes no error
// value: properties that are no numbers are nothing special.
func parseInt(text []byte) (int64, bool) {
	digits, negative := text, false
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		negative, digits = digits[0] == '-', digits[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	if digits = bytes.TrimLeft(digits, "0"); len(digits) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if !digit(c) {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// float reads a decimal fraction, as Java's Double.valueOf does but for hex
// digits and the suffixes f and d.
func (v value) float() (value, bool) {
	text := bytes.TrimSpace(v.text)
	if len(text) == 0 || len(text) > 400 || bytes.IndexByte(text, '_') >= 0 {
		return value{}, false
	}
	if c := text[0]; !digit(c) && c != '-' && c != '+' && c != '.' && c != 'N' && c != 'I' {
		return value{}, false
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if err != nil && !math.IsInf(f, 0) {
		return value{}, false
	}
	return fraction(f), true
}
