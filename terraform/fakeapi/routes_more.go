package fakeapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

func (a *API) listGroups(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	a.mu.Lock()
	prefix := r.PathValue("ns") + "/" + r.URL.Query().Get("prefix")
	all := sorted(a.groups, func(key string, _ *api.Group) bool { return strings.HasPrefix(key, prefix) })
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.GroupList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createGroup(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.GroupCreate](r)
	if !a.hasNamespace(w, r) {
		return
	}
	if _, taken := a.Group(r.PathValue("ns"), in.Name); taken {
		a.fail(w, http.StatusConflict, "already_exists", fmt.Sprintf("group %q exists already in this namespace", in.Name), nil)
		return
	}
	g := a.newGroup(r.PathValue("ns"), in)
	if dryRun(r) {
		a.DropGroup(g.NamespaceId, g.Name)
		answer(w, http.StatusOK, g, 0)
		return
	}
	answer(w, http.StatusCreated, g, g.Revision)
}

func (a *API) getGroup(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.groups[r.PathValue("ns")+"/"+r.PathValue("group")]
	if !ok {
		a.missing(w, "group", r.PathValue("group"))
		return
	}
	g.Status = a.statusLocked(g.Id, g.Revision)
	answer(w, http.StatusOK, g, g.Revision)
}

func (a *API) updateGroup(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.GroupUpdate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.groups[r.PathValue("ns")+"/"+r.PathValue("group")]
	if !ok {
		a.missing(w, "group", r.PathValue("group"))
		return
	}
	if a.stale(w, r, g.Revision) {
		return
	}
	changed := *g
	set(&changed.ConsumeEnabled, in.ConsumeEnabled)
	set(&changed.Broadcast, in.Broadcast)
	if in.Retry != nil {
		changed.Retry = fullRetry(*in.Retry)
	}
	if in.DeadLetter != nil {
		changed.DeadLetter = fullDeadLetter(*in.DeadLetter, g.Name)
	}
	set(&changed.MaxInFlight, in.MaxInFlight)
	set(&changed.MaxRecvTps, in.MaxRecvTps)
	set(&changed.Description, in.Description)
	set(&changed.Labels, in.Labels)
	set(&changed.DeletionProtection, in.DeletionProtection)
	changed.Revision++
	if !dryRun(r) {
		changed.UpdatedAt = a.tickLocked()
		*g = changed
	}
	answer(w, http.StatusOK, changed, changed.Revision)
}

