package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
)

// props encodes "key=value" pairs.
func props(pairs ...string) []byte {
	var out []byte
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		out = message.AppendProperty(out, k, v)
	}
	return out
}

// The rows marked R are RocketMQ's own answers, tried against its parser.
func TestMatch_sql(t *testing.T) {
	m := props("a=5", "b=true", "c=1.5", "s=hello", "q=it's", "big=3000000000", "neg=-7", "e=5e0", "sp= 2.5 ", "TAGS=TagA", "KEYS=k1", "$x_1=y", "wide=名字", "hidden=1")
	for _, tc := range []struct {
		expression string
		want       bool
	}{
		{"a = 5", true},
		{"a=5", true},
		{"a <> 6", true},
		{"a <> 5", false},
		{"A = 5", false}, // names keep their case
		{"a = '5'", true},
		{"a = '5.0'", false},
		{"a = 5.0", true},
		{"c = 1.5", true},
		{"c = 1", false},            // R: 1.5 is no whole number: an error
		{"c > 1", false},            // R
		{"c > 1.0", true},           // R
		{"NOT (c > 1)", false},      // an error stays one
		{"c > 1 OR a = 5", false},   // R: an error on the way ends it
		{"a = 5 OR c > 1", true},    // not reached
		{"a > 4 AND a < 6", true},   //
		{"a >= 5 AND a <= 5", true}, //
		{"a > 5 OR a < 5", false},   //
		{"5 < a", false},            //
		{"4 < a", true},             //
		{"a > c", true},             // two properties are fractions
		{"a > s", false},            //
		{"s > 5", false},            //
		{"s = 5", false},            //
		{"s <> 5", false},           // R: an error, not unequal
		{"big > 5", true},           // ours: 64 bits
		{"neg = -7", true},          //
		{"neg < -6.5", true},
		{"a > -3", true},                //
		{"a > +3", true},                //
		{"- a = 5", false},              // R: NULL
		{"sp > 2.0", true},              // Java trims
		{"sp = 2", false},               //
		{"e = 5.", true},                //
		{"e = .5e1", true},              //
		{"e = 5e0", true},               //
		{"a > 0.0", true},               // ours
		{"a BETWEEN 5 AND 6", true},     //
		{"a between 1 and 4", false},    //
		{"a NOT BETWEEN 1 AND 4", true}, //
		{"missing BETWEEN 1 AND 4", false},
		{"a BETWEEN 1 AND missing", false},
		{"a NOT BETWEEN 1 AND missing", false},
		{"a NOT BETWEEN 6 AND missing", true}, // under the low bound
		{"a BETWEEN missing AND 6", false},
		{"a NOT BETWEEN missing AND 4", true},
		{"s BETWEEN 1 AND 4", false},
		{"missing NOT BETWEEN 1 AND 4", false},
		{"s IN ('x', 'hello')", true},
		{"s NOT IN ('x', 'hello')", false},
		{"s NOT IN ('x')", true},
		{"missing IN ('x')", false},
		{"missing NOT IN ('x')", false}, // R
		{"missing IS NULL", true},
		{"missing IS NOT NULL", false},
		{"a IS NULL", false},
		{"a IS NOT NULL", true},
		{"missing <> 6", false},      // R
		{"NOT (missing = 1)", false}, // R
		{"missing = other", true},    // R: both absent
		{"a = missing", false},
		{"missing = a", false},
		{"a <> missing", true}, // R
		{"missing <> a", false},
		{"missing IS NULL OR missing > 5", true},
		{"missing > 5 OR a = 5", true},
		{"missing > 5 AND a = 5", false},
		{"missing > 5 AND a = 6", false},
		{"s CONTAINS 'ell'", true},
		{"s NOT CONTAINS 'ell'", false},
		{"s STARTSWITH 'he'", true},
		{"s startswith 'e'", false},
		{"s ENDSWITH 'lo'", true},
		{"s NOT ENDSWITH 'he'", true},
		{"s CONTAINS ''", false},            // R
		{"missing NOT CONTAINS 'x'", false}, // R
		{"'hello' CONTAINS 'ell'", true},
		{"b = TRUE", true},
		{"b = true", true},
		{"b <> FALSE", true},
		{"TRUE = b", false}, // R: an error
		{"b", false},        // R: a text is never true
		{"NOT b", true},
		{"NOT a = 5", false}, // R: (NOT a) = 5
		{"NOT (a = 5)", false},
		{"NOT (a = 6)", true},
		{"not not (a = 5)", true},
		{"TRUE", true},
		{"FALSE", false},
		{"NULL", false},
		{"TRUE AND TRUE OR FALSE", true},
		{"a = 6 AND b = TRUE OR s = 'hello'", true}, // AND before OR
		{"a = 6 AND (b = TRUE OR s = 'hello')", false},
		{"a = 5 = TRUE", true},
		{"q = 'it''s'", true},
		{"wide = '名字'", true},
		{"TAGS = 'TagA' AND KEYS = 'k1'", true},
		{"$x_1 = 'y'", true},
		{"a = 5 -- the end", true},
		{"/* first */ a /* ** */ = 5", true},
		{"a\n=\t5\r\n", true},
		{"a = 5L", true},
		{"'1' = '1'", true},
		{"1 = 1", true},
		{"1 = 1.0", true},
		{"hidden = 1", false},
		{"hidden IS NULL", true},
	} {
		f, err := Parse(KindSQL, tc.expression, "hidden")
		if err != nil {
			t.Errorf("%s: %v", tc.expression, err)
			continue
		}
		if got := f.Match(m); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.expression, got, tc.want)
		}
		if !f.MatchCode(1) || !f.SQL() || f.Bytes() < len(tc.expression) {
			t.Errorf("%s: the tag decides, or no memory is counted", tc.expression)
		}
	}
}

