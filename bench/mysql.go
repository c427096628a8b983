package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// freshDatabase makes an empty database on a server and returns its address and
// what drops it.
func freshDatabase(ctx context.Context, server string) (address string, drop func() error, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	cfg := mysqldriver.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = u.User.Username(), "tcp", u.Host
	cfg.Passwd, _ = u.User.Password()
	admin, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return "", nil, err
	}
	name := "bench_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("make a database: %w", err)
	}
	u.Path = "/" + name
	return u.String(), func() error {
		_, err := admin.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name)
		if cerr := admin.Close(); err == nil {
			err = cerr
		}
		return err
	}, nil
}
