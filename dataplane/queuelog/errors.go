package queuelog

import (
	"errors"
	"fmt"
)

// fewErrors is how many errors Errors keeps.
const fewErrors = 3

// Errors collects what went wrong with many queues, of which the first few say
// enough: on a full disk that is one error for each queue.
type Errors struct {
	first []error
	more  int
}

// Add takes an error; nil for none.
func (e *Errors) Add(err error) {
	switch {
	case err == nil:
	case len(e.first) < fewErrors:
		e.first = append(e.first, err)
	default:
		e.more++
	}
}

// Join returns the first errors and how many came behind them; nil for none.
func (e *Errors) Join() error {
	if e.more == 0 {
		return errors.Join(e.first...)
	}
	return errors.Join(errors.Join(e.first...), fmt.Errorf("and %d more", e.more))
}
