package filter

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parser reads the grammar, lowest precedence first:
//
//	or         = and { OR and }
//	and        = equality { AND equality }
//	equality   = comparison { ( "=" | "<>" ) comparison | IS [ NOT ] NULL }
//	comparison = unary { ( ">" | ">=" | "<" | "<=" ) unary
//	           | [ NOT ] BETWEEN unary AND unary
//	           | [ NOT ] IN "(" text { "," text } ")"
//	           | [ NOT ] ( CONTAINS | STARTSWITH | ENDSWITH ) text }
//	unary      = ( "+" | "-" | NOT ) unary | primary
//	primary    = text | number | TRUE | FALSE | NULL | property | "(" or ")"
//
// NOT binds tighter than a comparison, as in RocketMQ: NOT a = 5 is (NOT a) = 5.
type parser struct {
	lexer
	tok    token // the next one
	depth  int
	bytes  int
	looks  int      // at properties
	names  []string // of properties, by slot
	hidden []string
}

func parseSQL(expression string, hidden []string) (*Filter, error) {
	switch {
	case strings.TrimSpace(expression) == "":
		return nil, &SyntaxError{Text: "the SQL92 expression is empty"}
	case len(expression) > MaxSQLBytes:
		return nil, &SyntaxError{Text: "the SQL92 expression has " + strconv.Itoa(len(expression)) + " bytes, at most " + strconv.Itoa(MaxSQLBytes) + " are allowed"}
	case !utf8.ValidString(expression):
		return nil, &SyntaxError{Text: "the SQL92 expression is not UTF-8"}
	}
	p := &parser{lexer: lexer{text: expression}, hidden: hidden}
	n, err := p.whole()
	if err != nil {
		return nil, err
	}
	return &Filter{sql: n, names: p.names, bytes: len(expression) + p.bytes, looks: p.looks}, nil
}

func (p *parser) whole() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		return nil, p.unexpected("AND, OR or the end")
	}
	return p.condition(n, 0)
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

// nodeBytes is about what a node takes.
const nodeBytes = 48

func (p *parser) node(n node) node {
	p.bytes += nodeBytes
	return n
}

// unexpected is the error for the next token.
func (p *parser) unexpected(want string) error {
	switch {
	case p.tok.kind == tokenEnd:
		return p.fail(p.tok.at, "the expression ends where %s is expected", want)
	case p.tok.kind == tokenName && strings.EqualFold(p.tok.text, "LIKE"):
		return p.fail(p.tok.at, "there is no LIKE: use CONTAINS, STARTSWITH or ENDSWITH")
	}
	return p.fail(p.tok.at, "unexpected %.40q, expected is %s", p.tok.text, want)
}

// word takes a reserved word if it comes next.
func (p *parser) word(w string) (bool, error) {
	if p.tok.kind != tokenWord || p.tok.text != w {
		return false, nil
	}
	return true, p.advance()
}

// sign takes one of the signs if it comes next; "" if not.
func (p *parser) sign(signs ...string) (string, error) {
	if p.tok.kind != tokenSign || !slices.Contains(signs, p.tok.text) {
		return "", nil
	}
	s := p.tok.text
	return s, p.advance()
}

func (p *parser) expectSign(s string) error {
	if got, err := p.sign(s); err != nil || got != "" {
		return err
	}
	return p.unexpected(strconv.Quote(s))
}

func (p *parser) expectWord(w string) error {
	if got, err := p.word(w); err != nil || got {
		return err
	}
	return p.unexpected(w)
}

// condition returns n as something that is true or false; at is where it
// begins.
func (p *parser) condition(n node, at int) (node, error) {
	if truth(n) {
		return n, nil
	}
	if property, ok := n.(propertyNode); ok {
		return p.node(castNode{property}), nil
	}
	return nil, p.fail(at, "this is no condition: compare it with something")
}

// logic reads operands that are joined by one word; one alone stays as it is.
func (p *parser) logic(w string, operand func() (node, error)) ([]node, error) {
	at := p.tok.at
	n, err := operand()
	if err != nil {
		return nil, err
	}
	terms := []node{n}
	for {
		more, err := p.word(w)
		if err != nil || !more {
			return terms, err
		}
		if len(terms) == 1 {
			if terms[0], err = p.condition(terms[0], at); err != nil {
				return nil, err
			}
		}
		at := p.tok.at
		n, err := operand()
		if err == nil {
			n, err = p.condition(n, at)
		}
		if err != nil {
			return nil, err
		}
		terms = append(terms, n)
		p.bytes += nodeBytes
	}
}

