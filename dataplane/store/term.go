package store

import (
	"errors"

	"github.com/sluicemq/sluice/dataplane/replica"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// beginTerm notes that this store leads its broker group from the end of its log
// on. A full disk is no reason not to serve what is there: a group of one has
// nobody to compare terms with.
func (s *Store) beginTerm() error {
	var err error
	if s.terms, err = replica.Open(s.fs, s.cfg.Dir, s.log); err != nil {
		return err
	}
	first, end := s.clog.Range()
	s.terms.Forget(first)
	_, err = s.terms.Begin(end)
	if errors.Is(err, vfs.ErrNoSpace) {
		s.happened(TermNotBegun{err})
		return nil
	}
	return err
}

// Term is the time of leadership in which the record at a commit log offset was
// written; false when that is not known (any more).
func (s *Store) Term(offset int64) (replica.Term, bool) { return s.terms.At(offset) }
