package store

import (
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

const extFolder = "consumequeue_ext"

// tagsOf returns the tags code of a unit. In queues that a RocketMQ broker has
// written with an extension it stands there; where that is gone, the record
// tells.
func (s *Store) tagsOf(q *queue, u queuelog.Unit) int64 {
	if !queuelog.IsExtAddress(u.TagsCode) {
		return u.TagsCode
	}
	ext := queuelog.NewExt(s.fs, s.path(extFolder, q.topic, strconv.Itoa(int(q.id))), queuelog.ExtFileBytes)
	if e, err := ext.Read(u.TagsCode); err == nil {
		return e.TagsCode
	}
	rec, err := s.ReadAt(u.Offset)
	if err != nil {
		return u.TagsCode // the read of the record will say it
	}
	f, err := message.Verify(rec)
	if err != nil {
		return u.TagsCode
	}
	return s.tagsCode(&f)
}
