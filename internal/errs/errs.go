// Package errs is the vocabulary of failures that cross package borders in
// Sluice: a stable code for programs, a sentence for people, and the cause
// for operators.
//
// A code says what the caller may do about the failure; the rims (HTTP,
// remoting, gRPC, CLI) translate codes, never texts. Errors without a code
// are Internal: their text is for the log and never reaches a user.
package errs

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Code tells failures apart without reading text.
type Code string

// The codes. HTTP statuses in brackets are those of the control plane's rim.
const (
	Internal           Code = "internal"            // [500] a bug or a broken dependency
	Invalid            Code = "invalid"             // [400] a value breaks a rule; Field and Limit say which
	Unauthenticated    Code = "unauthenticated"     // [401] nobody, or not who they say
	Forbidden          Code = "forbidden"           // [403] known, but not allowed
	NotFound           Code = "not_found"           // [404] absent, or another tenant's
	Conflict           Code = "conflict"            // [409] exists already, or is being changed
	PreconditionFailed Code = "precondition_failed" // [412] stale ETag
	Unprocessable      Code = "unprocessable"       // [422] idempotency key reused with another body
	QuotaExceeded      Code = "quota_exceeded"      // [403] a count limit; Quota says which
	RateLimited        Code = "rate_limited"        // [429] a rate limit; RetryAfter says when
	Unavailable        Code = "unavailable"         // [503] try again; RetryAfter says when
)

// Quota describes the limit that refused a request.
type Quota struct {
	Name  string // catalogue code, such as "topics"
	Scope string // id of the tenant or namespace it counts for
	Limit int64
	Used  int64
}

// Error is a failure with a code. The zero value is not useful; use E.
type Error struct {
	Code       Code
	Reason     string        // stable snake_case refinement shown as the problem's code; empty means Code itself
	Message    string        // one sentence for people: what, why, how to fix
	Field      string        // JSON path of the offending input, if one is to blame
	Limit      string        // the limit that was passed, as text
	Quota      *Quota        // set with QuotaExceeded
	RetryAfter time.Duration // set with RateLimited and Unavailable
	Err        error         // cause, for the log
}

// E makes an error; a %w verb in format keeps the cause.
func E(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Field makes an Invalid error that names the offending input.
func Field(field, format string, args ...any) *Error {
	e := E(Invalid, format, args...)
	e.Field = field
	return e
}

// WithReason sets the stable refinement of the code and returns e.
func (e *Error) WithReason(reason string) *Error {
	e.Reason = reason
	return e
}

// Error returns the message; the cause is already part of it when %w was used.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the outermost coded error in err's chain,
// Internal for other errors, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// Clip shortens text from outside for a message: to at most limit bytes, cut
// between two characters, and an ellipsis.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && limit-cut < utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
