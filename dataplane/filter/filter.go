// Package filter selects messages by tag or by an SQL92 expression over their
// properties. A filter is compiled once for each subscription, costs bounded
// memory, and is evaluated without allocation.
//
// Two steps decide: MatchCode looks at the hash of the tag that stands in the
// consume queue, before the record is read; Match looks at the properties of
// the record and is exact. What MatchCode refuses, Match would refuse as well.
//
// The expressions are those of RocketMQ 5 with its semantics; sql.go says
// where we differ. The package knows nothing of queues, groups or tenants.
package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
)

// The kinds of expressions, as the protocols name them.
const (
	KindTag = "TAG"
	KindSQL = "SQL92"
)

// The limits of one expression.
const (
	MaxTags     = 1000
	MaxSQLBytes = 16 << 10
	MaxDepth    = 100 // brackets, NOT and signs inside each other
)

// Filter selects messages. A nil Filter takes all. It does not change and may
// be used at the same time from anywhere.
type Filter struct {
	tags  []string
	codes []int64  // of tags, sorted
	sql   node     // nil for tags
	names []string // properties that sql names, by slot
	bytes int
	looks int // at the properties, for one message
}

// SyntaxError says what is wrong with an expression, and where.
type SyntaxError struct {
	Position int // of the first wrong character, from 1; 0 is the expression as a whole
	Text     string
}

// Error names the position.
func (e *SyntaxError) Error() string {
	if e.Position == 0 {
		return e.Text
	}
	return fmt.Sprintf("at character %d: %s", e.Position, e.Text)
}

// Parse compiles a subscription of kind TAG or SQL92; "" is TAG. The result is
// nil when it takes everything. An expression never sees the properties that
// hidden names: they are absent to it. Every error is a *SyntaxError.
func Parse(kind, expression string, hidden ...string) (*Filter, error) {
	switch kind {
	case "", KindTag:
		return parseTags(expression)
	case KindSQL:
		return parseSQL(expression, hidden)
	}
	return nil, &SyntaxError{Text: fmt.Sprintf("unknown filter type %.40q: use TAG or SQL92", kind)}
}

// parseTags reads "*", or tags separated by "||".
func parseTags(expression string) (*Filter, error) {
	expression = strings.TrimSpace(expression)
	if expression == "" || expression == "*" {
		return nil, nil
	}
	f := &Filter{bytes: len(expression)}
	for tag := range strings.SplitSeq(expression, "||") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return nil, nil
		}
		if tag == "" {
			continue
		}
		if len(f.tags) == MaxTags {
			return nil, &SyntaxError{Text: fmt.Sprintf("the subscription has over %d tags", MaxTags)}
		}
		f.tags = append(f.tags, tag)
		f.codes = append(f.codes, message.TagsCode(tag))
	}
	if len(f.tags) == 0 {
		return nil, &SyntaxError{Text: fmt.Sprintf("the subscription %.100q names no tag", expression)}
	}
	slices.Sort(f.codes)
	f.bytes += 32 * len(f.tags)
	return f, nil
}

// Bytes is about what the compiled filter takes in memory.
func (f *Filter) Bytes() int {
	if f == nil {
		return 0
	}
	return f.bytes
}

// Work is about how many bytes Match looks at for a message with properties of
// so many bytes, at most.
func (f *Filter) Work(propertyBytes int) int {
	if f == nil {
		return 0
	}
	return max(f.looks, 1) * propertyBytes
}

// MatchCode reports whether a message whose tag has this hash may pass; a hash
// can belong to several tags.
func (f *Filter) MatchCode(code int64) bool {
	if f == nil || f.sql != nil {
		return true
	}
	_, ok := slices.BinarySearch(f.codes, int64(int32(code)))
	return ok
}

// SQL reports whether the tag alone does not decide: MatchCode takes all.
func (f *Filter) SQL() bool { return f != nil && f.sql != nil }

// Match reports whether a message with these encoded properties passes.
func (f *Filter) Match(properties []byte) bool {
	switch {
	case f == nil:
		return true
	case f.sql != nil:
		return f.matchSQL(properties)
	}
	tag, ok := message.FindProperty(properties, message.KeyTags)
	if !ok {
		return false
	}
	for _, t := range f.tags {
		if t == string(tag) {
			return true
		}
	}
	return false
}
