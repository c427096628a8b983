package broker

import (
	"slices"
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
)

// Filter selects messages by tag. A nil Filter takes all.
type Filter struct {
	tags  []string
	codes []int64 // sorted
}

// ParseFilter reads a subscription. Only tags are understood: "*", or tags
// separated by "||". The result is nil when it takes everything.
func ParseFilter(expressionType, expression string) (*Filter, error) {
	switch expressionType {
	case "", "TAG":
	case "SQL92":
		return nil, fail(CodeBadFilter, "SQL92 filters are not supported yet: filter by tag")
	default:
		return nil, fail(CodeBadFilter, "unknown filter type %.40q: use TAG", expressionType)
	}
	expression = strings.TrimSpace(expression)
	if expression == "" || expression == "*" {
		return nil, nil
	}
	f := &Filter{}
	for tag := range strings.SplitSeq(expression, "||") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return nil, nil
		}
		if tag == "" {
			continue
		}
		if len(f.tags) == 1000 {
			return nil, fail(CodeBadFilter, "the subscription has over 1000 tags")
		}
		f.tags = append(f.tags, tag)
		f.codes = append(f.codes, message.TagsCode(tag))
	}
	if len(f.tags) == 0 {
		return nil, fail(CodeBadFilter, "the subscription %.100q names no tag", expression)
	}
	slices.Sort(f.codes)
	return f, nil
}

// MatchCode reports whether a message with this tag hash may pass; a hash can
// belong to several tags.
func (f *Filter) MatchCode(code int64) bool {
	if f == nil {
		return true
	}
	_, ok := slices.BinarySearch(f.codes, int64(int32(code)))
	return ok
}

// MatchTag reports whether a message with this tag passes.
func (f *Filter) MatchTag(tag string) bool { return f == nil || slices.Contains(f.tags, tag) }

// match is the function for the store, nil to take all.
func (f *Filter) match() func(int64) bool {
	if f == nil {
		return nil
	}
	return f.MatchCode
}
