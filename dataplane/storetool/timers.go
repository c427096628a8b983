package storetool

import (
	"cmp"

	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// checkTimers compares timer log, wheel and checkpoint with each other.
func (v *verifier) checkTimers() error {
	fileBytes, err := commonSize(v.fs, v.path("timerlog"))
	if err != nil {
		return err
	}
	return timerlog.Check(v.fs, v.cfg.Dir, cmp.Or(fileBytes, timerlog.DefaultFileBytes), func(file string, at int64, what string) {
		found := Finding{Name: "timer-files", File: file, Offset: at, What: what, Fix: "Bring timerwheel, timerlog and config/timercheck back from a copy, all three of the same moment."}
		if !v.Clean {
			found.Fix = "After an unclean stop the wheel may be ahead of the log: a start of the broker that schedules them makes it right."
			v.dirty(found)
			return
		}
		v.fault(found)
	})
}
