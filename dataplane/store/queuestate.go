package store

import "github.com/sluicemq/sluice/dataplane/queuelog"

// missing marks queues that hold less than they did although the commit log
// still has the records, and tells of a log that begins later than it did when
// it was stopped cleanly. end is the end of the log.
func (r *recovery) missing(states []queuelog.State, end int64) error {
	told := !r.clean
	for _, st := range states {
		if !told && st.LowOffset >= 0 && st.LowOffset < r.logMin && st.Next > st.Low {
			told = true
			r.s.log.Error("the first commit log files are missing, what they held is lost, unless another program has deleted them for their age",
				"had_from", st.LowOffset, "has_from", r.logMin)
		}
		if ValidName(st.Topic) != nil || st.ID < 0 || r.s.deleted.has([]byte(st.Topic), st.End-1) {
			continue
		}
		q, err := r.s.makeQueue(st.Topic, st.ID)
		if err != nil {
			return err
		}
		low, next := q.log.Range()
		head := st.LowOffset >= r.logMin && low > st.Low
		tail := st.End > r.logMin && st.End <= end && next < st.Next
		if (head || tail) && !r.rebuild[q] {
			r.s.log.Error("consume queue has lost a part and is built anew from the commit log", "topic", q.topic, "queue", q.id,
				"had_from", st.Low, "had_to", st.Next, "has_from", low, "has_to", next)
			r.rebuild[q] = true
		}
	}
	return nil
}
