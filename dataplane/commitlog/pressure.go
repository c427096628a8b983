package commitlog

import "time"

// pressure is the time in which appends are refused with ErrBusy; it is over
// when none was for calmTime, so a log that is at its limit is one episode and
// not thousands.
type pressure struct {
	refused     int // 0: there is none
	since, last time.Time
}

const calmTime = time.Second

// Refused counts an append that the caller has refused with ErrBusy before it was
// submitted.
func (l *Log) Refused() { l.refused(l.deps.Now(), 1) }

// refused counts n appends that were refused.
func (l *Log) refused(now time.Time, n int) {
	l.mu.Lock()
	began := l.pressure.refused == 0
	if began {
		l.pressure.since = now
	}
	l.pressure.refused += n
	l.pressure.last = now
	e := BackpressureBegan{Waiting: len(l.queue), Bytes: l.queuedBytes}
	l.mu.Unlock()
	if began {
		l.deps.Events(e)
	}
}

// relax ends the pressure when it is time to.
func (l *Log) relax() {
	l.mu.Lock()
	p := l.pressure
	if p.refused == 0 {
		l.mu.Unlock()
		return
	}
	over := l.deps.Now().Sub(p.last) >= calmTime
	if over {
		l.pressure = pressure{}
	}
	l.mu.Unlock()
	if over {
		l.deps.Events(BackpressureEnded{Refused: p.refused, Lasted: p.last.Sub(p.since)})
	}
}
