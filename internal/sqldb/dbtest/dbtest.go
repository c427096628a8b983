// Package dbtest gives tests a migrated database of their own, on SQLite and
// on a real MySQL or MariaDB.
//
// SLUICE_TEST_MYSQL holds the address of a server on which databases can be
// made: mysql://root:password@127.0.0.1:3306/ . Without it the tests on MySQL
// fail: scripts/test-services.sh starts one.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/migrations"
)

// Drivers are the databases that every store is tested on.
func Drivers() []sqldb.Driver { return []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} }

// Each runs a test on each driver.
func Each(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for _, d := range Drivers() {
		t.Run(string(d), func(t *testing.T) { test(t, Open(t, d)) })
	}
}

// Open makes an empty database with the newest schema; it is gone after the
// test.
func Open(t *testing.T, d sqldb.Driver) *sqldb.DB {
	t.Helper()
	db := Bare(t, d)
	files, err := migrations.For(string(d))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	return db
}

// Bare makes an empty database without schema.
func Bare(t *testing.T, d sqldb.Driver) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), DSN(t, d), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// DSN makes an empty database and returns its address.
func DSN(t *testing.T, d sqldb.Driver) string {
	t.Helper()
	if d == sqldb.SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	}
	admin := os.Getenv("SLUICE_TEST_MYSQL")
	if admin == "" {
		t.Fatal("SLUICE_TEST_MYSQL is not set; run the tests under scripts/test-services.sh")
	}
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := "sluice_" + strings.ToLower(rand.Text()[:12])
	server := connect(t, u)
	if _, err := server.ExecContext(t.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	u.Path = "/" + name
	return u.String()
}

func connect(t *testing.T, u *url.URL) *sql.DB {
	t.Helper()
	cfg := mysqldriver.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "tcp", u.Host, u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	server, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	return server
}
