package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/migrations"
)

type memberRow struct {
	TenantID string `gorm:"primaryKey"`
	UserID   string `gorm:"primaryKey"`
	Role     string
	Created  int64 `gorm:"column:created_at"`
	Updated  int64 `gorm:"column:updated_at"`
	Revision int64
}

func (memberRow) TableName() string { return "members" }

func TestMigrate_sameTwiceAndTogether(t *testing.T) {
	for _, d := range dbtest.Drivers() {
		t.Run(string(d), func(t *testing.T) {
			dsn := dbtest.DSN(t, d)
			files, err := migrations.For(string(d))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			failures := make(chan error, 4)
			for range 4 {
				wg.Go(func() {
					db, err := sqldb.Open(t.Context(), dsn, nil)
					if err == nil {
						err = errors.Join(db.Migrate(t.Context(), files), db.Migrate(t.Context(), files), db.Close())
					}
					failures <- err
				})
			}
			wg.Wait()
			close(failures)
			for err := range failures {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestMigrate_refusesChangedAndNewer(t *testing.T) {
	for _, d := range dbtest.Drivers() {
		t.Run(string(d), func(t *testing.T) {
			db := dbtest.Bare(t, d)
			one := fstest.MapFS{"0001_a.sql": {Data: []byte("CREATE TABLE a (id INTEGER);\n")}}
			if err := db.Migrate(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			changed := fstest.MapFS{"0001_a.sql": {Data: []byte("CREATE TABLE a (id INTEGER, b INTEGER);\n")}}
			if err := db.Migrate(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "changed after") {
				t.Errorf("changed file: got %v", err)
			}
			two := fstest.MapFS{"0001_a.sql": one["0001_a.sql"], "0002_b.sql": {Data: []byte("CREATE TABLE b (id INTEGER);\n")}}
			if err := db.Migrate(t.Context(), two); err != nil {
				t.Fatal(err)
			}
			if err := db.Migrate(t.Context(), one); err == nil || !strings.Contains(err.Error(), "newer program") {
				t.Errorf("older program: got %v", err)
			}
			broken := fstest.MapFS{"0001_a.sql": one["0001_a.sql"], "0002_b.sql": two["0002_b.sql"], "0003_c.sql": {Data: []byte("CREATE TABLE c (id INTEGER);\nNONSENSE;\n")}}
			if err := db.Migrate(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "statement 2") {
				t.Errorf("broken file: got %v", err)
			}
			if err := db.Migrate(t.Context(), broken); err == nil {
				t.Error("broken file passed at the second try")
			}
		})
	}
}

func TestGuard_refusesStatementsWithoutTenant(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		row := memberRow{TenantID: "ten_a", UserID: "usr_1", Role: "owner"}
		cases := map[string]func(ctx context.Context) error{
			"find": func(ctx context.Context) error {
				var rows []memberRow
				return db.Conn(ctx).Find(&rows).Error
			},
			"find by another column": func(ctx context.Context) error {
				var rows []memberRow
				return db.Conn(ctx).Where("user_id = ?", "usr_1").Find(&rows).Error
			},
			"tenant in an or": func(ctx context.Context) error {
				var rows []memberRow
				return db.Conn(ctx).Where("tenant_id = ?", "ten_a").Or("user_id = ?", "usr_1").Find(&rows).Error
			},
			"tenant in an or of text": func(ctx context.Context) error {
				var rows []memberRow
				return db.Conn(ctx).Where("tenant_id = ? OR 1 = 1", "ten_a").Find(&rows).Error
			},
			"table by name": func(ctx context.Context) error {
				var n int64
				return db.Conn(ctx).Table("members").Count(&n).Error
			},
			"raw": func(ctx context.Context) error {
				var n int64
				return db.Conn(ctx).Raw("SELECT COUNT(*) FROM members").Scan(&n).Error
			},
			"exec": func(ctx context.Context) error { return db.Conn(ctx).Exec("DELETE FROM members").Error },
			"update": func(ctx context.Context) error {
				return db.Conn(ctx).Model(&memberRow{}).Where("user_id = ?", "x").Update("role", "y").Error
			},
			"delete": func(ctx context.Context) error {
				return db.Conn(ctx).Where("user_id = ?", "x").Delete(&memberRow{}).Error
			},
			"create": func(ctx context.Context) error { return db.Conn(ctx).Create(&memberRow{UserID: "usr_2"}).Error },
			"create one of many": func(ctx context.Context) error {
				return db.Conn(ctx).Create([]memberRow{{TenantID: "ten_a", UserID: "usr_3"}, {UserID: "usr_2"}}).Error
			},
		}
		for name, do := range cases {
			err := db.InTx(t.Context(), do)
			if !errors.Is(err, sqldb.ErrNoTenant) {
				t.Errorf("%s: got %v, want ErrNoTenant", name, err)
			}
		}
		err := db.InTx(t.Context(), func(ctx context.Context) error {
			if err := db.Conn(ctx).Create(&row).Error; err != nil {
				return err
			}
			var rows []memberRow
			if err := db.Tenant(ctx, "ten_a").Find(&rows).Error; err != nil || len(rows) != 1 {
				t.Errorf("own rows: %d, %v", len(rows), err)
			}
			if err := db.Conn(sqldb.AcrossTenants(ctx)).Where("user_id = ?", "usr_1").Find(&rows).Error; err != nil {
				t.Errorf("across: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestError_mapsByNumber(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		row := memberRow{TenantID: "ten_a", UserID: "usr_1"}
		insert := func(ctx context.Context) error { r := row; return db.Conn(ctx).Create(&r).Error }
		if err := db.InTx(t.Context(), insert); err != nil {
			t.Fatal(err)
		}
		if err := db.InTx(t.Context(), insert); !errs.Is(err, errs.Conflict) {
			t.Errorf("twice: got %v, want conflict", err)
		}
		var got memberRow
		if err := sqldb.Error(db.Tenant(t.Context(), "ten_x").Take(&got).Error); !errs.Is(err, errs.NotFound) {
			t.Errorf("absent: got %v, want not found", err)
		}
	})
}

// A full disk is no fault of ours to be looked up in a log: it is told.
func TestError_fullDiskIsUnavailable(t *testing.T) {
	db := dbtest.Open(t, sqldb.SQLite)
	var pages int64
	if err := db.Conn(t.Context()).Raw("PRAGMA page_count").Scan(&pages).Error; err != nil {
		t.Fatal(err)
	}
	err := db.InTx(t.Context(), func(ctx context.Context) error {
		if err := db.Conn(ctx).Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Error; err != nil {
			return err
		}
		return db.Conn(ctx).Exec("CREATE TABLE too_much AS SELECT randomblob(1000000) AS x").Error
	})
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	my := &mysqldriver.MySQLError{Number: 1021, Message: "Disk full"}
	if !errs.Is(sqldb.Error(my), errs.Unavailable) {
		t.Errorf("got %v", sqldb.Error(my))
	}
}

func TestInTx_rollsBackAndRunsAfterCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		boom := errors.New("boom")
		ran := 0
		err := db.InTx(t.Context(), func(ctx context.Context) error {
			db.AfterCommit(ctx, func() { ran++ })
			return db.InTx(ctx, func(ctx context.Context) error {
				if err := db.Conn(ctx).Create(&memberRow{TenantID: "ten_a", UserID: "usr_1"}).Error; err != nil {
					return err
				}
				return boom
			})
		})
		if !errors.Is(err, boom) || ran != 0 {
			t.Errorf("got %v, %d callbacks", err, ran)
		}
		var n int64
		if err := db.Tenant(t.Context(), "ten_a").Table("members").Count(&n).Error; err != nil || n != 0 {
			t.Errorf("rows after rollback: %d, %v", n, err)
		}
		if err := db.InTx(t.Context(), func(ctx context.Context) error {
			db.AfterCommit(ctx, func() { ran++ })
			return nil
		}); err != nil || ran != 1 {
			t.Errorf("after commit: %v, %d callbacks", err, ran)
		}
	})
}

func TestInTx_manyWriters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const writers, each = 8, 10
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					err := db.InTx(t.Context(), func(ctx context.Context) error {
						return db.Conn(ctx).Exec("UPDATE change_counter SET value = value + 1 WHERE id = 1").Error
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var value int
		if err := db.Conn(t.Context()).Table("change_counter").Select("value").Scan(&value).Error; err != nil || value != writers*each {
			t.Errorf("value %d, %v; want %d", value, err, writers*each)
		}
	})
}

func TestOpen_badAddresses(t *testing.T) {
	for _, dsn := range []string{"", "postgres://secret@x/y", "sqlite:"} {
		if _, err := sqldb.Open(t.Context(), dsn, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", dsn, err)
		}
	}
}

// What InTx has answered for is there after a kill: the files as they are at
// that moment, opened by another process, hold it.
func TestSQLite_answeredIsKept_B036(t *testing.T) {
	db := dbtest.Open(t, sqldb.SQLite)
	var files []struct {
		Name string
		File string
	}
	if err := db.Conn(t.Context()).Raw("PRAGMA database_list").Scan(&files).Error; err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for i := range 20 {
		user := fmt.Sprintf("usr_%d", i)
		err := db.InTx(t.Context(), func(ctx context.Context) error {
			return db.Conn(ctx).Create(&memberRow{TenantID: "ten_a", UserID: user}).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "control.db")
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(files[0].File + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again, err := sqldb.Open(t.Context(), "sqlite:"+copied, nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		if err := again.Tenant(t.Context(), "ten_a").Table("members").Count(&n).Error; err != nil || n != int64(i+1) {
			t.Errorf("after kill %d: %d rows, %v", i, n, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server that is gone is no fault of ours to be looked up in a log either: the
// caller is told to come again, and not where the server is.
func TestError_serverGoneIsUnavailable(t *testing.T) {
	dsn, err := url.Parse(dbtest.DSN(t, sqldb.MySQL))
	if err != nil {
		t.Fatal(err)
	}
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := dsn.Host
	var mu sync.Mutex
	var open []net.Conn
	go func() { // ends when relay is closed
		for {
			c, err := relay.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			mu.Lock()
			open = append(open, c, d)
			mu.Unlock()
			go func() { _, _ = io.Copy(c, d) }()
			go func() { _, _ = io.Copy(d, c) }()
		}
	}()
	dsn.Host = relay.Addr().String()
	db, err := sqldb.Open(t.Context(), dsn.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	gone := func() {
		_ = relay.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
	}
	var one int
	inTx := db.InTx(t.Context(), func(ctx context.Context) error {
		gone() // in the middle
		return sqldb.Error(db.Conn(ctx).Raw("SELECT 1").Scan(&one).Error)
	})
	for name, err := range map[string]error{
		"in the middle of a transaction": inTx,
		"a read":                         sqldb.Error(db.Conn(t.Context()).Raw("SELECT 1").Scan(&one).Error),
		"a transaction":                  db.InTx(t.Context(), func(context.Context) error { return nil }),
	} {
		if !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
