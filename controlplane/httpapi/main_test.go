package httpapi

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also finds goroutines of tails and transactions that outlive their
// requests.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
