package namesrv

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// TestEveryCode_foreignNamesGainNothing sends every request code, unsigned and
// signed by tenant A, with fields that point at tenant B.
func TestEveryCode_foreignNamesGainNothing(t *testing.T) {
	f := newFixture(t)
	f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt(), registerBody(t, "aaaaaaaa%orders", "bbbbbbbb%secret"))
	route := func() string {
		return string(f.call("slk_b", wire.GetRouteInfoByTopic, map[string]string{"topic": "secret"}, nil).Body)
	}
	before := route()
	if before == "" {
		t.Fatal("B has no route")
	}
	for _, key := range []string{"", "slk_a"} {
		for code := range int32(1000) {
			for _, topic := range []string{"bbbbbbbb%secret", "secret"} {
				ext := brokerExt("topic", topic, "namespace", "bbbbbbbb", "key", "secret", "value", "v", "cluster", "c1", "brokerAddr", "6.6.6.6:6")
				r := f.call(key, code, ext, registerBody(t))
				if strings.Contains(string(r.Body), "bbbbbbbb") || strings.Contains(string(r.Body), "secret") {
					t.Errorf("code %d by %q shows %s", code, key, r.Body)
				}
				own := key != "" && (code == wire.GetAllTopicListFromNamesrv || code == wire.GetTopicsByCluster)
				if r.Code == wire.Success && !own {
					t.Errorf("code %d by %q succeeded: %v %s", code, key, r.Ext, r.Body)
				}
			}
		}
	}
	if after := route(); after != before {
		t.Errorf("B's route changed to %s", after)
	}
}
