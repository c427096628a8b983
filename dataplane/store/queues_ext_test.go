package store

import (
	"encoding/binary"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A subscription to a tag gets its messages also from a queue whose units have
// addresses of an extension instead of tags codes, and when that is gone.
func TestRead_tagsOfAnExtension(t *testing.T) {
	disk := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: disk})
	for _, body := range []string{"a1", "b2", "a3", "b4"} { // the tag is Tag and the first letter
		h.append(msg("aaaaaaaa%orders", 0, body))
	}
	h.await("aaaaaaaa%orders", 0, 4)
	h.stop()
	mustDo(t, h.Close())
	name := "/store/consumequeue/aaaaaaaa%orders/0/00000000000000000000"
	units, err := vfs.ReadFile(disk, name)
	mustDo(t, err)
	ext := queuelog.NewExt(disk, "/store/consumequeue_ext/aaaaaaaa%orders/0", queuelog.ExtFileBytes)
	for i := range 3 {
		tags := units[20*i+12 : 20*i+20]
		address, err := ext.Append(queuelog.ExtUnit{TagsCode: int64(binary.BigEndian.Uint64(tags)), StoreTime: 1, Bitmap: []byte{1, 2}})
		mustDo(t, err)
		binary.BigEndian.PutUint64(tags, uint64(address))
	}
	overwrite(t, disk, name, units)
	for _, there := range []bool{true, false} {
		if !there {
			mustDo(t, disk.RemoveAll("/store/consumequeue_ext"))
		}
		s, err := Open(testConfig(), Deps{FS: disk})
		mustDo(t, err)
		want := message.TagsCode("Tagb")
		b, err := s.Read("aaaaaaaa%orders", 0, 0, ReadOptions{Match: func(code int64) bool { return code == want }})
		if err != nil || len(b.Records) != 2 {
			t.Errorf("extension %v: %v, %d of 2 messages, %v", there, b.Status, len(b.Records), err)
		}
		b.Release()
		mustDo(t, s.Close())
	}
}
