package store

import "log/slog"

// happened tells of an event: a line of the log, a count, and whoever listens.
func (s *Store) happened(e Event) {
	logEvent(s.log, e)
	s.metrics.events.count(e)
	if s.listen != nil {
		s.listen(e)
	}
}

func logEvent(log *slog.Logger, e Event) {
	level, text, args := e.Line()
	switch {
	case level >= slog.LevelError:
		log.Error(text, args...)
	case level >= slog.LevelWarn:
		log.Warn(text, args...)
	case level >= slog.LevelInfo:
		log.Info(text, args...)
	default:
		log.Debug(text, args...)
	}
}
