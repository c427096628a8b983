package storetool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// lostEndName is the name of the finding that the end of the log is lost.
const lostEndName = "log-end-lost"

// maxLostQueues is how many queues the finding of a lost end names.
const maxLostQueues = 20

// lostQueue is how many messages of a queue were behind the end of the log.
type lostQueue struct {
	q *queueCheck
	n int64
}

// endLost tells whether the log was synced further than to its end To, by what a
// start asks, too. lastTime is the store time of the last record.
func (v *verifier) endLost(lastTime int64) bool {
	cp := v.view.Checkpoint()
	if cp.Synced == 0 && cp.Reached == 0 {
		return cp.CommitLog > lastTime
	}
	return cp.Synced > v.To || cp.Reached > 0 && cp.Reached >= v.To
}

// reportLost puts the loss of the log's end in front of everything else: most of
// what else is found follows from it.
func (v *verifier) reportLost() {
	if !v.lost {
		return
	}
	total := int64(0)
	for _, l := range v.lostQueues {
		total += l.n
	}
	slices.SortFunc(v.lostQueues, func(a, b lostQueue) int {
		return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.q.topic, b.q.topic), cmp.Compare(a.q.id, b.q.id))
	})
	var list []string
	for _, l := range v.lostQueues[:min(len(v.lostQueues), maxLostQueues)] {
		list = append(list, fmt.Sprintf("%s queue %d: %d", l.q.topic, l.q.id, l.n))
	}
	if n := len(v.lostQueues) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more queues", n))
	}
	name, at := v.place(v.To)
	what := fmt.Sprintf("the commit log ends at %d, but more was synced", v.To)
	if synced := v.view.Checkpoint().Synced; synced > v.To {
		what = fmt.Sprintf("the commit log ends at %d, but it was synced up to %d", v.To, synced)
	}
	if total > 0 {
		what += fmt.Sprintf("; %d messages are lost (%s)", total, strings.Join(list, ", "))
	}
	v.Faults = append([]Finding{{
		Name: lostEndName, File: name, Offset: at, What: what + ": a file is missing, or was cut or damaged",
		Fix: "Bring the file back from a copy or a replica before the next start. That goes on in a new file behind the lost part: no offset is used again, and the file can still be brought back later.",
	}}, v.Faults...)
}

// loseUnits counts the messages of a queue from an entry on as lost.
func (v *verifier) loseUnits(q *queueCheck, n int64) {
	if n <= 0 {
		return
	}
	v.lostQueues = append(v.lostQueues, lostQueue{q, n})
	name, at := q.place(v.cfg.Dir, q.used-n)
	v.fault(Finding{Name: "messages-lost", File: name, Offset: at, What: fmt.Sprintf("%d messages from %d on were behind the end of the commit log at %d", n, q.used-n, v.To), Fix: "It follows from the lost end of the commit log."})
}

// lostRun are entries in a row whose records were in a part of the log that is
// damaged or gone; they are one finding.
type lostRun struct{ from, to int64 }

func (v *verifier) lose(q *queueCheck, n int64) {
	if n != q.run.to {
		v.endRun(q)
		q.run = lostRun{n, n}
	}
	q.run.to = n + 1
}

func (v *verifier) endRun(q *queueCheck) {
	if r := q.run; r.to > r.from {
		name, at := q.place(v.cfg.Dir, r.from)
		v.note(Finding{Name: "message-lost", File: name, Offset: at, What: fmt.Sprintf("%d messages from %d on were in a part of the commit log that is damaged or gone", r.to-r.from, r.from)})
	}
	q.run = lostRun{}
}
