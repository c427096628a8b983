package processor

import (
	"strconv"
	"testing"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Half messages that nobody decides about are found and settled by an operator's
// hand, in their own namespace alone.
func TestSettle_listCommitRollbackCheck_B061(t *testing.T) {
	e := newEnv(t)
	node, ctx := e.system.At(e.addr), t.Context()
	var ends []map[string]string
	for i := range 3 {
		ends = append(ends, e.half("slk_a", "orders", "p", "U"+strconv.Itoa(i)))
	}
	settle := func(ns string, of wire.Transaction, how, want string) {
		t.Helper()
		outcome, topic, err := node.SettleTransaction(ctx, ns, of.HalfOffset, of.PhysicalOffset, how)
		if err != nil || outcome != want || (want != wire.SettledUnknown) != (topic == of.Topic) {
			t.Errorf("%s of %s: %s %q, %v; want %s", how, of.UniqueKey, outcome, topic, err, want)
		}
	}
	// Once the last one can be settled, all of them are known.
	last := wire.Transaction{UniqueKey: "U2", Topic: nsA + "%orders"}
	last.HalfOffset, _ = strconv.ParseInt(ends[2]["tranStateTableOffset"], 10, 64)
	last.PhysicalOffset, _ = strconv.ParseInt(ends[2]["commitLogOffset"], 10, 64)
	settle(nsA, last, wire.SettleCheck, wire.SettledDone)
	first, err := node.ListTransactions(ctx, nsA, "", 0, 2)
	if err != nil || len(first.Transactions) != 2 || first.Next < 0 || first.BrokerName != "broker-a" {
		t.Fatalf("first page: %+v, %v", first, err)
	}
	rest, err := node.ListTransactions(ctx, nsA, nsA+"%orders", first.Next, 2)
	if err != nil || len(rest.Transactions) != 1 || rest.Next != -1 {
		t.Fatalf("rest: %+v, %v", rest, err)
	}
	a, b, c := first.Transactions[0], first.Transactions[1], rest.Transactions[0]
	if a.Topic != nsA+"%orders" || a.Group != nsA+"%p" || a.UniqueKey != "U0" || a.GivenUp || a.Bytes == 0 || strconv.FormatInt(a.PhysicalOffset, 10) != ends[0]["commitLogOffset"] {
		t.Errorf("one of the list: %+v", a)
	}
	for _, other := range []struct{ namespace, topic string }{{nsB, ""}, {nsA, nsA + "%none"}} {
		if list, err := node.ListTransactions(ctx, other.namespace, other.topic, 0, 10); err != nil || len(list.Transactions) != 0 {
			t.Errorf("%v: %+v, %v", other, list, err)
		}
	}
	for _, how := range []string{wire.SettleLook, wire.SettleCommit, wire.SettleRollback, wire.SettleCheck} {
		settle(nsB, a, how, wire.SettledUnknown)
	}
	settle(nsA, a, wire.SettleLook, wire.SettledDone)
	settle(nsA, a, wire.SettleCommit, wire.SettledDone)
	settle(nsA, a, wire.SettleCommit, wire.SettledDone)
	settle(nsA, a, wire.SettleRollback, wire.SettledEnded)
	settle(nsA, a, wire.SettleCheck, wire.SettledEnded)
	settle(nsA, b, wire.SettleRollback, wire.SettledDone)
	settle(nsA, b, wire.SettleCommit, wire.SettledEnded)
	settle(nsA, c, wire.SettleCheck, wire.SettledDone)
	settle(nsA, wire.Transaction{Topic: a.Topic, HalfOffset: c.HalfOffset, PhysicalOffset: a.PhysicalOffset}, wire.SettleCommit, wire.SettledUnknown)
	if list, err := node.ListTransactions(ctx, nsA, "", 0, 10); err != nil || len(list.Transactions) != 1 || list.Transactions[0].UniqueKey != "U2" {
		t.Errorf("left: %+v, %v", list, err)
	}
	if got := e.pulledFrom("slk_a", 2); len(got) != 1 {
		t.Errorf("delivered %d", len(got))
	}
	if _, _, err := node.SettleTransaction(ctx, nsA, 0, 0, "maybe"); err == nil {
		t.Error("what nobody can do was done")
	}
}
