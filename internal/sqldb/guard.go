package sqldb

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// ErrNoTenant is returned for a statement on a tenant's table that names no
// tenant. It is a bug of the caller.
var ErrNoTenant = errors.New("statement on a tenant table without tenant_id")

type acrossKey struct{}

// AcrossTenants marks work that rightly spans tenants: jobs, the reads of
// fleet, and look-ups that find out which tenant a credential belongs to.
func AcrossTenants(ctx context.Context) context.Context {
	return context.WithValue(ctx, acrossKey{}, true)
}

// guard refuses statements on tables with a tenant_id column that have no
// condition on it. Which tables these are is read from the database itself
// after migration, so that a new table cannot be forgotten.
type guard struct{ db *DB }

func (g *guard) Name() string { return "sluice:tenant_guard" }

func (g *guard) Initialize(db *gorm.DB) error {
	cb := db.Callback()
	return errors.Join(
		cb.Query().Before("gorm:query").Register("sluice:guard_query", g.conditions),
		cb.Update().Before("gorm:update").Register("sluice:guard_update", g.conditions),
		cb.Delete().Before("gorm:delete").Register("sluice:guard_delete", g.conditions),
		cb.Create().Before("gorm:create").Register("sluice:guard_create", g.rows),
		cb.Row().Before("gorm:row").Register("sluice:guard_row", g.conditions),
		cb.Raw().Before("gorm:raw").Register("sluice:guard_raw", g.conditions),
	)
}

func (g *guard) tables() map[string]bool {
	if m := g.db.guarded.Load(); m != nil {
		return *m
	}
	return nil
}

func exempt(ctx context.Context) bool {
	across, _ := ctx.Value(acrossKey{}).(bool)
	return across
}

func (g *guard) conditions(db *gorm.DB) {
	if db.Error != nil || exempt(db.Statement.Context) {
		return
	}
	if text := db.Statement.SQL.String(); text != "" {
		g.text(db, text)
		return
	}
	table := db.Statement.Table
	if table == "" && db.Statement.Schema != nil {
		table = db.Statement.Schema.Table
	}
	if !g.tables()[table] {
		return
	}
	where, _ := db.Statement.Clauses["WHERE"].Expression.(clause.Where)
	found := false
	for _, e := range where.Exprs {
		if _, or := e.(clause.OrConditions); or {
			found = false
			break
		}
		found = found || namesTenant(e)
	}
	if !found {
		_ = db.AddError(fmt.Errorf("table %s: %w", table, ErrNoTenant))
	}
}

var (
	tenantEquals = regexp.MustCompile("(?i)(^|[\\s.(`])tenant_id`?\\s*(=|in\\b)")
	orWord       = regexp.MustCompile(`(?i)\bor\b`)
)

func namesTenant(e clause.Expression) bool {
	switch x := e.(type) {
	case clause.Eq:
		return columnName(x.Column) == "tenant_id"
	case clause.IN:
		return columnName(x.Column) == "tenant_id"
	case clause.Expr:
		return tenantEquals.MatchString(x.SQL) && !orWord.MatchString(x.SQL)
	case clause.AndConditions:
		for _, inner := range x.Exprs {
			if namesTenant(inner) {
				return true
			}
		}
	}
	return false
}

func columnName(c any) string {
	switch x := c.(type) {
	case string:
		return x[strings.LastIndexByte(x, '.')+1:]
	case clause.Column:
		return x.Name
	}
	return ""
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// text checks hand-written SQL: coarse, since it only has to catch a
// forgotten condition.
func (g *guard) text(db *gorm.DB, text string) {
	tables := g.tables()
	for _, w := range word.FindAllString(text, -1) {
		if !tables[w] {
			continue
		}
		insert := strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "INSERT")
		if !tenantEquals.MatchString(text) && !(insert && strings.Contains(text, "tenant_id")) {
			_ = db.AddError(fmt.Errorf("table %s: %w", w, ErrNoTenant))
		}
		return
	}
}

func (g *guard) rows(db *gorm.DB) {
	if db.Error != nil || db.Statement.Schema == nil || !g.tables()[db.Statement.Schema.Table] {
		return
	}
	field := db.Statement.Schema.LookUpField("tenant_id")
	if field == nil {
		_ = db.AddError(fmt.Errorf("table %s: %w", db.Statement.Schema.Table, ErrNoTenant))
		return
	}
	check := func(v reflect.Value) {
		if _, zero := field.ValueOf(db.Statement.Context, v); zero {
			_ = db.AddError(fmt.Errorf("table %s: %w", db.Statement.Schema.Table, ErrNoTenant))
		}
	}
	switch v := db.Statement.ReflectValue; v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			check(reflect.Indirect(v.Index(i)))
		}
	case reflect.Struct:
		check(v)
	}
}