func (p *parser) or() (node, error) {
	terms, err := p.logic("OR", p.and)
	if err != nil || len(terms) == 1 {
		return one(terms), err
	}
	return p.node(orNode(terms)), nil
}

func (p *parser) and() (node, error) {
	terms, err := p.logic("AND", p.equality)
	if err != nil || len(terms) == 1 {
		return one(terms), err
	}
	return p.node(andNode(terms)), nil
}

func one(terms []node) node {
	if len(terms) == 0 {
		return nil
	}
	return terms[0]
}

// operator is sign for the n-th operator of a row that begins at start, which
// must not be too long: each is a step down in the tree.
func (p *parser) operator(n, start int, signs ...string) (string, error) {
	if n >= MaxDepth {
		return "", p.fail(start, "more than %d comparisons stand in a row without AND or OR", MaxDepth)
	}
	return p.sign(signs...)
}

func (p *parser) equality() (node, error) {
	start := p.tok.at
	left, err := p.comparison()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		s, err := p.operator(n, start, "=", "<>")
		if err != nil {
			return nil, err
		}
		if s != "" {
			at := p.tok.at
			right, err := p.comparison()
			if err != nil {
				return nil, err
			}
			if err := p.checkEqual(left, right, start, at); err != nil {
				return nil, err
			}
			left = p.negated(s == "<>", equalNode{left, right})
			continue
		}
		is, err := p.word("IS")
		if err != nil || !is {
			return left, err
		}
		not, err := p.word("NOT")
		if err != nil {
			return nil, err
		}
		if err := p.expectWord("NULL"); err != nil {
			return nil, err
		}
		left = p.negated(not, equalNode{left, constant{}})
	}
}

// negated is NOT n, or n.
func (p *parser) negated(not bool, n node) node {
	n = p.node(n)
	if not {
		n = p.node(notNode{n})
	}
	return n
}

func (p *parser) checkEqual(left, right node, leftAt, rightAt int) error {
	l, lConst := left.(constant)
	r, rConst := right.(constant)
	switch {
	case lConst && l.kind == kindNull:
		return p.fail(leftAt, "NULL cannot be compared: use IS NULL")
	case rConst && r.kind == kindNull:
		return p.fail(rightAt, "NULL cannot be compared: use IS NULL")
	case lConst && rConst && l.kind == kindBool && r.kind != kindBool:
		return p.fail(leftAt, "a truth value cannot be compared with a text or number")
	}
	return nil
}

func (p *parser) comparison() (node, error) {
	start := p.tok.at
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		s, err := p.operator(n, start, ">", ">=", "<", "<=")
		if err != nil {
			return nil, err
		}
		if s != "" {
			at := p.tok.at
			right, err := p.unary()
			if err == nil {
				err = errors.Join(p.checkOrdered(left, start), p.checkOrdered(right, at))
			}
			if err != nil {
				return nil, first(err)
			}
			left = p.node(orderNode{orders[s], left, right})
			continue
		}
		not, at := false, p.tok
		if at.kind == tokenWord && at.text == "NOT" {
			not = true
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		next, err := p.test(left, start, not)
		if err != nil {
			return nil, err
		}
		if next == nil {
			if not {
				return nil, p.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH behind NOT")
			}
			return left, nil
		}
		left = next
	}
}

// test reads what may follow an operand and a NOT; nil when there is nothing.
func (p *parser) test(left node, start int, not bool) (node, error) {
	if p.tok.kind != tokenWord {
		return nil, nil
	}
	switch w := p.tok.text; w {
	case "BETWEEN":
		return p.between(left, start, not)
	case "IN":
		return p.in(left, start, not)
	case "CONTAINS", "STARTSWITH", "ENDSWITH":
		if err := p.advance(); err != nil {
			return nil, err
		}
		text, err := p.quotedText()
		if err != nil {
			return nil, err
		}
		p.bytes += len(text)
		return p.node(textNode{left, text, finds[w], not}), nil
	}
	return nil, nil
}

