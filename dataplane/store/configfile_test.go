package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func overwrite(t *testing.T, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	if err := vfs.WriteFile(fsys, name, data); err != nil {
		t.Fatal(err)
	}
}

// B033: a configuration file that is empty, zeros or cut in half is replaced
// by its previous copy, and that copy survives the next save and a crash.
func TestLoadConfig_damagedFileFallsBack(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"half":  func(b []byte) []byte { return b[:len(b)/2] },
		"tail":  func(b []byte) []byte { return append(b[:len(b)-1:len(b)-1], 0) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(nil)
			h := start(t, testConfig(), Deps{FS: mem})
			for i := range 3 {
				if err := h.SaveConfig("consumerOffset.json", fmt.Appendf(nil, `{"v":%d}`, i)); err != nil {
					t.Fatal(err)
				}
				if err := h.PutTopic(DefaultTopicConfig(fmt.Sprintf("T%d", i))); err != nil {
					t.Fatal(err)
				}
				if err := h.PutGroup(DefaultGroupConfig(fmt.Sprintf("G%d", i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"consumerOffset.json", topicsFile, groupsFile} {
				b, err := vfs.ReadFile(mem, "/store/config/"+file)
				if err != nil {
					t.Fatal(err)
				}
				overwrite(t, mem, "/store/config/"+file, damage(b))
			}
			h = start(t, testConfig(), Deps{FS: mem})
			if b, err := h.LoadConfig("consumerOffset.json"); err != nil || string(b) != `{"v":1}` {
				t.Fatalf("%q, %v", b, err)
			}
			if len(h.Topics()) != 2 || len(h.Groups()) != 2 || h.TopicsVersion().Counter != 2 {
				t.Fatalf("%d topics, %d groups, version %+v", len(h.Topics()), len(h.Groups()), h.TopicsVersion())
			}
			if ok, _ := vfs.Exists(mem, "/store/config/consumerOffset.json.damaged"); !ok {
				t.Fatal("the damaged file was not kept")
			}
			if err := h.SaveConfig("consumerOffset.json", []byte(`{"v":9}`)); err != nil {
				t.Fatal(err)
			}
			if b, err := vfs.ReadFile(mem, "/store/config/consumerOffset.json.bak"); err != nil || string(b) != `{"v":1}` {
				t.Fatalf("copy %q, %v", b, err)
			}
		})
	}
}

func TestLoadConfig_bothDamagedIsAnError(t *testing.T) {
	mem := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: mem})
	if _, err := h.LoadConfig("none.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing: %v", err)
	}
	overwrite(t, mem, "/store/config/x.json", nil)
	if _, err := h.LoadConfig("x.json"); !errors.Is(err, ErrConfigDamaged) || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("damaged without a copy: %v", err)
	}
	overwrite(t, mem, "/store/config/x.json.bak", []byte("{"))
	if _, err := h.LoadConfig("x.json"); !errors.Is(err, ErrConfigDamaged) {
		t.Fatalf("damaged copy: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, mem, "/store/config/topics.json", []byte("{"))
	if _, err := Open(testConfig(), Deps{FS: mem}); !errors.Is(err, ErrConfigDamaged) || !strings.Contains(err.Error(), "topics.json") {
		t.Fatalf("opened with a damaged table: %v", err)
	}
}

func TestQuoteKeys(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":{0:12,1:7}}`:               `{"a":{"0":12,"1":7}}`,
		`{"a@b":{ 0 : 12 ,-3:4}}`:        `{"a@b":{ "0" : 12 ,"-3":4}}`,
		`[1,2,{"x":"1:2 \" 3:"}]`:        `[1,2,{"x":"1:2 \" 3:"}]`,
		`{"t":1.5e10,"u":[1,-2],7:"\\"}`: `{"t":1.5e10,"u":[1,-2],"7":"\\"}`,
		`{"unterminated`:                 `{"unterminated`,
	} {
		if got := string(quoteKeys([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func FuzzQuoteKeys(f *testing.F) {
	f.Add([]byte(`{"a":{0:12,"1":7},"b":"\"3:"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := quoteKeys(data)
		if json.Valid(data) && string(out) != string(data) {
			t.Fatalf("valid JSON %q became %q", data, out)
		}
	})
}

func TestTables_concurrentChangesShareWrites(t *testing.T) {
	mem := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: mem})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c := DefaultTopicConfig(fmt.Sprintf("T%d", i))
			c.Attributes[AttributeMessageType] = "FIFO"
			if err := h.PutTopic(c); err != nil {
				t.Error(err)
			}
			if got, ok := h.Topic(c.TopicName); !ok || got.Attributes[AttributeMessageType] != "FIFO" {
				t.Errorf("%+v %v", got, ok)
			}
			if i%2 == 0 {
				if err := h.DeleteTopic(c.TopicName); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// Durable without a clean stop, and readable by others: keys are quoted.
	c := mem.CrashClone(0, 1)
	crashed := start(t, testConfig(), Deps{FS: c})
	if n := len(crashed.Topics()); n != 25 {
		t.Fatalf("%d topics", n)
	}
	b, err := vfs.ReadFile(c, "/store/config/topics.json")
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), `"topicFilterType": "SINGLE_TAG"`) {
		t.Fatalf("%s, %v", b, err)
	}
}

func TestGroups_forbiddenTableSurvives(t *testing.T) {
	mem := vfs.NewMem(nil)
	if err := mem.MkdirAll("/store/config"); err != nil {
		t.Fatal(err)
	}
	overwrite(t, mem, "/store/config/subscriptionGroup.json", []byte(`{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1},
		"forbiddenTable":{"G":{"T":3}},"subscriptionGroupTable":{"G":{"groupName":"G","retryMaxTimes":3,
		"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}}}}}`))
	h := start(t, testConfig(), Deps{FS: mem})
	if g, ok := h.Group("G"); !ok || g.RetryMaxTimes != 3 || g.GroupRetryPolicy.Exponential == nil || g.GroupRetryPolicy.Exponential.Multiplier != 2 {
		t.Fatalf("%+v", g)
	}
	if err := h.PutGroup(DefaultGroupConfig("H")); err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteGroup("G"); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(mem, "/store/config/subscriptionGroup.json")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(b)), ""), `"forbiddenTable":{"G":{"T":3}}`) || h.GroupsVersion().Counter != 6 {
		t.Fatalf("%s, %v", b, err)
	}
}
