package policy

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/catalog"
)

// A topic or group that the control plane accepts and brokers refuse would
// never become ready. The catalog may refuse more.
func TestReservedNames_theCatalogRefusesThemToo(t *testing.T) {
	var names []string
	for name := range reservedTopics {
		names = append(names, name)
	}
	for name := range reservedGroups {
		names = append(names, name)
	}
	for _, prefix := range reservedPrefixes {
		names = append(names, prefix, prefix+"x")
	}
	names = append(names, "", "a%b", "a b", "é", strings.Repeat("x", MaxNameBytes+1))
	for _, name := range names {
		if CheckTopicName(name) != nil && catalog.CheckTopicName(name) == nil {
			t.Errorf("topic %q: brokers refuse it, the catalog does not", name)
		}
		if CheckGroupName(name) != nil && catalog.CheckGroupName(name) == nil {
			t.Errorf("group %q: brokers refuse it, the catalog does not", name)
		}
	}
	longest := strings.Repeat("x", MaxNameBytes)
	if err := catalog.CheckTopicName(longest); err != nil {
		t.Errorf("the catalog refuses a name of %d bytes: %v", MaxNameBytes, err)
	}
}
