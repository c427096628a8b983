package processor

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// A broker with 100,000 topics can be registered: as plain JSON its table is
// larger than a frame may be.
func TestRegistrar_manyTopics(t *testing.T) {
	e := newEnv(t)
	reg := wire.Registration{Cluster: "c", BrokerName: "broker-many", Addr: "10.0.0.9:10911", Full: true}
	reg.Topics.DataVersion = wire.DataVersion{Counter: 1}
	reg.Topics.Topics = map[string]wire.TopicConfig{}
	name := func(i int) string { return fmt.Sprintf("%s%%topic-%06d", nsA, i) }
	const topics = 100_000
	for i := range topics {
		reg.Topics.Topics[name(i)] = wire.TopicConfig{
			Attributes: map[string]string{"message.type": "NORMAL", "sluice.id": "top_0123456789abcdefghij"}, Perm: 6,
			ReadQueueNums: 4, WriteQueueNums: 4, TopicFilterType: "SINGLE_TAG", TopicName: name(i),
		}
	}
	if err := (mqclient.Registrar{Client: e.system}).Register(t.Context(), e.ns, reg, func() {}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 54_321, topics - 1} {
		route, ok, err := e.system.At(e.ns).Route(t.Context(), name(i))
		if err != nil || !ok || route.QueueDatas[0].WriteQueueNums != 4 {
			t.Errorf("topic %d: %+v, %v, %v", i, route, ok, err)
		}
	}
}
