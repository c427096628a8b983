package auth

import (
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// RefusedError is an error to somebody who is known and was not let in: for the
// audit log of the tenant of the key, or of those of the person. It says what Err
// says. Ids are empty for a person or key that there is not: the caller does the
// same work for both.
type RefusedError struct {
	UserID tenant.ID // a person, else a key:
	Key    tenant.APIKey
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that the caller gets.
func (e *RefusedError) Unwrap() error { return e.Err }

// refusedPerson marks what refused a person; other errors, such as those of the
// database, stay as they are.
func refusedPerson(userID tenant.ID, err error) error {
	switch errs.CodeOf(err) {
	case errs.Unauthenticated, errs.Forbidden, errs.RateLimited, errs.Invalid:
		return &RefusedError{UserID: userID, Err: err}
	}
	return err
}

// RefusedKey marks what refused a key; other errors, and nil, stay as they are.
func RefusedKey(k tenant.APIKey, err error) error {
	switch errs.CodeOf(err) {
	case errs.Unauthenticated, errs.Forbidden:
		return &RefusedError{Key: k, Err: err}
	}
	return err
}
