package cases

import (
	"os"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// The whole path on a real MariaDB and a real Redis, over a restart.
func TestStandalone_onMariaDBAndRedis(t *testing.T) {
	redis := os.Getenv("SLUICE_TEST_REDIS")
	if redis == "" {
		t.Fatal("SLUICE_TEST_REDIS is not set: run the tests with scripts/test-services.sh")
	}
	dsn := dbtest.DSN(t, sqldb.MySQL)
	c := testcluster.Start(t, testcluster.With(func(cfg *standalone.Config) { cfg.DB, cfg.Redis = dsn, redis }))
	a := c.SignUp("maria@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	must(t, a.CreateTopic(t.Context(), "orders"))
	must(t, remotingSend(t, k, "orders")([]byte("1"), ""))
	must(t, grpcSend(t, k, "orders")([]byte("2"), ""))
	c.Restart()
	must(t, remotingSend(t, k, "orders")([]byte("3"), ""))
	must(t, testcluster.Eventually(t.Context(), 20*time.Second, func() (bool, error) {
		u, err := a.Usage(t.Context(), "&namespace_id="+a.NamespaceID+"&topic=orders")
		return u.MessagesIn == 3, err
	}))
}
