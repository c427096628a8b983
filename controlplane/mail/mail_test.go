package mail

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFolder_oneFileAMail(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)
	m, err := New(Config{Target: "file:" + dir, BaseURL: "http://c/"}, func() time.Time { now = now.Add(time.Second); return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, send := range []func() error{
		func() error { return m.SignUpCode(ctx, "a@x.io", "en", "Müller & Söhne", "123456") },
		func() error { return m.SignUpCode(ctx, "a@x.io", "zh", "租户", "654321") },
		func() error { return m.AccountExists(ctx, "a@x.io", "xx") },
		func() error { return m.ResetCode(ctx, "a@x.io", "zh", "111222") },
		func() error { return m.PasswordChanged(ctx, "a@x.io\r\nBcc: evil@x.io", "en") },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	list, err := m.Messages()
	if err != nil || len(list) != 5 {
		t.Fatalf("%d mails, %v", len(list), err)
	}
	if first := list[4]; !strings.Contains(first.Subject, "123456") || !strings.Contains(first.Body, "Müller & Söhne") || !strings.Contains(first.Body, "http://c/verify") {
		t.Errorf("first: %+v", first)
	}
	if zh := list[3]; !strings.Contains(zh.Subject, "验证码") || !strings.Contains(zh.Body, "654321") {
		t.Errorf("zh: %+v", zh)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := netmail.ReadMessage(strings.NewReader(string(text)))
		if err != nil || parsed.Header.Get("Bcc") != "" {
			t.Errorf("%s: %v, Bcc %q", f, err, parsed.Header.Get("Bcc"))
		}
	}
}

func TestNew_badTargets(t *testing.T) {
	for _, target := range []string{"", "file:", "http://x", "smtp://"} {
		if _, err := New(Config{Target: target}, nil, nil); err == nil {
			t.Errorf("%q passes", target)
		}
	}
}

// server is an SMTP server that keeps what it is told.
func server(t *testing.T, mails chan<- string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			talk(c, mails)
		}
	}()
	return l.Addr().String()
}

func talk(c net.Conn, mails chan<- string) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	say := func(s string) { _, _ = io.WriteString(c, s+"\r\n") }
	say("220 ready")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			say("250 taken")
			mails <- text.String()
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestSMTP_sendsFromTheQueue(t *testing.T) {
	mails := make(chan string, 4)
	m, err := New(Config{Target: "smtp://" + server(t, mails), From: "sluice@x.io"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.HasFolder() {
		t.Error("a folder with smtp")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	if err := m.ResetCode(ctx, "a@x.io", "en", "111222"); err != nil {
		t.Fatal(err)
	}
	if got := <-mails; !strings.Contains(got, "To: a@x.io") || !strings.Contains(got, "Subject: Your Sluice code") {
		t.Errorf("got %s", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSMTP_fullQueueIsAnError(t *testing.T) {
	m, err := New(Config{Target: "smtp://127.0.0.1:1"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range queueSize {
		if err := m.ResetCode(t.Context(), fmt.Sprint(i, "@x.io"), "en", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.ResetCode(t.Context(), "x@x.io", "en", "1"); err == nil {
		t.Error("the queue has no end")
	}
}