func TestParse_errors_B026(t *testing.T) {
	deep := strings.Repeat("(", 2000) + "a = 1" + strings.Repeat(")", 2000)
	for _, tc := range []struct {
		expression string
		position   int
		text       string
	}{
		{"", 0, "empty"},
		{"  ", 0, "empty"},
		{"a/b > 1", 2, "cannot calculate"},
		{"a + b > 1", 3, "unexpected"},
		{"a != 1", 3, "<>"},
		{"a == 1", 4, "unexpected"},
		{"f(a) = 1", 2, "unexpected"},
		{"a = 5 garbage", 7, "unexpected"},
		{"s LIKE 'h%'", 3, "there is no LIKE"},
		{"a = 'x", 5, "no closing quote"},
		{"a = \"x\"", 5, "single quotes"},
		{"a = ", 5, "the expression ends"},
		{"(a = 1", 7, "the expression ends"},
		{"a = 1)", 6, "unexpected"},
		{"a between 3 and 1", 11, "lower bound"},
		{"a between 'x' and 'y'", 11, "compare numbers"},
		{"a between 1", 12, "AND"},
		{"a > 'x'", 5, "compare numbers"},
		{"a > TRUE", 5, "compare numbers"},
		{"(a = 1) > 2", 1, "compare numbers"},
		{"a = NULL", 5, "IS NULL"},
		{"NULL = a", 1, "IS NULL"},
		{"TRUE = 1", 1, "truth value"},
		{"a IN (1, 2)", 7, "text in single quotes"},
		{"a IN ()", 7, "text in single quotes"},
		{"5 IN ('a')", 1, "property on its left"},
		{"a CONTAINS 5", 12, "text in single quotes"},
		{"a NOT = 5", 7, "behind NOT"},
		{"a IS 5", 6, "NULL"},
		{"5", 1, "no condition"},
		{"'x' AND a = 1", 1, "no condition"},
		{"a = 1 OR 5", 10, "no condition"},
		{"NOT 5", 1, "no condition"},
		{"a = 05", 5, "begin with 0"},
		{"a = 5x", 5, "followed by"},
		{"a = 1.2.3", 5, "followed by"},
		{"a = 1e", 5, "exponent"},
		{"a = .", 5, "unexpected"},
		{"a = 9223372036854775808", 5, "largest number"},
		{"a = 1e999", 5, "largest number"},
		{"名 = 1", 1, "unexpected"},
		{"a = '名' # 1", 9, "unexpected"},
		{"a.b = 1", 2, "unexpected"},
		{"/* a = 1", 1, "not closed"},
		{"a = \x00", 5, "unexpected"},
		{"a = '\xff'", 0, "UTF-8"},
		{deep, MaxDepth + 1, "inside each other"},
		{strings.Repeat("NOT ", 200) + "(a = 1)", 4*MaxDepth + 1, "inside each other"},
		{strings.Repeat("a = ", 200) + "a", 1, "in a row"},
		{"a = '" + strings.Repeat("x", 64<<10) + "'", 0, "at most 16384"},
	} {
		_, err := Parse(KindSQL, tc.expression)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.40q: got %v, want a syntax error", tc.expression, err)
			continue
		}
		if syntax.Position != tc.position || !strings.Contains(syntax.Text, tc.text) {
			t.Errorf("%.40q: got position %d %q, want %d and %q", tc.expression, syntax.Position, syntax.Text, tc.position, tc.text)
		}
		if len(err.Error()) > 300 {
			t.Errorf("%.40q: the error has %d bytes", tc.expression, len(err.Error()))
		}
	}
}

