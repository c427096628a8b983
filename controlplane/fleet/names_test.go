package fleet

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// A name that the catalogue takes must be one that brokers let in, or the
// object could never be used.
func TestNames_whatTheCatalogueTakesBrokersLetIn(t *testing.T) {
	names := []string{
		"", "a", "orders", "A-b_9", strings.Repeat("x", 100), strings.Repeat("x", 101), "a b", "a/b", "..", "a%b", "ordеrs", "a\x00",
		"TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
		"RMQ_SYS_anything", "rmq_sys_wheel_timer", "TRANS_CHECK_MAX_TIME_TOPIC", "CHECKPOINT_TOPIC", "DefaultCluster", "TOOLS_CONSUMER",
		"FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "SELF_TEST_P_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS",
		"__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "hello", "hello-group",
	}
	for _, name := range names {
		if catalog.CheckTopicName(name) == nil && policy.CheckTopicName(name) != nil {
			t.Errorf("topic %q passes the catalogue and no broker: %v", name, policy.CheckTopicName(name))
		}
		if catalog.CheckGroupName(name) == nil && policy.CheckGroupName(name) != nil {
			t.Errorf("group %q passes the catalogue and no broker: %v", name, policy.CheckGroupName(name))
		}
	}
	if catalog.CheckTopicName("orders") != nil || catalog.CheckGroupName("orders") != nil {
		t.Error("an ordinary name is refused")
	}
}
