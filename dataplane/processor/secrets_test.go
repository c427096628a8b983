package processor

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Case B142: with an ordinary key, and without any, from loopback as from
// anywhere, no request code gives back a secret: no key's, no tenant's, not the
// system's; codes that nobody knows and those of the system are denied.
func TestEveryCode_noSecretComesBack_B142(t *testing.T) {
	e := newEnv(t)
	secrets := []string{string(systemSecret), base64.StdEncoding.EncodeToString(systemSecret), hex.EncodeToString(systemSecret)}
	for _, k := range e.snap.Keys {
		secrets = append(secrets, k.Secret)
	}
	asked, denied := 0, 0
	ask := func(key string, code int32) {
		r := e.call(key, code, map[string]string{
			"topic": "orders", "group": "g", "consumerGroup": "g", "producerGroup": "p", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9",
			"username": "slk_b", "accessKey": "slk_b", "namespace": nsB, "queueId": "0", "offset": "0",
		}, nil)
		asked++
		if r.Code != wire.Success {
			denied++
		} else if key == "" {
			t.Errorf("code %d without a key succeeds", code)
		}
		text := r.Remark + string(r.Body)
		for _, f := range r.Ext {
			text += " " + f.Key + "=" + f.Value
		}
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("code %d asked by %q gives back a secret", code, key)
			}
		}
	}
	for _, key := range []string{"slk_a", ""} {
		for _, span := range [][2]int32{{1, 400}, {1001, 1020}, {200000, 200200}} {
			for code := span[0]; code <= span[1]; code++ {
				ask(key, code)
			}
		}
	}
	if asked < 1200 || denied < asked/2 {
		t.Errorf("%d asked, %d denied", asked, denied)
	}
}
