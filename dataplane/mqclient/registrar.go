package mqclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Registrar announces a broker at name servers, for the broker core.
type Registrar struct{ *Client }

func registrationFields(r *wire.Registration) map[string]string {
	return map[string]string{
		"clusterName": r.Cluster, "brokerName": r.BrokerName, "brokerAddr": r.Addr, "brokerId": strconv.FormatInt(r.BrokerID, 10),
	}
}

// plainRegistration is the largest registration that is sent as it is, in
// bytes: that of some thousand topics.
const plainRegistration = 1 << 20

// lostKey is the connection attribute that says that the loss is watched.
type lostKey struct{}

// Register announces the topics of r. lost is called once when the connection
// to the name server closes, after which the name server forgets the broker;
// it must not block.
func (g Registrar) Register(ctx context.Context, nameServer string, r wire.Registration, lost func()) error {
	text, err := json.Marshal(wire.RegisterBrokerBody{FilterServers: []string{}, Topics: r.Topics})
	if err != nil {
		return fmt.Errorf("encode registration: %w", err)
	}
	encoding := ""
	if len(text) > plainRegistration {
		if text, err = wire.Deflate(text); err != nil {
			return fmt.Errorf("deflate registration: %w", err)
		}
		encoding = wire.EncodingDeflate
	}
	conn, err := g.rc.Conn(ctx, nameServer)
	if err != nil {
		return err
	}
	if conn.ValueOrStore(lostKey{}, func() any { return new(atomic.Bool) }).(*atomic.Bool).CompareAndSwap(false, true) {
		conn.OnClose(lost)
	}
	ext := registrationFields(&r)
	ext["haServerAddr"] = ""
	ext["compressed"] = "false"
	ext["bodyCrc32"] = "0"
	ext[wire.FullRegistration] = strconv.FormatBool(r.Full)
	if encoding != "" {
		ext[wire.BodyEncoding] = encoding
	}
	_, err = g.At(nameServer).Call(ctx, wire.RegisterBroker, ext, text)
	return err
}

// Unregister withdraws the broker.
func (g Registrar) Unregister(ctx context.Context, nameServer string, r wire.Registration) error {
	_, err := g.At(nameServer).Call(ctx, wire.UnregisterBroker, registrationFields(&r), nil)
	return err
}