func (p *parser) between(left node, start int, not bool) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	lowAt := p.tok.at
	low, err := p.unary()
	if err != nil {
		return nil, err
	}
	if err := p.expectWord("AND"); err != nil {
		return nil, err
	}
	highAt := p.tok.at
	high, err := p.unary()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.checkOrdered(left, start), p.checkOrdered(low, lowAt), p.checkOrdered(high, highAt)); err != nil {
		return nil, first(err)
	}
	l, lConst := low.(constant)
	h, hConst := high.(constant)
	if lConst && hConst {
		if n, ok := compare(h.value, l.value); ok && n < 0 {
			return nil, p.fail(lowAt, "BETWEEN wants the lower bound first")
		}
	}
	return p.node(betweenNode{left, low, high, not}), nil
}

func (p *parser) in(left node, start int, not bool) (node, error) {
	property, ok := left.(propertyNode)
	if !ok {
		return nil, p.fail(start, "IN wants a property on its left")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.expectSign("("); err != nil {
		return nil, err
	}
	var texts []string
	for {
		text, err := p.quotedText()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
		p.bytes += 16 + len(text)
		more, err := p.sign(",")
		if err != nil {
			return nil, err
		}
		if more == "" {
			break
		}
	}
	if err := p.expectSign(")"); err != nil {
		return nil, err
	}
	slices.Sort(texts)
	return p.node(inNode{property, texts, not}), nil
}

func (p *parser) quotedText() (string, error) {
	if p.tok.kind != tokenString {
		return "", p.unexpected("a text in single quotes")
	}
	text := p.tok.text
	return text, p.advance()
}

// checkOrdered refuses what cannot stand beside > >= < <=.
func (p *parser) checkOrdered(n node, at int) error {
	c, isConst := n.(constant)
	switch {
	case isConst && c.kind != kindInt && c.kind != kindFloat:
		return p.fail(at, "> >= < <= and BETWEEN compare numbers: here is none")
	case !isConst && truth(n):
		return p.fail(at, "> >= < <= and BETWEEN compare numbers: here is a condition")
	}
	return nil
}

// first is the first of joined errors.
func first(err error) error {
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return syntax
	}
	return err
}

func (p *parser) unary() (node, error) {
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(p.tok.at, "more than %d brackets, NOT and signs stand inside each other", MaxDepth)
	}
	defer func() { p.depth-- }()
	s, err := p.sign("+", "-")
	if err != nil {
		return nil, err
	}
	switch s {
	case "+":
		return p.unary()
	case "-":
		n, err := p.unary()
		if err != nil {
			return nil, err
		}
		if c, ok := n.(constant); ok && (c.kind == kindInt || c.kind == kindFloat) {
			c.value = c.value.negative()
			return c, nil
		}
		return p.node(negativeNode{n}), nil
	}
	at := p.tok.at
	not, err := p.word("NOT")
	if err != nil || !not {
		if err != nil {
			return nil, err
		}
		return p.primary()
	}
	n, err := p.unary()
	if err != nil {
		return nil, err
	}
	if n, err = p.condition(n, at); err != nil {
		return nil, err
	}
	return p.node(notNode{n}), nil
}

func (p *parser) primary() (node, error) {
	t := p.tok
	switch t.kind {
	case tokenString:
		p.bytes += len(t.text)
		return p.node(constant{value{kind: kindText, text: []byte(t.text)}}), p.advance()
	case tokenInt:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fail(t.at, "%.40s is over the largest number, %d", t.text, int64(math.MaxInt64))
		}
		return p.node(constant{value{kind: kindInt, n: n}}), p.advance()
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.at, "%.40s is over the largest number, %g", t.text, math.MaxFloat64)
		}
		return p.node(constant{fraction(f)}), p.advance()
	case tokenName:
		if slices.Contains(p.hidden, t.text) {
			return p.node(absent{}), p.advance()
		}
		p.bytes += len(t.text)
		p.looks++
		return p.node(propertyNode{t.text, p.slot(t.text)}), p.advance()
	case tokenWord:
		switch t.text {
		case "TRUE", "FALSE":
			return p.node(constant{value{kind: kindBool, yes: t.text == "TRUE"}}), p.advance()
		case "NULL":
			return p.node(constant{}), p.advance()
		}
	case tokenSign:
		if t.text == "(" {
			return p.brackets()
		}
	}
	return nil, p.unexpected("a property, a text or a number")
}

// slot is the place of a property in a view, -1 when all are taken.
func (p *parser) slot(name string) int {
	if i := slices.Index(p.names, name); i >= 0 {
		return i
	}
	if len(p.names) == maxSlots {
		return -1
	}
	p.names = append(p.names, name)
	return len(p.names) - 1
}

func (p *parser) brackets() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	return n, p.expectSign(")")
}
