package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestSend_addsWhatTheBrokerSays(t *testing.T) {
	e := newEnv(t)
	s := e.send(msg(topicA, -1, "x", "k", "v", message.KeyPopCheckpoint, "forged"))
	rec, err := e.View(s.PhysicalOffset, func(topic string) bool { return topic == topicA })
	if err != nil {
		t.Fatal(err)
	}
	m, _ := message.Decode(rec)
	for key, want := range map[string]string{
		"k": "v", message.KeyPopCheckpoint: "", message.KeyCluster: "DefaultCluster", message.KeyRegion: Region, OwnerKey: "slk_a,r",
	} {
		if v, _ := m.Property(key); v != want {
			t.Errorf("%s = %q, want %q", key, v, want)
		}
	}
	if v, _ := m.Property(message.KeyUniqueKey); len(v) != 32 {
		t.Errorf("unique key %q", v)
	}
	if _, err := e.View(s.PhysicalOffset, func(string) bool { return false }); CodeOf(err) != CodeMessageNotFound {
		t.Errorf("a record of somebody else: %v", err)
	}
	if _, err := e.View(s.PhysicalOffset+1, func(string) bool { return true }); CodeOf(err) != CodeMessageNotFound {
		t.Errorf("the middle of a record: %v", err)
	}
}

func TestSend_refusals(t *testing.T) {
	e := newEnv(t)
	readOnly := store.DefaultTopicConfig("aaaaaaaa%ro")
	readOnly.Perm = store.PermRead
	if err := e.PutTopic(t.Context(), readOnly); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    *message.Message
		want Code
	}{
		"no topic":      {msg("aaaaaaaa%none", 0, "x"), CodeTopicNotFound},
		"read only":     {msg("aaaaaaaa%ro", 0, "x"), CodeNoPermission},
		"queue":         {msg(topicA, 2, "x"), CodeInvalidParameter},
		"body":          {msg(topicA, 0, strings.Repeat("x", 4<<20+1)), CodeBodyTooLarge},
		"properties":    {msg(topicA, 0, "x", "k", strings.Repeat("x", 32766)), CodePropertiesTooLarge},
		"delay level":   {msg(topicA, 0, "x", message.KeyDelay, "a"), CodeIllegalMessage},
		"timer":         {msg(topicA, 0, "x", message.KeyTimerDelaySec, "99999999999999999"), CodeIllegalDelay},
		"nobody to ask": {msg(topicA, 0, "x", message.KeyTransactionPrepared, "true"), CodeIllegalMessage},
		"delayed half":  {msg(topicA, 0, "x", message.KeyTransactionPrepared, "true", message.KeyProducerGroup, "aaaaaaaa%p", message.KeyTimerDelaySec, "3"), CodeIllegalMessage},
		"light queue":   {msg(topicA, 0, "x", message.KeyMultiDispatch, "%LMQ%bbbbbbbb"), CodeNotYet},
		"no such group": {msg(RetryTopic("aaaaaaaa%none"), 0, "x"), CodeGroupNotFound},
	} {
		if _, err := e.Send(t.Context(), caller, c.m, -1); CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want code %v", name, err, c.want)
		}
	}
	for _, flag := range []int32{message.SysFlagCommit, message.SysFlagRollback} {
		m := msg(topicA, 0, "x")
		m.SysFlag = flag
		if _, err := e.Send(t.Context(), caller, m, -1); CodeOf(err) != CodeIllegalMessage {
			t.Errorf("sysFlag %d: %v", flag, err)
		}
	}
}

