// Package sqldb opens the control plane's database, MySQL (or MariaDB) or
// SQLite, behind one gorm handle that the *db packages share.
//
// It owns connections, transactions carried by a context, migrations, the
// translation of driver errors into codes of package errs, and the guard that
// refuses a statement on a tenant's table that does not name the tenant. It
// owns no table. A *DB may be used by any number of goroutines.
//
// On SQLite there are two pools: one connection that writes, taken by
// transactions in turn, and several that only read. A write outside InTx is
// therefore refused on SQLite; on MySQL it works, so tests on SQLite keep
// both honest.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/glebarez/sqlite"
	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// Driver names the kind of database.
type Driver string

// The drivers.
const (
	SQLite Driver = "sqlite"
	MySQL  Driver = "mysql"
)

// DB is an open database.
type DB struct {
	driver  Driver
	write   *gorm.DB
	read    *gorm.DB
	log     *slog.Logger
	guarded atomic.Pointer[map[string]bool] // tables with a tenant_id column
}

// Open connects to dsn: `sqlite:<path>` or
// `mysql://user:password@host:port/name`, where `?tls=true` asks for TLS. It
// does not touch the schema; see Migrate.
func Open(ctx context.Context, dsn string, log *slog.Logger) (*DB, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db := &DB{log: log}
	var err error
	switch {
	case strings.HasPrefix(dsn, "sqlite:"):
		err = db.openSQLiteTurn(ctx, strings.TrimPrefix(dsn, "sqlite:"))
	case strings.HasPrefix(dsn, "mysql://"):
		err = db.openMySQL(dsn)
	default:
		return nil, fmt.Errorf("database %q: want sqlite:<path> or mysql://user:password@host:port/name", schemeOf(dsn))
	}
	if err != nil {
		return nil, err
	}
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s database: %w", db.driver, err), db.Close())
	}
	return db, nil
}

// schemeOf keeps passwords out of error texts.
func schemeOf(dsn string) string {
	if i := strings.IndexByte(dsn, ':'); i >= 0 {
		return dsn[:i] + ":…"
	}
	return dsn
}