func (a *API) deleteGroup(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.PathValue("ns") + "/" + r.PathValue("group")
	g, ok := a.groups[key]
	switch {
	case !ok:
		a.missing(w, "group", r.PathValue("group"))
	case g.DeletionProtection:
		a.fail(w, http.StatusConflict, "deletion_protected", fmt.Sprintf("group %q has deletion_protection; turn it off first", g.Name), nil)
	default:
		if !dryRun(r) {
			delete(a.groups, key)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (a *API) lag(w http.ResponseWriter, r *http.Request) {
	g, ok := a.Group(r.PathValue("ns"), r.PathValue("group"))
	if !ok {
		a.missing(w, "group", r.PathValue("group"))
		return
	}
	consumer := "10.0.0.7@4711"
	answer(w, http.StatusOK, api.GroupLag{NamespaceId: g.NamespaceId, Group: g.Name, Lag: "3", AsOf: api.NewTimestamp(a.clock),
		Topics: []api.TopicLag{{Topic: "hello", Lag: "3", Queues: []api.QueueLag{
			{Queue: 0, MinOffset: "0", MaxOffset: "44", CommittedOffset: "41", Lag: "3", ConsumerId: &consumer},
			{Queue: 1, MinOffset: "0", MaxOffset: "0", CommittedOffset: "-1", Lag: "0"}}}}}, 0)
}

// resetOffset moves a group that is where lag has it.
func (a *API) resetOffset(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.OffsetReset](r)
	g, ok := a.Group(r.PathValue("ns"), r.PathValue("group"))
	if !ok {
		a.missing(w, "group", r.PathValue("group"))
		return
	}
	out := api.OffsetResetResult{NamespaceId: g.NamespaceId, Group: g.Name, Topic: in.Topic, Redelivered: "0", Skipped: "0", Queues: []api.QueueReset{
		{Broker: "broker-a", Queue: 0, FromOffset: "41", ToOffset: "41", Redelivered: "0", Skipped: "0"}}, Undo: []api.OffsetReset{}}
	q, to := &out.Queues[0], int64(0)
	switch in.To {
	case api.OffsetResetToLatest:
		to = 44
	case api.OffsetResetToTime:
		to = 30
	case api.OffsetResetToOffset:
		to, _ = strconv.ParseInt(*in.Offset, 10, 64)
	}
	q.ToOffset, q.Redelivered, q.Skipped = strconv.FormatInt(to, 10), strconv.FormatInt(max(0, 41-to), 10), strconv.FormatInt(max(0, to-41), 10)
	out.Redelivered, out.Skipped = q.Redelivered, q.Skipped
	if to != 41 {
		out.Undo = append(out.Undo, api.OffsetReset{Topic: in.Topic, To: api.OffsetResetToOffset, Broker: &q.Broker, Queue: &q.Queue, Offset: &q.FromOffset})
	}
	if in.Queue == nil {
		out.Queues = append(out.Queues, api.QueueReset{Broker: "broker-a", Queue: 1, FromOffset: "-1", ToOffset: "0", Redelivered: "0", Skipped: "0"})
	}
	answer(w, http.StatusOK, out, 0)
}

// transactions are two of topic hello, one of them given up.
func (a *API) transactions(ns string) []api.Transaction {
	next, stored := api.NewTimestamp(a.clock.Add(30*time.Second)), api.NewTimestamp(a.clock)
	id := "7F00000100002A9F0000000000000000"
	return []api.Transaction{
		{Id: "txn_YnJva2VyLWEvMC8w", NamespaceId: ns, Topic: "hello", ProducerGroup: "checkout", MessageId: &id, State: api.Open, Checks: 2, SizeBytes: 120, Broker: "broker-a", StoredAt: stored, NextCheckAt: &next},
		{Id: "txn_YnJva2VyLWEvMS85", NamespaceId: ns, Topic: "hello", ProducerGroup: "checkout", State: api.GivenUp, Checks: 15, SizeBytes: 7, Broker: "broker-a", StoredAt: stored},
	}
}

func (a *API) listTransactions(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	q := r.URL.Query()
	all := slices.DeleteFunc(a.transactions(r.PathValue("ns")), func(t api.Transaction) bool {
		return q.Get("topic") != "" && q.Get("topic") != t.Topic || q.Get("state") != "" && q.Get("state") != string(t.State)
	})
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.TransactionList{Items: items, NextPageToken: next}, 0)
}

func (a *API) settleTransaction(w http.ResponseWriter, r *http.Request) {
	if !a.hasNamespace(w, r) {
		return
	}
	for _, t := range a.transactions(r.PathValue("ns")) {
		if t.Id == r.PathValue("id") {
			answer(w, http.StatusOK, api.TransactionSettled{Id: t.Id, NamespaceId: t.NamespaceId, Topic: t.Topic, Action: api.TransactionSettledAction(r.PathValue("action"))}, 0)
			return
		}
	}
	a.missing(w, "transaction", r.PathValue("id"))
}

func (a *API) listKeys(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	q := r.URL.Query()
	all := sorted(a.keys, func(_ string, k *api.ApiKey) bool {
		return (q.Get("name") == "" || q.Get("name") == k.Name) && (q.Get("state") == "" || q.Get("state") == string(k.State))
	})
	a.mu.Unlock()
	items, next := page(a, r, all)
	for i := range items {
		items[i] = a.shown(items[i])
	}
	answer(w, http.StatusOK, api.ApiKeyList{Items: items, NextPageToken: next}, 0)
}

func (a *API) createKey(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.ApiKeyCreate](r)
	if len(or(in.Scopes, nil)) == 0 && in.ControlRole == nil {
		a.fail(w, http.StatusBadRequest, "invalid", "a key needs at least one scope or a control role", new("scopes"))
		return
	}
	k := a.newKey(in)
	if dryRun(r) {
		shown, _ := a.Key(k.Id)
		a.DropKey(k.Id)
		answer(w, http.StatusOK, shown, 0)
		return
	}
	answer(w, http.StatusCreated, k, k.Revision)
}

// keyLocked finds the key that the path names, or answers 404.
func (a *API) keyLocked(w http.ResponseWriter, r *http.Request) (*api.ApiKey, bool) {
	k, ok := a.keys[r.PathValue("id")]
	if !ok {
		a.missing(w, "API key", r.PathValue("id"))
	}
	return k, ok
}

