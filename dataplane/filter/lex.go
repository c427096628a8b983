package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenName             // a property
	tokenWord             // a reserved word, text in upper case
	tokenString           // text is the value
	tokenInt
	tokenFloat
	tokenSign // = <> > >= < <= ( ) , + -
)

type token struct {
	kind tokenKind
	text string
	at   int // byte offset of its first character
}

// words are reserved in every spelling of upper and lower case.
var words = map[string]bool{
	"NOT": true, "AND": true, "OR": true, "BETWEEN": true, "IN": true, "TRUE": true, "FALSE": true, "NULL": true, "IS": true,
	"CONTAINS": true, "STARTSWITH": true, "ENDSWITH": true,
}

// lexer splits an expression into tokens.
type lexer struct {
	text string
	at   int
}

// fail makes the error for what stands at a byte offset.
func (l *lexer) fail(at int, format string, args ...any) error {
	return &SyntaxError{Position: utf8.RuneCountInString(l.text[:at]) + 1, Text: fmt.Sprintf(format, args...)}
}

// next returns the next token; at the end one of tokenEnd, again and again.
func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	at := l.at
	if at == len(l.text) {
		return token{kind: tokenEnd, at: at}, nil
	}
	switch c := l.text[at]; {
	case nameStart(c):
		for l.at < len(l.text) && (nameStart(l.text[l.at]) || digit(l.text[l.at])) {
			l.at++
		}
		text := l.text[at:l.at]
		if upper := strings.ToUpper(text); words[upper] {
			return token{tokenWord, upper, at}, nil
		}
		return token{tokenName, text, at}, nil
	case digit(c), c == '.':
		return l.number()
	case c == '\'':
		return l.quoted()
	}
	for _, sign := range [...]string{"<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-"} {
		if strings.HasPrefix(l.text[at:], sign) {
			l.at += len(sign)
			return token{tokenSign, sign, at}, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.text[at:])
	switch r {
	case '!':
		return token{}, l.fail(at, "there is no operator \"!\": unequal is <>")
	case '*', '/', '%':
		return token{}, l.fail(at, "an expression cannot calculate: there is no operator %q", r)
	case '"':
		return token{}, l.fail(at, "a text stands in single quotes, a property name in none")
	}
	return token{}, l.fail(at, "unexpected character %q", r)
}

// skip passes over white space and comments.
func (l *lexer) skip() error {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case strings.IndexByte(" \t\n\r\f", rest[0]) >= 0:
			l.at++
		case strings.HasPrefix(rest, "--"):
			if n := strings.IndexAny(rest, "\r\n"); n >= 0 {
				l.at += n
			} else {
				l.at = len(l.text)
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return l.fail(l.at, "the comment is not closed")
			}
			l.at += 2 + n + 2
		default:
			return nil
		}
	}
	return nil
}

// number reads digits with an L behind them, or a decimal fraction.
func (l *lexer) number() (token, error) {
	at := l.at
	l.digits()
	whole := l.at > at
	float := false
	if l.at < len(l.text) && l.text[l.at] == '.' {
		float = true
		l.at++
		fraction := l.at
		l.digits()
		if !whole && l.at == fraction {
			return token{}, l.fail(at, "unexpected character '.'")
		}
	}
	if l.at < len(l.text) && (l.text[l.at] == 'e' || l.text[l.at] == 'E') {
		float = true
		l.at++
		if l.at < len(l.text) && (l.text[l.at] == '+' || l.text[l.at] == '-') {
			l.at++
		}
		exponent := l.at
		if l.digits(); l.at == exponent {
			return token{}, l.fail(at, "the number has no digits behind its exponent")
		}
	}
	text := l.text[at:l.at]
	if float {
		return token{tokenFloat, text, at}, l.apart(at)
	}
	if len(text) > 1 && text[0] == '0' {
		return token{}, l.fail(at, "a whole number does not begin with 0")
	}
	if l.at < len(l.text) && (l.text[l.at] == 'l' || l.text[l.at] == 'L') {
		l.at++
	}
	return token{tokenInt, text, at}, l.apart(at)
}

// apart refuses a name that follows a number without a space.
func (l *lexer) apart(at int) error {
	if l.at < len(l.text) && (nameStart(l.text[l.at]) || digit(l.text[l.at]) || l.text[l.at] == '.') {
		return l.fail(at, "the number is followed by %q", l.text[l.at])
	}
	return nil
}

func (l *lexer) digits() {
	for l.at < len(l.text) && digit(l.text[l.at]) {
		l.at++
	}
}

// quoted reads a text; a quote inside is doubled.
func (l *lexer) quoted() (token, error) {
	at := l.at
	for l.at++; ; l.at += 2 {
		n := strings.IndexByte(l.text[l.at:], '\'')
		if n < 0 {
			return token{}, l.fail(at, "the text has no closing quote")
		}
		l.at += n
		if !strings.HasPrefix(l.text[l.at:], "''") {
			break
		}
	}
	text := strings.ReplaceAll(l.text[at+1:l.at], "''", "'")
	l.at++
	return token{tokenString, text, at}, nil
}

func nameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
