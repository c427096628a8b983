package sqldb

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/errs"
)

// Numbers of driver errors.
const (
	mysqlTooMany        = 1040
	mysqlShutdown       = 1053
	mysqlDuplicate      = 1062
	mysqlLockTimeout    = 1205
	mysqlDeadlock       = 1213
	mysqlDiskFull       = 1021
	mysqlTableFull      = 1114
	sqliteBusy          = 5
	sqliteFull          = 13
	sqlitePrimaryKey    = 1555
	sqliteUnique        = 2067
	sqlitePrimaryResult = 0xff
)

type numbered interface{ Code() int }

// Error gives err a code of package errs where the driver's number says
// enough: a broken unique constraint is Conflict, no row is NotFound, a full
// disk and a server that is not there are Unavailable. An error that has a code
// already passes unchanged, and nil stays nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	var coded *errs.Error
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return errs.E(errs.NotFound, "not found: %w", err)
	}
	var my *mysqldriver.MySQLError
	if errors.As(err, &my) && my.Number == mysqlDuplicate {
		return errs.E(errs.Conflict, "exists already: %w", err)
	}
	if full(err) {
		return errs.E(errs.Unavailable, "the database has no space left: nothing can be changed until there is: %w", err)
	}
	if unreachable(err) {
		e := errs.E(errs.Unavailable, "the database does not answer; try again")
		e.Err = err // not in the text: it holds an address
		return e
	}
	var lite numbered
	if errors.As(err, &lite) && (lite.Code() == sqliteUnique || lite.Code() == sqlitePrimaryKey) {
		return errs.E(errs.Conflict, "exists already: %w", err)
	}
	return err
}

func full(err error) bool {
	var my *mysqldriver.MySQLError
	if errors.As(err, &my) {
		return my.Number == mysqlDiskFull || my.Number == mysqlTableFull
	}
	var lite numbered
	return errors.As(err, &lite) && lite.Code()&sqlitePrimaryResult == sqliteFull
}

// unreachable reports whether the server was not reached, or left in the middle.
func unreachable(err error) bool {
	var my *mysqldriver.MySQLError
	if errors.As(err, &my) {
		return my.Number == mysqlTooMany || my.Number == mysqlShutdown
	}
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysqldriver.ErrInvalidConn) || errors.Is(err, io.ErrUnexpectedEOF)
}

func retryable(err error) bool {
	var my *mysqldriver.MySQLError
	if errors.As(err, &my) {
		return my.Number == mysqlDeadlock || my.Number == mysqlLockTimeout
	}
	var lite numbered
	return errors.As(err, &lite) && lite.Code()&sqlitePrimaryResult == sqliteBusy
}