func TestMatch_tags_B020(t *testing.T) {
	f, err := Parse(KindTag, " Aa || other ")
	if err != nil {
		t.Fatal(err)
	}
	if !f.MatchCode(message.TagsCode("Aa")) || !f.MatchCode(message.TagsCode("BB")) || f.MatchCode(message.TagsCode("C")) || f.MatchCode(0) {
		t.Error("the code of Aa, which BB has as well, decides wrongly")
	}
	for tag, want := range map[string]bool{"Aa": true, "other": true, "BB": false, "A": false, "": false} {
		if got := f.Match(props("x=1", "TAGS="+tag)); got != want {
			t.Errorf("tag %q: got %v, want %v", tag, got, want)
		}
	}
	for _, all := range []string{"", "*", " * ", "a || *"} {
		if f, err := Parse("", all); f != nil || err != nil || !f.Match(nil) || !f.MatchCode(7) || f.SQL() {
			t.Errorf("%q does not take all: %v, %v", all, f, err)
		}
	}
	for _, bad := range []string{"||", strings.Repeat("t||", MaxTags+1), strings.Repeat("tag || ", MaxTags) + "z"} {
		if _, err := Parse(KindTag, bad); err == nil {
			t.Errorf("%.20q is accepted", bad)
		}
	}
	if _, err := Parse("XPATH", "x"); err == nil || !strings.Contains(err.Error(), "XPATH") {
		t.Errorf("unknown kind: %v", err)
	}
}

// An endless row of terms is one node: evaluation does not recurse over it.
func TestMatch_longRow(t *testing.T) {
	expression := strings.TrimSuffix(strings.Repeat("a=1 OR ", 2000), " OR ") + " OR b=2"
	f, err := Parse(KindSQL, expression)
	if err != nil {
		t.Fatal(err)
	}
	if f.Match(props("a=2")) || !f.Match(props("a=2", "b=2")) {
		t.Error("wrong answer")
	}
}

// More properties than have a place in the first pass are looked for one by
// one, with the same answers; the last of two entries counts for all.
func TestMatch_manyNames(t *testing.T) {
	var terms, pairs []string
	for i := range maxSlots + 10 {
		terms = append(terms, fmt.Sprintf("p%d = %d", i, i))
		pairs = append(pairs, fmt.Sprintf("p%d=wrong", i), fmt.Sprintf("p%d=%d", i, i))
	}
	f, err := Parse(KindSQL, strings.Join(terms, " AND "))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Match(props(pairs...)) {
		t.Error("all properties are there")
	}
	for i := range terms {
		less := append(append([]string{}, pairs[:2*i]...), pairs[2*i+2:]...)
		if f.Match(props(less...)) {
			t.Errorf("without p%d it matches", i)
		}
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]struct {
		n  int64
		ok bool
	}{
		"0": {0, true}, "-0": {0, true}, "+7": {7, true}, "0000000000000000000000005": {5, true}, "9223372036854775807": {1<<63 - 1, true},
		"9223372036854775808": {}, "-9223372036854775808": {-1 << 63, true}, "-9223372036854775809": {}, "": {}, "-": {}, "1 ": {}, "1.0": {}, "99999999999999999999": {},
	} {
		if n, ok := parseInt([]byte(text)); ok != want.ok || ok && n != want.n {
			t.Errorf("%q: got %d %v", text, n, ok)
		}
	}
}

const benchExpression = "price BETWEEN 10 AND 20 AND region IN ('north', 'south') AND title STARTSWITH 'x' AND vip = TRUE"

func benchProps() []byte {
	return props("UNIQ_KEY=7F000001000018B4AAC216E09E5A0000", "WAIT=true", "TAGS=TagA", "price=15", "region=south", "title=xylophone", "vip=true")
}

func TestMatch_allocatesNothing(t *testing.T) {
	f, err := Parse(KindSQL, benchExpression)
	if err != nil {
		t.Fatal(err)
	}
	m, bad := benchProps(), props("price=x", "region=south")
	if !f.Match(m) || f.Match(bad) {
		t.Fatal("wrong answer")
	}
	if n := testing.AllocsPerRun(100, func() { f.Match(m); f.Match(bad) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch_fourTerms(b *testing.B) {
	f, err := Parse(KindSQL, benchExpression)
	if err != nil {
		b.Fatal(err)
	}
	m := benchProps()
	b.ReportAllocs()
	for b.Loop() {
		f.Match(m)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a = 5", benchExpression, "NOT (a IS NULL) OR b NOT IN ('x','y')", "a between -1 and .5e1 -- c", "((a)) = 'it''s'"} {
		f.Add(s, []byte("a\x015\x02"))
	}
	f.Fuzz(func(t *testing.T, expression string, properties []byte) {
		flt, err := Parse(KindSQL, expression)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Position < 0 || syntax.Position > len(expression)+1 {
				t.Fatalf("%q: %v", expression, err)
			}
			return
		}
		flt.Match(properties)
		if flt.Bytes() > 64*len(expression)+1024 {
			t.Fatalf("%q: %d bytes", expression, flt.Bytes())
		}
		// Brackets change nothing.
		again, err := Parse(KindSQL, fmt.Sprintf("(%s\n)", expression))
		if err != nil {
			return // one level too deep, or a bare property
		}
		if flt.Match(properties) != again.Match(properties) {
			t.Fatalf("%q: brackets change the answer", expression)
		}
	})
}
