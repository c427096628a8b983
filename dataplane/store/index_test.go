package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// keyed is a message with a unique id and keys.
func keyed(topic, id, keys, body string) *message.Message {
	m := msg(topic, 0, body)
	m.Properties = message.AppendProperty(m.Properties, message.KeyUniqueKey, id)
	m.Properties = message.AppendProperty(m.Properties, message.KeyKeys, keys)
	return m
}

// found returns the bodies of what a query finds at any time.
func found(t *testing.T, s *Store, q KeyQuery) string {
	t.Helper()
	if q.To == 0 {
		q.To = math.MaxInt64
	}
	if q.Max == 0 {
		q.Max = MaxFound
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	recs, err := s.FindByKey(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for _, rec := range recs {
		f, err := message.Verify(rec)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(f.Body))
	}
	return strings.Join(bodies, " ")
}

// What was acknowledged is found at once, by each of its keys and by nothing
// else, oldest first. B013: hashes that collide give no foreign message, and a
// key field with blanks is indexed word by word.
func TestFindByKey_kindsAndCollisions_B013(t *testing.T) {
	for _, compatible := range []bool{false, true} {
		t.Run(fmt.Sprintf("compatible=%v", compatible), func(t *testing.T) { kindsAndCollisions(t, compatible) })
	}
}

func kindsAndCollisions(t *testing.T, compatible bool) {
	cfg := testConfig()
	cfg.IndexCompatible = compatible
	s := start(t, cfg, Deps{})
	for _, m := range []*message.Message{
		keyed("AaTopic", "id1", "Aa order 1", "a1"), keyed("BBTopic", "id2", "BB order 2", "b1"),
		keyed("AaTopic", "id3", "Aa", "a2"), keyed("AaTopic", "Aa", "", "a3"),
	} {
		s.append(m)
	}
	if message.KeyHash([]byte("AaTopic"), []byte("BB")) != message.KeyHash([]byte("BBTopic"), []byte("Aa")) {
		t.Fatal("the keys do not collide")
	}
	for _, tc := range []struct {
		q    KeyQuery
		want string
	}{
		{KeyQuery{Topic: "AaTopic", Key: "Aa"}, "a1 a2 a3"},
		{KeyQuery{Topic: "AaTopic", Key: "Aa", Kind: KeyWord}, "a1 a2"},
		{KeyQuery{Topic: "AaTopic", Key: "Aa", Kind: KeyUnique}, "a3"},
		{KeyQuery{Topic: "AaTopic", Key: "Ta", Kind: KeyTag}, ""},
		{KeyQuery{Topic: "AaTopic", Key: "Taga", Kind: KeyTag}, "a1 a2 a3"},
		{KeyQuery{Topic: "AaTopic", Key: "BB"}, ""},
		{KeyQuery{Topic: "BBTopic", Key: "Aa"}, ""},
		{KeyQuery{Topic: "AaTopic", Key: "order"}, "a1"},
		{KeyQuery{Topic: "AaTopic", Key: "1"}, "a1"},
		{KeyQuery{Topic: "AaTopic", Key: "order 1"}, ""},
		{KeyQuery{Topic: "AaTopic", Key: "Aa", Max: 2}, "a2 a3"},
		{KeyQuery{Topic: "CcTopic", Key: "Aa"}, ""},
		{KeyQuery{Topic: "AaTopic", Key: "Aa", From: math.MinInt64}, "a1 a2 a3"},
	} {
		if got := found(t, s.Store, tc.q); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.q, got, tc.want)
		}
	}
}

