package proxy

import (
	"context"
	"errors"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicemq/sluice/dataplane/transaction"
)

// stream is one open Telemetry stream. Its handler is the only writer.
type stream struct {
	out    chan *v2.TelemetryCommand // commands of the server; bounded
	checks chan transaction.Check    // questions to a producer; bounded
}

// maxQuestions is how many questions about transactions wait for one stream.
const maxQuestions = 256

// maxStreams bounds the Telemetry streams of one client. A client that opens
// more loses the oldest.
const maxStreams = 8

// telemetry is one stream at work.
type telemetry struct {
	c      *call
	ts     grpc.BidiStreamingServer[v2.TelemetryCommand, v2.TelemetryCommand]
	st     *stream
	s      *session // set with the first settings
	answer *v2.TelemetryCommand
	repeat *time.Timer // sends answer again, once for each stream
}

// Telemetry negotiates settings with a client and carries commands to it. It
// stays open as long as the client wants.
//
// The handler is the stream's writer. A second goroutine reads; it ends when
// the handler returned, since that ends the stream, and Close waits for it.
func (s *service) Telemetry(ts grpc.BidiStreamingServer[v2.TelemetryCommand, v2.TelemetryCommand]) error {
	c := s.f.newCall(ts.Context(), "telemetry")
	if err := c.begin(); err != nil {
		return ts.Send(&v2.TelemetryCommand{Status: c.status(err)})
	}
	ctx, done := s.f.watches.add(ts.Context(), c)
	defer done()
	in := make(chan *v2.TelemetryCommand)
	s.f.readers.Add(1)
	go func() { // ends with the stream; Close waits for it
		defer s.f.readers.Done()
		defer close(in)
		for {
			cmd, err := ts.Recv()
			if err != nil {
				return
			}
			select {
			case in <- cmd:
			case <-ctx.Done():
				return
			}
		}
	}()
	t := &telemetry{c: c, ts: ts, st: &stream{out: make(chan *v2.TelemetryCommand, 16), checks: make(chan transaction.Check, maxQuestions)}, repeat: time.NewTimer(s.f.cfg.SettingsRepeat)}
	t.repeat.Stop()
	defer t.repeat.Stop()
	err := t.serve(ctx, in)
	if t.s != nil {
		t.s.detach(t.st, s.f.now())
	}
	return err
}

func (t *telemetry) serve(ctx context.Context, in <-chan *v2.TelemetryCommand) error {
	for {
		var err error
		select {
		case cmd, ok := <-in:
			if !ok {
				return nil // half-closed or gone: the client is leaving
			}
			if cmd.GetSettings() == nil {
				continue // the answer to a command, or nothing that we know
			}
			var over bool
			if over, err = t.settings(cmd.GetSettings()); over {
				return err
			}
		case <-t.repeat.C:
			err = t.ts.Send(t.answer)
		case cmd, ok := <-t.st.out:
			if !ok {
				return status.Error(codes.Aborted, "the client opened too many telemetry streams")
			}
			err = t.ts.Send(cmd)
		case q := <-t.st.checks:
			err = t.recover(q)
		case <-ctx.Done():
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, errRevoked):
				return t.ts.Send(&v2.TelemetryCommand{Status: t.c.status(errRevoked)})
			case errors.Is(cause, errDraining):
				return status.Error(codes.Unavailable, errDraining.Error())
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// settings answers one report of the client. over says that the stream ends
// with err.
func (t *telemetry) settings(told *v2.Settings) (over bool, err error) {
	var answer *v2.Settings
	var s *session
	err = t.c.guard(func() (err error) {
		s, answer, err = t.c.settle(told)
		return err
	})
	t.c.count(err)
	if err != nil {
		st := t.c.status(err)
		switch code := st.GetCode(); {
		case code == v2.Code_UNAUTHORIZED || code == v2.Code_FORBIDDEN:
			return true, t.ts.Send(&v2.TelemetryCommand{Status: st})
		case code == v2.Code_TOO_MANY_REQUESTS:
			return false, t.ts.Send(&v2.TelemetryCommand{Status: st}) // it may tell its settings again later
		case code < v2.Code_INTERNAL_ERROR || code == v2.Code_NOT_IMPLEMENTED:
			return true, status.Error(codes.InvalidArgument, st.GetMessage())
		}
		return true, status.Error(codes.Internal, st.GetMessage())
	}
	first := t.s == nil
	if t.s != s { // the first settings, or the session had ended meanwhile
		if !first {
			t.s.detach(t.st, t.c.f.now())
		}
		t.s = s
		s.attach(t.st)
	}
	if err := s.announce(t.c.f.core); err != nil {
		// The group is missing; the client learns it from what it does next.
		t.c.f.log.Info("client announced itself for a group that cannot be consumed", "client", t.c.clientID, "err", err)
	}
	t.answer = &v2.TelemetryCommand{Status: t.c.status(nil), Command: &v2.TelemetryCommand_Settings{Settings: answer}}
	if first {
		t.repeat.Reset(t.c.f.cfg.SettingsRepeat)
	}
	return false, t.ts.Send(t.answer)
}

// attach makes st the stream that commands go to.
func (s *session) attach(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == maxStreams {
		close(s.streams[0].out)
		s.streams = s.streams[1:]
	}
	s.streams = append(s.streams, st)
}

// detach forgets a stream that ended. The session stays: the client may come
// back.
func (s *session) detach(st *stream, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = now
	for i, other := range s.streams {
		if other == st {
			s.streams = append(s.streams[:i:i], s.streams[i+1:]...)
			return
		}
	}
}