func (a *API) getKey(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.keyLocked(w, r); ok {
		k.Status = a.statusLocked(k.Id, k.Revision)
		answer(w, http.StatusOK, a.shown(*k), k.Revision)
	}
}

func (a *API) updateKey(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.ApiKeyUpdate](r)
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.keyLocked(w, r)
	if !ok || a.stale(w, r, k.Revision) {
		return
	}
	changed := *k
	set(&changed.Name, in.Name)
	set(&changed.Description, in.Description)
	if in.Scopes != nil {
		changed.Scopes = withPatterns(*in.Scopes)
	}
	set(&changed.AllowedCidrs, in.AllowedCidrs)
	if in.ExpiresAt.IsNull() {
		changed.ExpiresAt = nil
	} else if v, err := in.ExpiresAt.Get(); err == nil {
		changed.ExpiresAt = &v
	}
	if in.Disabled != nil {
		changed.Disabled = *in.Disabled
		changed.State = api.ApiKeyStateActive
		if changed.Disabled {
			changed.State = api.ApiKeyStateDisabled
		}
	}
	changed.Revision++
	if !dryRun(r) {
		changed.UpdatedAt = a.tickLocked()
		*k = changed
	}
	answer(w, http.StatusOK, a.shown(changed), changed.Revision)
}