// Pages of a key that many messages share: each message once, none left out.
// More than the files hold collide in few slots.
func TestFindByKey_pages(t *testing.T) {
	s := start(t, testConfig(), Deps{})
	for n := range 200 {
		s.append(keyed("T", fmt.Sprintf("id%d", n), "all", fmt.Sprintf("b%d", n)))
	}
	before, next := int64(0), 199
	for {
		recs, err := s.FindByKey(t.Context(), KeyQuery{Topic: "T", Key: "all", To: math.MaxInt64, Before: before, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			break
		}
		if len(recs) > MaxFound {
			t.Fatalf("%d records at once", len(recs))
		}
		for i := len(recs) - 1; i >= 0; i-- {
			f, _ := message.Parse(recs[i])
			if want := fmt.Sprintf("b%d", next); string(f.Body) != want {
				t.Fatalf("got %s, want %s", f.Body, want)
			}
			before = f.PhysicalOffset
			next--
		}
		if before == 0 {
			break // the first record of the log
		}
	}
	if next != -1 {
		t.Errorf("%d messages are missing", next+1)
	}
}

// B014: windows are compared with the server's store time, both ends included;
// the producer's clock does not matter.
func TestFindByKey_window_B014(t *testing.T) {
	clock := newClock()
	s := start(t, testConfig(), Deps{Now: clock.Now})
	for n, born := range []time.Duration{-26 * time.Hour, 0, 2 * time.Hour} {
		m := keyed("T", fmt.Sprintf("id%d", n), "k", fmt.Sprintf("b%d", n))
		m.BornTimestamp = clock.Now().Add(born).UnixMilli()
		s.append(m)
		clock.Add(700 * time.Millisecond)
	}
	const t0 = 1_700_000_000_000
	for _, tc := range []struct {
		from, to int64
		want     string
	}{
		{t0, t0 + 1400, "b0 b1 b2"}, {t0 + 1, t0 + 1400, "b1 b2"}, {t0, t0 + 1399, "b0 b1"}, {t0 + 700, t0 + 700, "b1"},
		{t0 - 3_600_000, t0 - 1, ""}, {t0 + 1401, math.MaxInt64, ""},
	} {
		if got := found(t, s.Store, KeyQuery{Topic: "T", Key: "k", From: tc.from, To: tc.to}); got != tc.want {
			t.Errorf("from %d to %d: %q, want %q", tc.from-t0, tc.to-t0, got, tc.want)
		}
	}
}

// Hashes that collide for RocketMQ do not for us: nobody can put messages into
// the way of somebody else's look-ups.
func TestKeyedHash_collidesForNobody(t *testing.T) {
	pairs := [][2]string{{"AaTopic", "BB"}, {"BBTopic", "Aa"}, {"AaTopic", "Bb"}, {"AaTopi", "cBB"}, {"AaTopic", "BB\x00"}}
	for range 2 {
		seen := map[int32]bool{}
		h := &keyedHash{secret: []byte(fmt.Sprint("secret of store ", len(seen)))}
		for _, p := range pairs {
			for _, tag := range []bool{false, true} {
				v := h.hash([]byte(p[0]), []byte(p[1]), tag)
				if v < 0 || seen[v] {
					t.Errorf("hash %d of %q", v, p)
				}
				seen[v] = true
			}
		}
	}
	a, b := &keyedHash{secret: []byte("a")}, &keyedHash{secret: []byte("b")}
	if a.hash([]byte("T"), []byte("k"), false) == b.hash([]byte("T"), []byte("k"), false) {
		t.Error("the secret does not matter")
	}
}

// A message has one entry for each of its keys, and not any number of them.
func TestIndex_boundsTheKeysOfAMessage(t *testing.T) {
	s := start(t, testConfig(), Deps{})
	s.append(keyed("T", "id1", strings.Repeat("a b ", 2000), "b1"))
	var many strings.Builder
	for n := range 300 {
		fmt.Fprintf(&many, "k%d ", n)
	}
	s.append(keyed("T", "id2", many.String(), "b2"))
	for key, want := range map[string]string{"a": "b1", "b": "b1", "id1": "b1", "k0": "b2", fmt.Sprint("k", maxIndexKeys-2): "b2", "k299": "", "id2": "b2"} {
		if got := found(t, s.Store, KeyQuery{Topic: "T", Key: key}); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := found(t, s.Store, KeyQuery{Topic: "T", Key: "Tagb", Kind: KeyTag}); got != "b1 b2" {
		t.Errorf("by tag: %q", got)
	}
}

// An index that cannot be used, for the files or for the secret, is made anew.
func TestIndex_unusableIsBuiltAnew(t *testing.T) {
	disk := vfs.NewMem(nil)
	for name, spoil := range map[string]func() error{
		"nothing": func() error { return nil },
		"file too large": func() error {
			return vfs.WriteFile(disk, "/store/sluice.index/20991231000000000", make([]byte, 100_000))
		},
		"no secret":        func() error { return errors.Join(disk.Remove("/store/config/" + indexKeyFile)) },
		"secret too short": func() error { return vfs.WriteFile(disk, "/store/config/"+indexKeyFile, []byte(`"AAAA"`)) },
		"folder is a file": func() error {
			return errors.Join(disk.RemoveAll("/store/sluice.index"), vfs.WriteFile(disk, "/store/sluice.index", []byte("x")))
		},
	} {
		s := start(t, testConfig(), Deps{FS: disk})
		for n := range 20 {
			s.append(keyed("T", fmt.Sprint(name, n), "k", "b"))
		}
		if err := errors.Join(s.Close(), spoil()); err != nil {
			t.Fatal(name, err)
		}
		s = start(t, testConfig(), Deps{FS: disk})
		for n := range 20 {
			if got := found(t, s.Store, KeyQuery{Topic: "T", Key: fmt.Sprint(name, n)}); got != "b" {
				t.Errorf("%s: message %d: %q", name, n, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(name, err)
		}
	}
}

// Messages of a deleted topic are not found under a new one of that name.
func TestFindByKey_deletedTopic(t *testing.T) {
	s := start(t, testConfig(), Deps{})
	if err := s.PutTopic(DefaultTopicConfig("T")); err != nil {
		t.Fatal(err)
	}
	s.append(keyed("T", "id1", "k", "old"))
	if err := s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	s.append(keyed("T", "id2", "k", "new"))
	if got := found(t, s.Store, KeyQuery{Topic: "T", Key: "k"}); got != "new" {
		t.Errorf("found %q", got)
	}
}

// While the index is behind, the answer is that, not "nothing".
func TestFindByKey_behind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Append(t.Context(), keyed("T", "id1", "k", "b"), DurabilityDefault); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.FindByKey(ctx, KeyQuery{Topic: "T", Key: "k", To: math.MaxInt64, Max: 1}); !errors.Is(err, ErrIndexing) {
			t.Errorf("nobody indexes: %v", err)
		}
	})
}

// A store from before there was an index, or whose index was deleted (B032),
// gets one from its log; so does one whose index files have no space first.
func TestFindByKey_indexDeletedOrWithoutSpace_B032(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	s := start(t, testConfig(), Deps{FS: ff})
	for n := range 60 {
		s.append(keyed("T", fmt.Sprintf("id%d", n), "k", fmt.Sprintf("b%d", n)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ff.RemoveAll("/store/sluice.index"); err != nil {
		t.Fatal(err)
	}
	full := make(chan struct{})
	var tries atomic.Int32
	ff.Set(func(op vfs.Op, name string) (int, error) {
		select {
		case <-full:
			return 0, nil
		default:
		}
		if op == vfs.OpWrite && strings.Contains(name, "/sluice.index/") {
			tries.Add(1)
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	s = start(t, testConfig(), Deps{FS: ff})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.FindByKey(ctx, KeyQuery{Topic: "T", Key: "id0", To: math.MaxInt64, Max: 1}); !errors.Is(err, ErrIndexing) {
		t.Errorf("without space: %v", err)
	}
	if n := tries.Load(); n > 5 {
		t.Errorf("%d tries to write while somebody waited: they must not follow each other at once", n)
	}
	close(full)
	for n := range 60 {
		if got, want := found(t, s.Store, KeyQuery{Topic: "T", Key: fmt.Sprintf("id%d", n)}), fmt.Sprintf("b%d", n); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}
