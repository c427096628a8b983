package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// firstMessage does what the console's first page does: open the tail, send,
// see it arrive.
func (d *demo) firstMessage(ctx context.Context) (string, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path := "/v1/namespaces/" + d.account.NamespaceID + "/topics/hello"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.account.Base+path+"/tail", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+d.account.Token)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("tail: %s", resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		event, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok {
			event, ok = strings.CutPrefix(lines.Text(), "event:")
		}
		switch {
		case ok && event == "ready":
			if err := d.account.Do(ctx, "POST", path+"/messages", map[string]any{"body": "hello, Sluice"}, nil); err != nil {
				return "", err
			}
			d.sent++
		case ok && event == "problem":
			lines.Scan()
			return "", fmt.Errorf("tail: %s", lines.Text())
		case ok && event == "message":
			return fmt.Sprintf("arrived %d ms after asking", time.Since(began).Milliseconds()), nil
		}
	}
	return "", errors.New("the tail ended without the message")
}

// topics measures how soon a topic that the API made takes a message.
func (d *demo) topics(ctx context.Context) (string, error) {
	p, err := remoting{}.producer(d)
	if err != nil {
		return "", err
	}
	defer p.close()
	var times []time.Duration
	for i := range topicRuns {
		name := fmt.Sprintf("made-%d", i)
		began := time.Now()
		if err := d.account.Do(ctx, "POST", "/v1/namespaces/"+d.account.NamespaceID+"/topics", map[string]any{"name": name, "type": "NORMAL"}, nil); err != nil {
			return "", err
		}
		for {
			err := p.send(ctx, name, []byte("first"))
			if err == nil {
				break
			}
			if time.Since(began) > 10*time.Second {
				return "", fmt.Errorf("topic %s takes no message: %w", name, err)
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		d.sent++
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return fmt.Sprintf("p50 %d ms, p99 %d ms (goal 1000)", times[len(times)/2].Milliseconds(), times[len(times)*99/100].Milliseconds()), nil
}

// sweep receives what the steps before left unread.
func (d *demo) sweep(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	topics := []string{"hello"}
	for i := range topicRuns {
		topics = append(topics, fmt.Sprintf("made-%d", i))
	}
	got := 0
	err := remoting{}.consume(ctx, d, "hello-group", func(string) bool {
		got++
		return got < len(topics)
	}, topics...)
	d.received += got
	return fmt.Sprintf("received %d of %d topics", got, len(topics)), err
}

// exchange sends and receives through one SDK, on a topic and group of its own.
func (d *demo) exchange(ctx context.Context, s sdk) (string, error) {
	name := "demo-" + s.String()
	if err := errors.Join(d.account.CreateTopic(ctx, name), d.account.CreateGroup(ctx, name)); err != nil {
		return "", err
	}
	p, err := s.producer(d)
	if err != nil {
		return "", err
	}
	defer p.close()
	for i := range perSDK {
		if err := p.send(ctx, name, fmt.Appendf(nil, "message %d", i)); err != nil {
			return "", fmt.Errorf("message %d: %w", i, err)
		}
		d.sent++
	}
	got, err := d.drain(ctx, s, name, perSDK)
	return fmt.Sprintf("sent %d, received %d", perSDK, got), err
}

// drain consumes until want different messages came, and counts what was
// delivered.
func (d *demo) drain(ctx context.Context, s sdk, name string, want int) (delivered int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	seen := map[string]bool{}
	err = s.consume(ctx, d, name, func(body string) bool {
		seen[body] = true
		delivered++
		return len(seen) < want
	}, name)
	d.received += delivered
	if err == nil && len(seen) != want {
		err = fmt.Errorf("received %d of %d", len(seen), want)
	}
	return delivered, err
}

// rate prints how fast one client with a few senders is.
func (d *demo) rate(ctx context.Context, s sdk) (string, error) {
	name := "rate-" + s.String()
	if err := errors.Join(d.account.CreateTopic(ctx, name), d.account.CreateGroup(ctx, name)); err != nil {
		return "", err
	}
	p, err := s.producer(d)
	if err != nil {
		return "", err
	}
	defer p.close()
	const senders = 16
	began := time.Now()
	errs := make(chan error, senders)
	for w := range senders {
		go func() {
			for i := w; i < maxRate; i += senders {
				body := fmt.Appendf(make([]byte, 0, 1024), "%s %d ", name, i)
				if err := p.send(ctx, name, append(body, make([]byte, 1024-len(body))...)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range senders {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return "", err
	}
	d.sent += maxRate
	sendTime := time.Since(began)
	began = time.Now()
	if _, err := d.drain(ctx, s, name, maxRate); err != nil {
		return "", err
	}
	return fmt.Sprintf("send %.0f/s, receive %.0f/s", maxRate/sendTime.Seconds(), maxRate/time.Since(began).Seconds()), nil
}

// kill ends the process in the middle of sending through both SDKs, starts it
// again, settles what the senders were not told, and receives everything.
func (d *demo) kill(ctx context.Context) (string, error) {
	var notes []string
	for _, s := range []sdk{remoting{}, grpc{}} {
		name := "kill-" + s.String()
		if err := errors.Join(d.account.CreateTopic(ctx, name), d.account.CreateGroup(ctx, name)); err != nil {
			return "", err
		}
		p, err := s.producer(d)
		if err != nil {
			return "", err
		}
		acked, failed := map[string]bool{}, ""
		for i := 0; failed == "" && i < 100_000; i++ {
			if i == perSDK/2 { // while sends go on
				time.AfterFunc(10*time.Millisecond, func() { _ = d.server.Kill() })
			}
			body := fmt.Sprintf("survivor %d", i)
			sendCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
			err := p.send(sendCtx, name, []byte(body))
			cancel()
			if err != nil {
				failed = body
			} else {
				acked[body] = true
			}
		}
		p.close()
		if err := d.server.Kill(); err != nil { // waits until it is gone
			return "", err
		}
		if err := d.server.Start(ctx); err != nil {
			return "", err
		}
		stored, err := d.stored(ctx, name)
		if err != nil {
			return "", err
		}
		unknown := stored - len(acked)
		if unknown < 0 || unknown > 1 {
			return "", fmt.Errorf("%s: acknowledged %d, stored %d", s, len(acked), stored)
		}
		d.sent += stored
		lost := len(acked)
		drainCtx, cancel := context.WithTimeout(ctx, 60*time.Second)
		err = s.consume(drainCtx, d, name, func(body string) bool {
			d.received++
			if acked[body] {
				lost--
			}
			stored--
			return stored > 0
		}, name)
		cancel()
		if err != nil {
			return "", err
		}
		if lost != 0 {
			return "", fmt.Errorf("%s: %d acknowledged messages are lost", s, lost)
		}
		notes = append(notes, fmt.Sprintf("%s: %d acknowledged, %d unknown but stored, 0 lost", s, len(acked), unknown))
	}
	return strings.Join(notes, "; "), nil
}