// B010: at the limit stored byte for byte; over it refused, and of a batch
// with one such message nothing is stored.
func TestSend_propertyLimit(t *testing.T) {
	e := newEnv(t)
	full := msg(topicA, 0, "x")
	full.Properties = message.AppendProperty(nil, "k", strings.Repeat("v", message.MaxPropertiesBytes-3))
	want := slices.Clone(full.Properties)
	s := e.send(full)
	rec, err := e.View(s.PhysicalOffset, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := message.Decode(rec); !slices.Equal(m.Properties, want) {
		t.Errorf("properties at the limit changed: %d bytes", len(m.Properties))
	}
	over := msg(topicA, 0, "2", "k", strings.Repeat("v", message.MaxPropertiesBytes))
	_, err = e.SendBatch(t.Context(), caller, []*message.Message{msg(topicA, 0, "1"), over, msg(topicA, 0, "3")})
	if CodeOf(err) != CodePropertiesTooLarge || !strings.Contains(err.Error(), "message 2 of the batch") {
		t.Errorf("batch: %v", err)
	}
	got, err := e.SendBatch(t.Context(), caller, []*message.Message{msg(topicA, 0, "1"), msg(topicA, 0, "2")})
	if err != nil || got[0].QueueOffset != 1 || got[1].QueueOffset != 2 {
		t.Errorf("batch after it: %+v, %v", got, err)
	}
}

func TestPull_states(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		e.send(msg(topicA, 0, fmt.Sprint(i), message.KeyTags, []string{"a", "b"}[i%2]))
	}
	only, err := ParseFilter("TAG", "b || c")
	if err != nil {
		t.Fatal(err)
	}
	none, _ := ParseFilter("", "zzz")
	for name, c := range map[string]struct {
		p      Pull
		status PullStatus
		next   int64
		n      int
	}{
		"all":          {Pull{QueueID: 0, Offset: 0}, PullFound, 4, 4},
		"filtered":     {Pull{QueueID: 0, Offset: 0, Filter: only}, PullFound, 4, 2},
		"no match":     {Pull{QueueID: 0, Offset: 0, Filter: none}, PullSkipped, 4, 0},
		"at the end":   {Pull{QueueID: 0, Offset: 4}, PullNone, 4, 0},
		"beyond":       {Pull{QueueID: 0, Offset: 9}, PullOffsetMoved, 4, 0},
		"empty queue":  {Pull{QueueID: 1, Offset: 0}, PullNone, 0, 0},
		"empty, ahead": {Pull{QueueID: 1, Offset: 5}, PullOffsetMoved, 0, 0},
	} {
		c.p.Group, c.p.Topic, c.p.Commit = groupA, topicA, -1
		out := e.pull(c.p)
		if out.err != nil || out.Status != c.status || out.Next != c.next || len(out.Records) != c.n {
			t.Errorf("%s: got %+v", name, out)
		}
		out.Release()
	}
	for name, c := range map[string]struct {
		p    Pull
		want Code
	}{
		"topic":  {Pull{Group: groupA, Topic: "aaaaaaaa%no"}, CodeTopicNotFound},
		"group":  {Pull{Group: "aaaaaaaa%no", Topic: topicA}, CodeGroupNotFound},
		"queue":  {Pull{Group: groupA, Topic: topicA, QueueID: 9}, CodeInvalidParameter},
		"queue-": {Pull{Group: groupA, Topic: topicA, QueueID: -1}, CodeInvalidParameter},
	} {
		if out := e.pull(c.p); CodeOf(out.err) != c.want {
			t.Errorf("%s: %v", name, out.err)
		}
	}
	if _, err := ParseFilter("SQL92", "a > 1 +"); CodeOf(err) != CodeBadFilter || !strings.Contains(err.Error(), "character 7") {
		t.Errorf("SQL92: %v", err)
	}
}

func TestPull_parksUntilArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		filter, _ := ParseFilter("TAG", "want")
		answers := make(chan pulled, 3)
		park := func(p Pull) {
			p.Group, p.Topic, p.Commit, p.Hold = groupA, topicA, -1, 15*time.Second
			e.Pull(p, func(out Pulled, err error) { answers <- pulled{out, err} })
		}
		park(Pull{QueueID: 0, Filter: filter})
		park(Pull{QueueID: 1})
		synctest.Wait()
		select {
		case a := <-answers:
			t.Fatalf("answered before an arrival: %+v", a)
		default:
		}
		e.send(msg(topicA, 0, "no", message.KeyTags, "other"))
		synctest.Wait()
		if len(answers) != 0 {
			t.Fatal("woken by a message that the filter does not want")
		}
		e.send(msg(topicA, 0, "yes", message.KeyTags, "want"))
		if a := <-answers; a.err != nil || len(a.Records) != 1 || a.Next != 2 {
			t.Errorf("got %+v", a)
		}
		begin := time.Now()
		if a := <-answers; a.Status != PullNone || time.Since(begin) != 15*time.Second {
			t.Errorf("got %+v after %v", a, time.Since(begin))
		}
		park(Pull{QueueID: 1})
		synctest.Wait()
		e.Drain()
		if a := <-answers; a.Status != PullNone {
			t.Errorf("drained: %+v", a)
		}
		park(Pull{QueueID: 1})
		if a := <-answers; a.Status != PullNone {
			t.Errorf("after drain: %+v", a)
		}
	})
}

