package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

const (
	// longestEvent bounds one line of a tail: a message of 4 MiB in base64,
	// escaped as JSON, and what is around it.
	longestEvent = 16 << 20
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

type receiveFlags struct {
	since, tag string
	max        int
	follow     bool
	timeout    time.Duration
}

func (a *app) receiveCommand() *cobra.Command {
	var r receiveFlags
	c := a.command("receive TOPIC", "Print the messages of a topic", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		since, err := a.since("--since", r.since)
		if err != nil {
			return err
		}
		return a.receive(ctx, args[0], since, r)
	})
	c.Long = `Prints the messages that a topic stored in the last hour, or since --since, and with --follow or --max goes on with new ones.

It only looks: it joins no consumer group, moves no offset and is not billed as a delivery.
With -o json each line is one message.`
	c.Example = `  sluice receive orders
  sluice receive orders --since 10m --follow
  sluice receive orders --max 1 --timeout 30s -o json`
	f := c.Flags()
	f.StringVar(&r.since, "since", "1h", "begin with messages stored then: a time, or a length of time before now")
	f.BoolVarP(&r.follow, "follow", "f", false, "go on with new messages")
	f.IntVar(&r.max, "max", 0, "end after this many messages; waits for them")
	f.StringVar(&r.tag, "tag", "", "only messages with this tag")
	f.DurationVar(&r.timeout, "timeout", 0, "end after this time; exit code 6 if --max was not reached")
	return c
}

func (a *app) tailCommand() *cobra.Command {
	r := receiveFlags{follow: true}
	c := a.command("tail TOPIC", "Print messages as they arrive", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.receive(ctx, args[0], a.Now(), r)
	})
	f := c.Flags()
	f.IntVar(&r.max, "max", 0, "end after this many messages")
	f.StringVar(&r.tag, "tag", "", "only messages with this tag")
	f.DurationVar(&r.timeout, "timeout", 0, "end after this time")
	return c
}

// since reads a time, or a length of time before now.
func (a *app) since(what, text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, usage(fmt.Sprintf("%s %q is neither a time nor a length of time", what, text), "Write it like 2026-09-01T08:00:00Z or 10m.")
	}
	return a.Now().Add(-d), nil
}

// reader is one run of receive or tail.
type reader struct {
	*app
	topic  string
	ns     string
	wanted receiveFlags
	seen   int
	// lastID is where the tail goes on after a lost connection.
	lastID string
}

func (a *app) receive(ctx context.Context, topic string, since time.Time, flags receiveFlags) error {
	ns, err := a.ns(ctx)
	if err != nil {
		return err
	}
	if flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.timeout)
		defer cancel()
	}
	r := &reader{app: a, topic: topic, ns: ns, wanted: flags}
	if flags.follow || flags.max > 0 {
		err = r.follow(ctx, since)
	} else {
		err = r.stored(ctx, since)
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case ctx.Err() == nil:
		return doing("receive from topic "+topic, err)
	case flags.max > 0 && flags.timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Error{Exit: exitTimedOut, What: fmt.Sprintf("got %d of %d messages in %s", r.seen, flags.max, flags.timeout),
			Fix: "Send some with: sluice send " + topic + " BODY, or wait longer."}
	}
	return nil // the time is over, or the user pressed Ctrl-C
}

func (r *reader) take(m api.Message) error {
	if r.wanted.tag != "" && deref(m.Tag) != r.wanted.tag {
		return nil
	}
	if err := r.showMessage(m); err != nil {
		return err
	}
	if r.seen++; r.seen == r.wanted.max {
		return errEnough
	}
	return nil
}

// stored prints what is there and ends.
func (r *reader) stored(ctx context.Context, since time.Time) error {
	var token *string
	for {
		page, err := apiclient.OK(r.sdk.ListMessagesWithResponse(ctx, r.ns, r.topic,
			&api.ListMessagesParams{From: ptr(since), To: ptr(r.Now().Add(time.Second)), PageToken: token, PageSize: ptr(int32(100))}))
		if err != nil {
			return err
		}
		for _, m := range page.Items {
			if err := r.take(m); err != nil {
				return err
			}
		}
		if page.NextPageToken == nil {
			break
		}
		token = page.NextPageToken
	}
	if r.seen == 0 {
		r.hint("No messages since %s. Wait for some with --follow, or look further back with --since 24h.", since.UTC().Format(time.RFC3339))
	}
	return nil
}

// follow reads the tail, and takes it up again where it was when the
// connection is lost.
func (r *reader) follow(ctx context.Context, since time.Time) error {
	pause := firstPause
	for {
		before := r.lastID
		err := r.tail(ctx, since)
		var problem *apiclient.Error
		if errors.Is(err, errEnough) || errors.As(err, &problem) || ctx.Err() != nil {
			return err
		}
		if r.lastID != before {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}

// tail reads one connection to its end.
func (r *reader) tail(ctx context.Context, since time.Time) error {
	params := &api.TailMessagesParams{Since: &since, LastEventID: nil}
	if r.wanted.tag != "" {
		params.Tag = &r.wanted.tag
	}
	if r.lastID != "" {
		params.LastEventID = &r.lastID
	}
	resp, err := r.sdk.TailMessages(ctx, r.ns, r.topic, params)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return apiclient.Done(apiclient.ParseTailMessagesResponse(resp))
	}
	return events(resp.Body, r.event)
}

func (r *reader) event(e event) error {
	switch e.name {
	case "message":
		var m api.Message
		if err := json.Unmarshal([]byte(e.data), &m); err != nil {
			return fmt.Errorf("read a message of the tail: %w", err)
		}
		if e.id != "" {
			r.lastID = e.id
		}
		return r.take(m)
	case "dropped":
		var d struct {
			Messages string `json:"messages"`
		}
		if err := json.Unmarshal([]byte(e.data), &d); err == nil {
			r.hint("Too slow: %s messages were left out; sluice receive finds them.", d.Messages)
		}
	case "problem":
		problem := &apiclient.Error{}
		if err := json.Unmarshal([]byte(e.data), &problem.Problem); err != nil {
			return fmt.Errorf("read a problem of the tail: %w", err)
		}
		return problem
	}
	return nil
}

// event is one server-sent event.
type event struct{ name, id, data string }

// events reads server-sent events until the stream ends or each returns an
// error.
func events(from io.Reader, each func(event) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), longestEvent)
	var e event
	var data []string
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if e.name != "" || len(data) > 0 {
				e.data = strings.Join(data, "\n")
				if err := each(e); err != nil {
					return err
				}
			}
			e, data = event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		}
	}
	return lines.Err()
}
