package messages

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/errs"
)

const (
	// transactionsPerCall is the most that a broker lists at once.
	transactionsPerCall = 100
	// listsPerPage bounds what one page costs where hardly anything matches.
	listsPerPage = 50
)

// half is the place of a half message; an id is made of it.
type half struct {
	broker           string
	offset, physical int64
}

func (h half) id() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d/%d", h.broker, h.offset, h.physical))
}

func halfOf(id string) (h half, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return h, false
	}
	broker, places, _ := strings.Cut(string(text), "/")
	offset, physical, _ := strings.Cut(places, "/")
	h.broker = broker
	if h.offset, err = strconv.ParseInt(offset, 10, 64); err != nil || h.offset < 0 {
		return h, false
	}
	h.physical, err = strconv.ParseInt(physical, 10, 64)
	return h, err == nil && h.physical >= 0 && h.id() == id
}

// Transactions implements catalog.Messages. It walks broker after broker; the
// cursor is "<broker>.<half offset>", the broker by its place in the cluster.
func (s *Service) Transactions(ctx context.Context, q catalog.TransactionQuery) (catalog.TransactionPage, error) {
	place, from := 0, int64(0)
	if q.Cursor != "" {
		b, o, _ := strings.Cut(q.Cursor, ".")
		n, err1 := strconv.ParseInt(b, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if err1 != nil || err2 != nil || n < 0 || offset < 0 {
			return catalog.TransactionPage{}, errs.Field("page_token", "%w", errCursor)
		}
		place, from = int(n), offset
	}
	topic := ""
	if q.Topic != "" {
		topic = physical(q.NamespaceID, q.Topic)
	}
	var page catalog.TransactionPage
	for lists := 0; place < len(s.brokers); lists++ {
		room := q.Limit - len(page.Transactions)
		if room <= 0 || lists == listsPerPage {
			page.Next = strconv.Itoa(place) + "." + strconv.FormatInt(from, 10)
			return page, nil
		}
		list, err := s.brokers[place].ListTransactions(ctx, q.NamespaceID, topic, from, min(room, transactionsPerCall))
		if err != nil {
			return catalog.TransactionPage{}, failure(err)
		}
		for i := range list.Transactions {
			if t, ok := transaction(q.NamespaceID, list.BrokerName, &list.Transactions[i]); ok && (q.State == "" || q.State == t.State) {
				page.Transactions = append(page.Transactions, t)
			}
		}
		if from = list.Next; from < 0 {
			place, from = place+1, 0
		}
	}
	return page, nil
}

// transaction is a half message in the words of the user's world; ok is false
// for one of another namespace.
func transaction(namespaceID, broker string, t *wire.Transaction) (out catalog.Transaction, ok bool) {
	topic, ok := bare(namespaceID, t.Topic)
	if !ok {
		return out, false
	}
	group, ok := bare(namespaceID, t.Group)
	if !ok {
		group = t.Group // of a client that named another one: it is text
		if _, ns, _, physical := policy.SplitPhysical(group); physical && ns != namespaceID {
			group = ""
		}
	}
	out = catalog.Transaction{ID: half{broker, t.HalfOffset, t.PhysicalOffset}.id(), Topic: topic, Group: group, MessageID: t.UniqueKey,
		State: catalog.TransactionOpen, Checks: t.Checks, Bytes: t.Bytes, Broker: broker, StoredAt: time.UnixMilli(t.Stored).UTC()}
	if t.GivenUp {
		out.State = catalog.TransactionGivenUp
	}
	if t.NextCheck > 0 {
		next := time.UnixMilli(t.NextCheck).UTC()
		out.NextCheckAt = &next
	}
	return out, true
}

// Settle implements catalog.Messages.
func (s *Service) Settle(ctx context.Context, settle catalog.Settlement) (string, error) {
	h, ok := halfOf(settle.ID)
	if !ok {
		return "", errNoTransaction()
	}
	node, err := s.named(ctx, settle.NamespaceID, h.broker)
	if err != nil {
		return "", err
	}
	how := string(settle.Action)
	if settle.DryRun {
		how = wire.SettleLook
	}
	outcome, topic, err := node.SettleTransaction(ctx, settle.NamespaceID, h.offset, h.physical, how)
	if err != nil {
		return "", failure(err)
	}
	switch outcome {
	case wire.SettledUnknown:
		return "", errNoTransaction()
	case wire.SettledEnded:
		return "", errs.E(errs.Conflict, "the transaction has already ended").WithReason("transaction_ended")
	}
	name, _ := bare(settle.NamespaceID, topic)
	return name, nil
}

func errNoTransaction() error {
	return errs.E(errs.NotFound, "there is no such transaction in this namespace")
}

// named finds a broker by its name, which answers tell and addresses do not.
func (s *Service) named(ctx context.Context, namespaceID, name string) (mqclient.Node, error) {
	for _, node := range s.brokers {
		list, err := node.ListTransactions(ctx, namespaceID, "", 0, 1)
		if err != nil {
			return node, failure(err)
		}
		if list.BrokerName == name {
			return node, nil
		}
	}
	return mqclient.Node{}, errNoTransaction()
}
