package mqclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/namesrv"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Registrar announces a broker at name servers. It is a broker.Registrar.
type Registrar struct{ *Client }

var _ broker.Registrar = Registrar{}

func registrationFields(r broker.Registration) map[string]string {
	return map[string]string{
		"clusterName": r.Cluster, "brokerName": r.BrokerName, "brokerAddr": r.Addr, "brokerId": strconv.FormatInt(r.BrokerID, 10),
	}
}

// Register announces the topics of r.
func (g Registrar) Register(ctx context.Context, nameServer string, r broker.Registration) error {
	body := wire.RegisterBrokerBody{FilterServers: []string{}}
	body.Topics.DataVersion = wire.DataVersion{
		Counter: wire.Int(r.Version.Counter), StateVersion: wire.Int(r.Version.StateVersion), Timestamp: wire.Int(r.Version.Timestamp),
	}
	body.Topics.Topics = make(map[string]wire.TopicConfig, len(r.Topics))
	for name, t := range r.Topics {
		body.Topics.Topics[name] = wire.TopicConfig{
			Attributes: t.Attributes, Order: t.Order, Perm: int32(t.Perm), ReadQueueNums: int32(t.ReadQueueNums),
			TopicFilterType: wire.Enum(t.TopicFilterType), TopicName: t.TopicName, TopicSysFlag: int32(t.TopicSysFlag), WriteQueueNums: int32(t.WriteQueueNums),
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode registration: %w", err)
	}
	ext := registrationFields(r)
	ext["haServerAddr"] = ""
	ext["compressed"] = "false"
	ext["bodyCrc32"] = "0"
	ext[namesrv.FullField] = strconv.FormatBool(r.Full)
	_, err = g.At(nameServer).Call(ctx, wire.RegisterBroker, ext, text)
	return err
}

// Unregister withdraws the broker.
func (g Registrar) Unregister(ctx context.Context, nameServer string, r broker.Registration) error {
	_, err := g.At(nameServer).Call(ctx, wire.UnregisterBroker, registrationFields(r), nil)
	return err
}