func TestPull_overRateSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(1)
		begin, asked := time.Now(), 0
		out := e.pull(Pull{Group: groupA, Topic: topicA, Commit: -1, Hold: 15 * time.Second, Admit: func(n int) time.Duration {
			if asked++; asked == 1 {
				return 3 * time.Second
			}
			return 0
		}})
		if out.err != nil || len(out.Records) != 1 || time.Since(begin) != 3*time.Second {
			t.Errorf("got %+v after %v", out, time.Since(begin))
		}
		begin = time.Now()
		out = e.pull(Pull{Group: groupA, Topic: topicA, Commit: -1, Admit: func(int) time.Duration { return time.Hour }})
		if out.err != nil || out.Status != PullNone || out.Next != 0 || time.Since(begin) != slowest {
			t.Errorf("got %+v after %v", out, time.Since(begin))
		}
	})
}

// B115: offsets that cannot be right are refused, a move back is taken.
func TestCommitOffset_refusesImpossible(t *testing.T) {
	e := newEnv(t)
	e.sendN(10)
	for name, c := range map[string]struct {
		group, topic string
		queue        int32
		offset       int64
		want         Code
	}{
		"negative":     {groupA, topicA, 0, -1, CodeInvalidParameter},
		"over the end": {groupA, topicA, 0, 110, CodeInvalidParameter},
		"queue":        {groupA, topicA, 999, 0, CodeInvalidParameter},
		"topic":        {groupA, "bbbbbbbb%x", 0, 0, CodeTopicNotFound},
		"group":        {"aaaaaaaa%no", topicA, 0, 0, CodeGroupNotFound},
	} {
		if err := e.CommitOffset(c.group, c.topic, c.queue, c.offset); CodeOf(err) != c.want || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, offset := range []int64{10, 0, 7} {
		if err := e.CommitOffset(groupA, topicA, 0, offset); err != nil {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
	if out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: 0, Commit: 99}); out.err != nil || len(out.Records) != 10 {
		t.Errorf("pull with a wrong commit: %+v", out)
	}
	if offset, found, err := e.Offset(groupA, topicA, 0, true); offset != 7 || !found || err != nil {
		t.Errorf("offset %d, %t, %v", offset, found, err)
	}
}

func TestOffset_ofANewGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(1)
		if offset, found, _ := e.Offset(groupA, topicA, 0, false); !found || offset != 0 {
			t.Errorf("young queue: %d, %t", offset, found)
		}
		if offset, found, _ := e.Offset(groupA, topicA, 1, false); !found || offset != 0 {
			t.Errorf("empty queue: %d, %t", offset, found)
		}
		if _, found, _ := e.Offset(groupA, topicA, 0, true); found {
			t.Error("exact: found")
		}
		time.Sleep(2 * time.Hour)
		if _, found, _ := e.Offset(groupA, topicA, 0, false); found {
			t.Error("old queue: the client's rule must apply")
		}
	})
}

