package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
)

// A client that goes away in the middle is no fault of ours, whatever error
// its request ends with: the database's is "invalid connection".
func TestFail_clientWentAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		gone   bool
		level  string
		status int
	}{{"gone", true, "INFO", statusClientClosed}, {"there", false, "ERROR", http.StatusInternalServerError}} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			s := &server{d: Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
			gc, _ := gin.CreateTestContext(httptest.NewRecorder())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.gone {
				cancel()
			}
			gc.Request = httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/me", nil)
			gc.Set(callKey, &call{requestID: "req_1"})
			s.fail(gc, errors.New("invalid connection"))
			if gc.Writer.Status() != c.status || !strings.Contains(log.String(), "level="+c.level) {
				t.Errorf("status %d, log %s", gc.Writer.Status(), log.String())
			}
		})
	}
}
