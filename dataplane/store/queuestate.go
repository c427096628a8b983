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
			r.s.happened(LogBegins{Had: st.LowOffset, Has: r.logMin})
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
			r.s.happened(QueueLostPart{Topic: q.topic, Queue: q.id, HadFrom: st.Low, HadTo: st.Next, HasFrom: low, HasTo: next})
			r.rebuild[q] = true
		}
	}
	return nil
}