// B035: a saved offset beyond the end of the log comes back to the end.
func TestOffsets_aheadOfLogAreCorrected(t *testing.T) {
	e := newEnv(t)
	e.sendN(5)
	saved, err := json.Marshal(map[string]any{"offsetTable": map[string]any{topicA + "@" + groupA: map[string]int64{"0": 9000, "1": 7}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.st.SaveConfig(offsetsFile, saved); err != nil {
		t.Fatal(err)
	}
	e.restart()
	if offset, _, _ := e.Offset(groupA, topicA, 0, true); offset != 5 {
		t.Errorf("queue 0: %d", offset)
	}
	stats, err := e.GroupStats(groupA, topicA)
	if err != nil || len(stats) != 2 {
		t.Fatal(stats, err)
	}
	for _, s := range stats {
		if s.Max-s.Offset < 0 {
			t.Errorf("negative lag: %+v", s)
		}
	}
	for i := range 20 {
		e.send(msg(topicA, 0, fmt.Sprint("new", i)))
	}
	if got := e.take(32, time.Minute); len(got) != 20 {
		t.Errorf("%d of 20 new messages were received", len(got))
	}
}

func TestOffsets_fileOfTheReferenceIsRead(t *testing.T) {
	e := newEnv(t)
	e.sendN(5)
	if err := e.st.SaveConfig(offsetsFile, []byte("{\n\t\"offsetTable\":{\n\t\t\""+topicA+"@"+groupA+"\":{0:3,1:0\n\t\t}\n\t}\n}")); err != nil {
		t.Fatal(err)
	}
	e.restart()
	if offset, found, _ := e.Offset(groupA, topicA, 0, true); offset != 3 || !found {
		t.Errorf("%d, %t", offset, found)
	}
	if err := e.CommitOffset(groupA, topicA, 0, 4); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e.restart()
	if offset, _, _ := e.Offset(groupA, topicA, 0, true); offset != 4 {
		t.Errorf("after close: %d", offset)
	}
}

func TestMembers_changesAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run()
		heard := map[string]int{}
		client := func(id string) *Client {
			return &Client{ID: id, Notify: func(group string) { heard[id+" "+group]++ }}
		}
		consumer := func(topics ...string) []Consumer {
			c := Consumer{Group: groupA, MessageModel: "CLUSTERING"}
			for _, name := range topics {
				c.Subscriptions = append(c.Subscriptions, Subscription{Topic: name, Version: time.Now().UnixMilli()})
			}
			return []Consumer{c}
		}
		a, b := client("a"), client("b")
		beat := func(c *Client, topics ...string) {
			t.Helper()
			if err := e.Heartbeat(c, []string{"aaaaaaaa%p"}, consumer(topics...)); err != nil {
				t.Fatal(err)
			}
		}
		beat(a, topicA)
		if got := e.ConsumerIDs(groupA); !slices.Equal(got, []string{"a"}) {
			t.Errorf("right after the heartbeat: %v", got)
		}
		beat(b, topicA)
		beat(a, topicA)
		if heard["a "+groupA] != 2 || heard["b "+groupA] != 1 {
			t.Errorf("joins: %v", heard)
		}
		beat(a, topicA, "aaaaaaaa%more")
		if heard["b "+groupA] != 2 {
			t.Errorf("new topic: %v", heard)
		}
		if s, ok := e.Subscribed(groupA, "aaaaaaaa%more"); !ok || s.Topic == "" {
			t.Errorf("subscription: %+v, %t", s, ok)
		}
		e.Disconnect(a)
		if heard["b "+groupA] != 3 || !slices.Equal(e.ConsumerIDs(groupA), []string{"b"}) {
			t.Errorf("leave: %v %v", heard, e.ConsumerIDs(groupA))
		}
		if len(e.Producers("aaaaaaaa%p")) != 1 {
			t.Errorf("producers: %v", e.Producers("aaaaaaaa%p"))
		}
		time.Sleep(131 * time.Second)
		synctest.Wait()
		if got := e.ConsumerIDs(groupA); len(got) != 0 {
			t.Errorf("silent member is still there: %v", got)
		}
		if err := e.Heartbeat(a, nil, []Consumer{{Group: "aaaaaaaa%none"}, consumer(topicA)[0]}); CodeOf(err) != CodeGroupNotFound {
			t.Errorf("unknown group: %v", err)
		}
		if got := e.ConsumerIDs(groupA); len(got) != 1 {
			t.Error("the known group was left out")
		}
		e.Unregister(a, "", groupA)
		if _, ok := e.Members(groupA); ok {
			t.Error("unregistered member is there")
		}
	})
}

