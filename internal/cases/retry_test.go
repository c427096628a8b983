package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// A client may send to the retry topic of its group itself, as SDKs do when
// sending back failed: each is billed as a message in, none is free.
func TestUsage_sendsToARetryTopic(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("retries@example.com")
	send := remotingSend(t, key{c.Addresses, a.KeyID, a.Secret}, "%RETRY%hello-group")
	const n = 50
	for i := range n {
		must(t, send(fmt.Appendf(nil, "message %d", i), ""))
	}
	var u testcluster.Totals
	if err := testcluster.Eventually(t.Context(), 15*time.Second, func() (bool, error) {
		var err error
		u, err = a.Usage(t.Context(), "")
		return u.MessagesIn >= n, err
	}); err != nil || u.MessagesIn != n {
		t.Errorf("%d messages in, want %d: %v", u.MessagesIn, n, err)
	}
}