func (a *API) deleteKey(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.keyLocked(w, r); ok {
		if !dryRun(r) {
			delete(a.keys, k.Id)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (a *API) rotateKey(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.ApiKeyRotate](r)
	a.mu.Lock()
	old, ok := a.keyLocked(w, r)
	a.mu.Unlock()
	if !ok {
		return
	}
	scopes, cidrs, description := old.Scopes, old.AllowedCidrs, old.Description
	fresh := a.newKey(api.ApiKeyCreate{Name: old.Name, OwnerId: &old.OwnerId, Description: &description, Scopes: &scopes, ControlRole: old.ControlRole,
		AllowedCidrs: &cidrs, ExpiresAt: in.ExpiresAt})
	if dryRun(r) {
		shown, _ := a.Key(fresh.Id)
		a.DropKey(fresh.Id)
		answer(w, http.StatusOK, shown, 0)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	end := api.NewTimestamp(a.clock)
	if d, err := time.ParseDuration(or(in.GracePeriod, "0s")); err == nil {
		end = api.NewTimestamp(a.clock.Add(d))
	}
	old.ReplacedByKeyId, old.ExpiresAt = &fresh.Id, &end
	fresh.ReplacesKeyId = &old.Id
	a.keys[fresh.Id].ReplacesKeyId = &old.Id
	answer(w, http.StatusCreated, fresh, fresh.Revision)
}

func (a *API) revokeKey(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.keyLocked(w, r)
	if !ok {
		return
	}
	changed := *k
	changed.State, changed.Revision = api.ApiKeyStateRevoked, changed.Revision+1
	if !dryRun(r) {
		now := a.tickLocked()
		changed.RevokedAt = &now
		*k = changed
	}
	answer(w, http.StatusOK, changed, changed.Revision)
}

func (a *API) sendMessage(w http.ResponseWriter, r *http.Request) {
	in, _ := read[api.MessageSend](r)
	if _, ok := a.Topic(r.PathValue("ns"), r.PathValue("topic")); !ok {
		a.missing(w, "topic", r.PathValue("topic"))
		return
	}
	if dryRun(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key, now := r.PathValue("ns")+"/"+r.PathValue("topic"), a.tickLocked()
	size := len(in.Body)
	if or(in.BodyEncoding, api.Utf8) == api.Base64 {
		if raw, err := base64.StdEncoding.DecodeString(in.Body); err == nil {
			size = len(raw)
		}
	}
	m := api.Message{MessageId: fmt.Sprintf("%032d", a.numberLocked()), Topic: r.PathValue("topic"), Queue: or(in.Queue, 0),
		Offset: strconv.Itoa(len(a.messages[key])), Body: in.Body, BodyEncoding: or(in.BodyEncoding, api.Utf8), SizeBytes: int32(size),
		Tag: in.Tag, Keys: or(in.Keys, []string{}), Properties: or(in.Properties, map[string]string{}), MessageGroup: in.MessageGroup,
		DeliverAt: in.DeliverAt, BornAt: now, StoredAt: now}
	a.messages[key] = append(a.messages[key], m)
	answer(w, http.StatusCreated, api.MessageReceipt{MessageId: m.MessageId, Topic: m.Topic, Queue: m.Queue, Offset: m.Offset, StoredAt: now}, 0)
}

func (a *API) listMessages(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	all := append([]api.Message{}, a.messages[r.PathValue("ns")+"/"+r.PathValue("topic")]...)
	a.mu.Unlock()
	items, next := page(a, r, all)
	answer(w, http.StatusOK, api.MessageList{Items: items, NextPageToken: next}, 0)
}

// tail shows what is there, cuts the connection once to make the client come
// back, and then ends with a problem when there is nothing more.
func (a *API) tail(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	all := append([]api.Message{}, a.messages[r.PathValue("ns")+"/"+r.PathValue("topic")]...)
	a.mu.Unlock()
	from, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil {
		from = 0
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, "event: ready\ndata: {}\n\n: still here\n\n")
	half := (from + len(all) + 1) / 2
	for i := from; i < half; i++ {
		data, _ := json.Marshal(all[i])
		_, _ = fmt.Fprintf(w, "id: %d\nevent: message\ndata: %s\n\n", i+1, data)
	}
	if half >= len(all) {
		_, _ = fmt.Fprint(w, "event: dropped\ndata: {\"messages\": \"2\"}\n\n")
		data, _ := json.Marshal(api.Problem{Type: "/errors/unavailable", Title: "unavailable", Status: 503, Code: "unavailable",
			Detail: "the server is going down", RequestId: w.Header().Get("X-Request-Id")})
		_, _ = fmt.Fprintf(w, "event: problem\ndata: %s\n\n", data)
	}
}

func (a *API) usage(w http.ResponseWriter, r *http.Request) {
	from, to := api.NewTimestamp(a.clock.Truncate(24*time.Hour)), api.NewTimestamp(a.clock.Truncate(24*time.Hour).AddDate(0, 0, 1))
	row := api.UsageRow{From: from, To: to, MessagesIn: "1000", MessagesOut: "1000", BytesIn: "1024000", BytesOut: "1024000", Units4kIn: "1000",
		Units4kOut: "1000", Units64kIn: "1000", Units64kOut: "1000", ApiCalls: "2105", EmptyPolls: "0", ByteMsStored: "0", ConnectionSeconds: "0", Rejected: "0"}
	groupBy := []api.UsageDimension{}
	if by := r.URL.Query().Get("group_by"); by != "" {
		for _, d := range strings.Split(by, ",") {
			groupBy = append(groupBy, api.UsageDimension(d))
			if d == "topic" {
				topic := api.ReadableTopicName("hello")
				row.Topic = &topic
			}
		}
	}
	answer(w, http.StatusOK, api.Usage{From: from, To: to, Grain: api.UsageGrain(or(first(r, "grain"), "day")), GroupBy: groupBy,
		CompleteThrough: api.NewTimestamp(a.clock), Items: []api.UsageRow{row},
		Totals: api.UsageCounters{MessagesIn: "1000", MessagesOut: "1000", BytesIn: "1024000", BytesOut: "1024000", Units4kIn: "1000", Units4kOut: "1000",
			Units64kIn: "1000", Units64kOut: "1000", ApiCalls: "2105", EmptyPolls: "0", ByteMsStored: "0", ConnectionSeconds: "0", Rejected: "0"}}, 0)
}

func first(r *http.Request, name string) *string {
	if v := r.URL.Query().Get(name); v != "" {
		return &v
	}
	return nil
}

func (a *API) costs(w http.ResponseWriter, _ *http.Request) {
	month := time.Date(a.clock.Year(), a.clock.Month(), 1, 0, 0, 0, 0, time.UTC)
	answer(w, http.StatusOK, api.Costs{From: api.NewTimestamp(month), To: api.NewTimestamp(month.AddDate(0, 1, 0)), Currency: "USD", MinorUnitDigits: 2,
		PlanId: "pln_free", PriceBookId: "pbk_2026_09", CompleteThrough: api.NewTimestamp(a.clock), Total: "80",
		Lines: []api.CostLine{{Meter: "billable_units", Unit: "unit_4k", Quantity: "3000000", Included: "1000000", Billable: "2000000",
			PricePer: "1000000", UnitPriceMicros: "400000", AmountMicros: "800000", Amount: "80"}}}, 0)
}