func TestLocks_oneOwnerUntilExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.putGroup("bbbbbbbb%g")
		q := []QueueRef{{topicA, 0}, {topicA, 1}, {topicA, 9}, {"aaaaaaaa%none", 0}}
		lock := func(group, client string) int {
			t.Helper()
			got, err := e.LockQueues(group, client, q)
			if err != nil {
				t.Fatal(err)
			}
			return len(got)
		}
		if n := lock(groupA, "a"); n != 2 {
			t.Fatalf("a owns %d", n)
		}
		if n := lock(groupA, "b"); n != 0 {
			t.Errorf("b took %d", n)
		}
		if n := lock("bbbbbbbb%g", "b"); n != 2 { // B156
			t.Errorf("the group of another namespace got %d", n)
		}
		e.UnlockQueues(groupA, "b", q)
		time.Sleep(50 * time.Second)
		if lock(groupA, "a") != 2 {
			t.Error("renewal failed")
		}
		time.Sleep(59 * time.Second)
		if lock(groupA, "b") != 0 {
			t.Error("renewed lock was taken")
		}
		time.Sleep(2 * time.Second)
		if lock(groupA, "b") != 2 {
			t.Error("expired lock was kept")
		}
	})
}

func TestSendBack_delaysThenDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run()
		s := e.send(msg(topicA, 0, "x", message.KeyUniqueKey, "U"))
		own := func(topic string) bool { return strings.Contains(topic, "aaaaaaaa%") }
		back := func(offset int64, level int, limit int32) error {
			return e.SendBack(t.Context(), SendBack{Group: groupA, Offset: offset, DelayLevel: level, MaxReconsume: limit, Allowed: own})
		}
		if err := back(s.PhysicalOffset, 0, -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if out := e.pull(Pull{Group: groupA, Topic: RetryTopic(groupA)}); len(out.Records) != 0 {
			t.Fatal("the first retry came before 10 s")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		out := e.pull(Pull{Group: groupA, Topic: RetryTopic(groupA)})
		if len(out.Records) != 1 {
			t.Fatalf("after 11 s: %+v", out)
		}
		m, _ := message.Decode(out.Records[0])
		for key, want := range map[string]string{message.KeyRetryTopic: topicA, message.KeyOriginMessageID: message.OffsetID(e.Config().StoreHost, s.PhysicalOffset), message.KeyUniqueKey: "U", OwnerKey: ""} {
			if v, _ := m.Property(key); v != want {
				t.Errorf("%s = %q, want %q", key, v, want)
			}
		}
		if m.ReconsumeTimes != 1 {
			t.Errorf("reconsume times %d", m.ReconsumeTimes)
		}
		if err := back(m.PhysicalOffset, 0, 1); err != nil {
			t.Fatal(err)
		}
		e.readable(DLQTopic(groupA), 0, 0)
		if out := e.pull(Pull{Group: groupA, Topic: DLQTopic(groupA)}); len(out.Records) != 1 {
			t.Errorf("dead letters: %+v", out)
		}
		if err := back(s.PhysicalOffset+1, 0, -1); CodeOf(err) != CodeMessageNotFound {
			t.Errorf("the middle of a record: %v", err)
		}
		e.putTopic("bbbbbbbb%secret", 1)
		foreign := e.send(msg("bbbbbbbb%secret", 0, "x"))
		if err := back(foreign.PhysicalOffset, 0, -1); CodeOf(err) != CodeMessageNotFound { // B155
			t.Errorf("a foreign record: %v", err)
		}
	})
}