// openSQLiteTurn opens again when another process is just switching a new file
// to WAL: SQLite does not let the busy timeout wait for that.
func (db *DB) openSQLiteTurn(ctx context.Context, path string) error {
	const turns, pause = 100, 20 * time.Millisecond
	for n := 1; ; n++ {
		err := db.openSQLite(path)
		if err == nil || !retryable(err) || n == turns {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

func (db *DB) openSQLite(path string) error {
	if path == "" {
		return errors.New("database sqlite: path is empty")
	}
	db.driver = SQLite
	pragmas := "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	var err error
	file := "file:" + (&url.URL{Path: path}).EscapedPath()
	if db.write, err = db.open(sqlite.Open(file+pragmas+"&_txlock=immediate"), 1); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if db.read, err = db.open(sqlite.Open(file+pragmas+"&_pragma=query_only(1)"), 4); err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return nil
}

func (db *DB) openMySQL(dsn string) error {
	db.driver = MySQL
	u, err := url.Parse(dsn)
	if err != nil {
		return errors.New("database mysql: the URL cannot be parsed")
	}
	cfg := mysqldriver.NewConfig()
	cfg.Net, cfg.Addr = "tcp", u.Host
	if u.Port() == "" {
		cfg.Addr = u.Host + ":3306"
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	cfg.TLSConfig = u.Query().Get("tls") // true, skip-verify, preferred; plain when empty
	cfg.Collation = "utf8mb4_bin"
	cfg.ClientFoundRows = true // rows matched, as SQLite counts them
	cfg.InterpolateParams = true
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 10*time.Second, 60*time.Second, 60*time.Second
	cfg.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'", "time_zone": "'+00:00'"}
	if db.write, err = db.open(mysql.Open(cfg.FormatDSN()), 16); err != nil {
		return fmt.Errorf("open mysql database at %s: %w", cfg.Addr, err)
	}
	db.read = db.write
	return nil
}

func (db *DB) open(d gorm.Dialector, conns int) (*gorm.DB, error) {
	g, err := gorm.Open(d, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard,
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
	if err != nil {
		return nil, err
	}
	pool, err := g.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	if db.driver == SQLite {
		pool.SetConnMaxIdleTime(0)
	}
	if err := g.Use(&guard{db: db}); err != nil {
		return nil, err
	}
	return g, nil
}

// Driver says which kind of database this is.
func (db *DB) Driver() Driver { return db.driver }

// Ping checks that the database answers. It does not wait for the one that
// writes.
func (db *DB) Ping(ctx context.Context) error {
	pool, err := db.read.DB()
	if err != nil {
		return err
	}
	return pool.PingContext(ctx)
}

// Close closes all connections. It may be called more than once.
func (db *DB) Close() error {
	var all []error
	for _, g := range []*gorm.DB{db.read, db.write} {
		if g == nil {
			continue
		}
		if pool, err := g.DB(); err == nil {
			all = append(all, pool.Close())
		}
	}
	return errors.Join(all...)
}

type txKey struct{}

type tx struct {
	db    *DB
	conn  *gorm.DB
	write bool
	after []func()
}

func txOf(ctx context.Context, db *DB) *tx {
	if t, ok := ctx.Value(txKey{}).(*tx); ok && t.db == db {
		return t
	}
	return nil
}

// Conn is the handle for one statement: in the transaction that ctx carries,
// else on a connection that reads.
func (db *DB) Conn(ctx context.Context) *gorm.DB {
	if t := txOf(ctx, db); t != nil {
		return t.conn.WithContext(ctx)
	}
	return db.read.WithContext(ctx)
}

// Locking makes a read in a transaction that writes lock its rows, so that
// what was read still holds when it commits. On SQLite, where one transaction
// writes at a time, and outside such a transaction q stays as it is.
func (db *DB) Locking(ctx context.Context, q *gorm.DB) *gorm.DB {
	if t := txOf(ctx, db); t != nil && t.write && db.driver == MySQL {
		return q.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	return q
}

// Tenant is Conn with the condition that the guard asks for.
func (db *DB) Tenant(ctx context.Context, tenantID string) *gorm.DB {
	return db.Conn(ctx).Where("tenant_id = ?", tenantID)
}

const txAttempts = 8

// InTx runs fn in a transaction, which the context handed to fn carries. In a
// transaction already, fn joins it: an error of fn then has to be returned
// outwards, or part of the work is committed. fn may run more than once,
// since a deadlock on MySQL is retried; what it did to variables outside must
// not add up.
func (db *DB) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	if txOf(ctx, db) != nil {
		return fn(ctx)
	}
	var err error
	for n := range txAttempts {
		if n > 0 {
			if perr := backOff(ctx, n); perr != nil {
				break
			}
		}
		t := &tx{db: db, write: true}
		err = db.write.WithContext(ctx).Transaction(func(conn *gorm.DB) error {
			t.conn = conn
			return fn(context.WithValue(ctx, txKey{}, t))
		}, db.writing())
		if err == nil {
			for _, f := range t.after {
				f()
			}
			return nil
		}
		if !retryable(err) || ctx.Err() != nil {
			break
		}
	}
	return Error(err)
}

// writing is the isolation of transactions that write. On MySQL it is READ
// COMMITTED: what must not change under a transaction is locked (see Locking)
// or written with a condition, and there are no locks on gaps, over which
// inserts would deadlock.
func (db *DB) writing() *sql.TxOptions {
	if db.driver == MySQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return &sql.TxOptions{}
}

// backOff waits a little before attempt n, at random, so that those who met
// do not meet again.
func backOff(ctx context.Context, n int) error {
	t := time.NewTimer(time.Duration(rand.Int64N(int64(5*time.Millisecond) << n)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// InSnapshot runs fn so that all its reads see one state of the database.
// Inside a transaction it joins it.
func (db *DB) InSnapshot(ctx context.Context, fn func(ctx context.Context) error) error {
	if txOf(ctx, db) != nil {
		return fn(ctx)
	}
	t := &tx{db: db}
	err := db.read.WithContext(ctx).Transaction(func(conn *gorm.DB) error {
		t.conn = conn
		return fn(context.WithValue(ctx, txKey{}, t))
	}, db.reading())
	return Error(err)
}

func (db *DB) reading() *sql.TxOptions {
	if db.driver == MySQL {
		return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return &sql.TxOptions{}
}

// AfterCommit runs f once the transaction that ctx carries has committed, at
// once if there is none, never if it rolls back.
func (db *DB) AfterCommit(ctx context.Context, f func()) {
	if t := txOf(ctx, db); t != nil {
		t.after = append(t.after, f)
		return
	}
	f()
}
