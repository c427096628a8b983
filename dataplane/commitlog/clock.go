package commitlog

import "time"

// Store times do not fall, since whoever looks for a time in a queue halves it
// over and over. A clock that is set back a little is waited for: until it is
// there again, records get the time of the newest one. One that is set back far
// was wrong before or is wrong now. When it stays there for clockPatience it is
// right: waiting would give a wrong time to all messages for as long as it was
// ahead, and delayed ones would come that much later. FORMAT.md says what such a
// place in the log means for those who look for a time.
const (
	clockStep     = time.Minute
	clockPatience = time.Minute
)

// storeTime is the store time of what is written now, at the clock's time at.
// Only the leader calls it.
func (l *Log) storeTime(at time.Time) int64 {
	newest, now := l.writtenTime.Load(), at.UnixMilli()
	if now > newest-clockStep.Milliseconds() {
		l.behind = time.Time{}
		return max(now, newest)
	}
	if l.behind.IsZero() || at.Before(l.behind) {
		if l.behind.IsZero() {
			l.deps.Events(ClockSetBack{Now: at, Newest: time.UnixMilli(newest)})
		}
		l.behind = at
	}
	if at.Sub(l.behind) < clockPatience {
		return newest
	}
	l.behind = time.Time{}
	l.deps.Events(ClockFollowed{Now: at, Newest: time.UnixMilli(newest), Offset: l.written.Load()})
	return now
}