func TestSend_toRetryTopicHonoursAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run()
		retry := func(times, limit int32) {
			t.Helper()
			m := msg(RetryTopic(groupA), 0, "x", message.KeyDelay, "1")
			m.ReconsumeTimes = times
			if _, err := e.Send(t.Context(), caller, m, limit); err != nil {
				t.Fatal(err)
			}
		}
		retry(1, 16)
		retry(17, 16)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		// Each is charged once: what waits for its delay when it begins to.
		for topic, owner := range map[string]string{RetryTopic(groupA): "", DLQTopic(groupA): caller.owner(), ScheduleTopic: caller.owner()} {
			out, err := e.store.Read(topic, 0, 0, store.ReadOptions{})
			if err != nil || len(out.Records) != 1 {
				t.Errorf("%s: %d records, want 1, %v", topic, len(out.Records), err)
				continue
			}
			m, _ := message.Decode(out.Records[0])
			if got, _ := m.Property(OwnerKey); got != owner {
				t.Errorf("%s: charged to %q, want %q", topic, got, owner)
			}
		}
		m := msg(RetryTopic(groupA), 0, "x", "filler", strings.Repeat("f", message.MaxPropertiesBytes-20))
		if _, err := e.Send(t.Context(), caller, m, 16); CodeOf(err) != CodePropertiesTooLarge {
			t.Errorf("properties that leave no room for the owner: %v", err)
		}
	})
}

// A deletion that failed half way is finished by asking again.
func TestAdmin_deleteAgain(t *testing.T) {
	mem := vfs.NewMem(time.Now)
	disk := vfs.NewFaults(mem)
	e := &env{t: t, st: openStoreOn(t, disk), fs: vfs.NewMem(time.Now)}
	e.open(testConfig())
	e.putTopic(topicA, 2)
	e.putGroup(groupA)
	e.sendN(3)
	got := e.take(1, time.Minute)
	disk.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRemove && strings.Contains(name, topicA) {
			return 0, errors.New("EIO")
		}
		return 0, nil
	})
	if err := e.DeleteTopic(t.Context(), topicA); err == nil {
		t.Error("nothing is told of files that stay")
	}
	disk.Set(nil)
	if err := e.Ack(groupA, topicA, got[0].Handle); CodeOf(err) != CodeBadReceipt {
		t.Errorf("handle of a topic that is gone: %v", err)
	}
	if err := e.DeleteTopic(t.Context(), topicA); err != nil {
		t.Error(err)
	}
	if there, err := vfs.Exists(mem, "/store/consumequeue/"+topicA); there || err != nil {
		t.Errorf("files stay, %v", err)
	}
}

func TestAdmin_deleteForgetsProgress(t *testing.T) {
	e := newEnv(t)
	e.sendN(3)
	got := e.take(1, time.Minute)
	if err := e.DeleteTopic(t.Context(), topicA); err != nil {
		t.Fatal(err)
	}
	if err := e.Ack(groupA, topicA, got[0].Handle); CodeOf(err) != CodeBadReceipt {
		t.Errorf("handle of a deleted topic: %v", err)
	}
	e.putTopic(topicA, 2)
	if stats, err := e.GroupStats(groupA, ""); err != nil || len(stats) != 0 {
		t.Errorf("progress of the deleted topic: %+v, %v", stats, err)
	}
	if err := e.DeleteGroup(t.Context(), groupA, true); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.Topic(RetryTopic(groupA)); ok {
		t.Error("retry topic of a deleted group")
	}
	for _, name := range []string{"../../x", "a/b", "..", "", "a\x00b"} { // B143
		bad := store.DefaultTopicConfig(name)
		if err := e.PutTopic(t.Context(), bad); err == nil {
			t.Errorf("topic %q was made", name)
		}
		if err := e.PutGroup(t.Context(), store.DefaultGroupConfig(name)); err == nil {
			t.Errorf("group %q was made", name)
		}
	}
}

func TestCodeTable_isComplete(t *testing.T) {
	for c := range codeCount {
		if codeTable[c].name == "" || c.Remoting() == 0 || c.GRPC() == 0 {
			t.Errorf("code %d has no row", c)
		}
	}
}

func TestConfig_reportsAllProblems(t *testing.T) {
	err := (&Config{}).Validate()
	for _, want := range []string{"broker.name", "broker.dir", "broker.maxHold", "broker.maxParked"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not reported in %v", want, err)
		}
	}
}
