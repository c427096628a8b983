package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sort"
	"strings"
	"time"
)

// Migration is one versioned file of SQL.
type Migration struct {
	Version  string // "0001"
	Name     string // "control"
	Checksum string // SHA-256 of the file
	SQL      string
}

var migrationName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// ReadMigrations reads the files of one driver from its folder, in order.
func ReadMigrations(files fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var list []Migration
	for _, e := range entries {
		m := migrationName.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %q: the name must read NNNN_name.sql", e.Name())
		}
		text, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		list = append(list, Migration{Version: m[1], Name: m[2], Checksum: hex.EncodeToString(sum[:]), SQL: string(text)})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Version < list[j].Version })
	for i := 1; i < len(list); i++ {
		if list[i].Version == list[i-1].Version {
			return nil, fmt.Errorf("migration %s exists twice", list[i].Version)
		}
	}
	return list, nil
}

const (
	createMigrations = "CREATE TABLE IF NOT EXISTS schema_migrations (version VARCHAR(8) NOT NULL PRIMARY KEY, name VARCHAR(100) NOT NULL, checksum CHAR(64) NOT NULL, statements INT NOT NULL, complete INT NOT NULL, applied_at BIGINT NOT NULL)"
	lockSeconds      = 120
)

// Migrate brings the schema to the newest of the files. Processes that start
// together take turns. A file that was changed after it was applied, or a
// database newer than the files, is an error. On MySQL, where schema changes
// commit by themselves, the number of finished statements is kept, so that a
// process killed in the middle is continued by the next.
func (db *DB) Migrate(ctx context.Context, files fs.FS) error {
	list, err := ReadMigrations(files)
	if err != nil {
		return err
	}
	pool, err := db.write.DB()
	if err != nil {
		return err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	err = db.lockAndApply(ctx, conn, list)
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return db.loadTenantTables(ctx)
}

func (db *DB) lockAndApply(ctx context.Context, conn *sql.Conn, list []Migration) (err error) {
	if db.driver == SQLite {
		if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if err := apply(ctx, conn, list); err != nil {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			return errors.Join(err, rollback)
		}
		_, err := conn.ExecContext(ctx, "COMMIT")
		return err
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('sluice_migrate_', DATABASE()), ?)", lockSeconds).Scan(&got); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another process has been migrating for over %d seconds", lockSeconds)
	}
	defer func() {
		_, unlock := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(CONCAT('sluice_migrate_', DATABASE()))")
		err = errors.Join(err, unlock)
	}()
	return apply(ctx, conn, list)
}

type applied struct {
	checksum             string
	statements, complete int
}

func apply(ctx context.Context, conn *sql.Conn, list []Migration) error {
	if _, err := conn.ExecContext(ctx, createMigrations); err != nil {
		return err
	}
	done, err := readApplied(ctx, conn)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := applyOne(ctx, conn, m, done); err != nil {
			return fmt.Errorf("%s_%s: %w", m.Version, m.Name, err)
		}
		delete(done, m.Version)
	}
	for version := range done {
		return fmt.Errorf("the database has version %s, which this program does not know; use a newer program", version)
	}
	return nil
}

func readApplied(ctx context.Context, conn *sql.Conn) (map[string]applied, error) {
	rows, err := conn.QueryContext(ctx, "SELECT version, checksum, statements, complete FROM schema_migrations")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	done := map[string]applied{}
	for rows.Next() {
		var v string
		var a applied
		if err := rows.Scan(&v, &a.checksum, &a.statements, &a.complete); err != nil {
			return nil, err
		}
		done[v] = a
	}
	return done, rows.Err()
}

func applyOne(ctx context.Context, conn *sql.Conn, m Migration, done map[string]applied) error {
	a, started := done[m.Version]
	if started && a.checksum != m.Checksum {
		return errors.New("the file was changed after it was applied; restore it and write a new one")
	}
	if started && a.complete == 1 {
		return nil
	}
	statements := splitSQL(m.SQL)
	if !started {
		if _, err := conn.ExecContext(ctx, "INSERT INTO schema_migrations (version, name, checksum, statements, complete, applied_at) VALUES (?, ?, ?, 0, 0, ?)",
			m.Version, m.Name, m.Checksum, time.Now().UnixMilli()); err != nil {
			return err
		}
	}
	for i := a.statements; i < len(statements); i++ {
		if _, err := conn.ExecContext(ctx, statements[i]); err != nil {
			return fmt.Errorf("statement %d: %w", i+1, err)
		}
		if _, err := conn.ExecContext(ctx, "UPDATE schema_migrations SET statements = ? WHERE version = ?", i+1, m.Version); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "UPDATE schema_migrations SET complete = 1 WHERE version = ?", m.Version)
	return err
}

// splitSQL cuts a file at each semicolon that ends a line and drops comment
// lines.
func splitSQL(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, strings.TrimRight(line, "\r\n "))
		}
	}
	var out []string
	for _, s := range strings.Split(strings.Join(lines, "\n")+"\n", ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (db *DB) loadTenantTables(ctx context.Context) error {
	query := "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) p ON p.name = 'tenant_id' WHERE m.type = 'table'"
	if db.driver == MySQL {
		query = "SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() AND column_name = 'tenant_id'"
	}
	var names []string
	if err := db.read.WithContext(AcrossTenants(ctx)).Raw(query).Scan(&names).Error; err != nil {
		return fmt.Errorf("list tenant tables: %w", err)
	}
	tables := make(map[string]bool, len(names))
	for _, n := range names {
		tables[n] = true
	}
	db.guarded.Store(&tables)
	return nil
}
