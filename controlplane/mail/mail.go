// Package mail owns the mails that the control plane sends: their texts in
// English and Chinese, and the ways they go: into a folder, one .eml file
// each, or to an SMTP server.
//
// A Mailer queues at most queueSize mails and sends them from one goroutine,
// so that nobody can tell by time whether a mail went out. A full queue is an
// error to the caller. Everything is safe for any number of goroutines.
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/smtp"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Config says where mails go.
type Config struct {
	Target  string // file:<folder> or smtp://[user:password@]host:port
	From    string // address of the sender; "sluice@localhost" when empty
	BaseURL string // of the console, for links
}

const (
	queueSize = 256
	attempts  = 5
	smtpTime  = 30 * time.Second
)

type letter struct {
	to      string
	subject string
	body    string
	at      time.Time
}

// Mailer sends mails. Run must run for mails to leave.
type Mailer struct {
	cfg    Config
	now    func() time.Time
	log    *slog.Logger
	folder string   // of file:
	server *url.URL // of smtp:
	queue  chan letter
}

// New makes a Mailer; with file: it makes the folder.
func New(cfg Config, now func() time.Time, log *slog.Logger) (*Mailer, error) {
	if cfg.From == "" {
		cfg.From = "sluice@localhost"
	}
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Mailer{cfg: cfg, now: now, log: log, queue: make(chan letter, queueSize)}
	switch {
	case strings.HasPrefix(cfg.Target, "file:"):
		m.folder = strings.TrimPrefix(cfg.Target, "file:")
		if m.folder == "" {
			return nil, errors.New("mail file: the folder is empty")
		}
		if err := os.MkdirAll(m.folder, 0o700); err != nil {
			return nil, fmt.Errorf("make mail folder: %w", err)
		}
	case strings.HasPrefix(cfg.Target, "smtp://"):
		u, err := url.Parse(cfg.Target)
		if err != nil || u.Hostname() == "" {
			return nil, errors.New("mail smtp: want smtp://user:password@host:port")
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "587")
		}
		m.server = u
	default:
		return nil, errors.New("mail: want file:<folder> or smtp://user:password@host:port")
	}
	return m, nil
}

// Run sends queued mails until ctx ends; then it tries each of the rest once.
// A folder needs no Run.
func (m *Mailer) Run(ctx context.Context) error {
	for {
		select {
		case l := <-m.queue:
			if l.to != "" {
				m.deliver(ctx, l)
			}
		case <-ctx.Done():
			for {
				select {
				case l := <-m.queue:
					if l.to == "" {
						continue
					}
					if err := m.smtp(l); err != nil {
						m.log.Error("mail not sent before the end", "subject", l.subject, "err", err)
					}
				default:
					return nil
				}
			}
		}
	}
}

func (m *Mailer) deliver(ctx context.Context, l letter) {
	pause := time.Second
	for n := 1; ; n++ {
		err := m.smtp(l)
		if err == nil {
			return
		}
		if n == attempts {
			m.log.Error("mail given up", "subject", l.subject, "attempts", n, "err", err)
			return
		}
		m.log.Warn("mail not sent yet", "subject", l.subject, "attempt", n, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause *= 2
	}
}

func (m *Mailer) send(l letter) error {
	l.at = m.now().UTC()
	if m.folder != "" {
		return m.write(l)
	}
	select {
	case m.queue <- l:
		return nil
	default:
		e := errs.E(errs.Unavailable, "too many mails wait to be sent; try again in a minute")
		e.RetryAfter = time.Minute
		return e
	}
}

// write makes the file in one step: whoever lists the folder sees whole mails.
func (m *Mailer) write(l letter) error {
	name := l.at.Format("20060102T150405.000") + "-" + strings.ToLower(rand.Text()[:8]) + ".eml"
	tmp := filepath.Join(m.folder, "."+name)
	if err := os.WriteFile(tmp, m.encode(l), 0o600); err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	if l.to == "" {
		return os.Remove(tmp)
	}
	if err := os.Rename(tmp, filepath.Join(m.folder, name)); err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	return nil
}

// encode makes an RFC 5322 message with a base64 body in UTF-8.
func (m *Mailer) encode(l letter) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s@sluice>\r\n", header(m.cfg.From), header(l.to),
		mime.QEncoding.Encode("utf-8", l.subject), l.at.Format(time.RFC1123Z), strings.ToLower(rand.Text()))
	b.WriteString("MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(l.body))
	for len(text) > 76 {
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	b.WriteString(text + "\r\n")
	return b.Bytes()
}

// header drops what would begin another header line.
func header(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

func (m *Mailer) smtp(l letter) error {
	conn, err := net.DialTimeout("tcp", m.server.Host, smtpTime)
	if err != nil {
		return fmt.Errorf("reach mail server: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(smtpTime))
	c, err := smtp.NewClient(conn, m.server.Hostname())
	if err != nil {
		return errors.Join(fmt.Errorf("greet mail server: %w", err), conn.Close())
	}
	defer func() { _ = c.Close() }()
	if ok, _ := c.Extension("STARTTLS"); ok {
		if err := c.StartTLS(tlsFor(m.server.Hostname())); err != nil {
			return fmt.Errorf("start TLS with mail server: %w", err)
		}
	}
	if password, ok := m.server.User.Password(); ok {
		if err := c.Auth(smtp.PlainAuth("", m.server.User.Username(), password, m.server.Hostname())); err != nil {
			return fmt.Errorf("sign in to mail server: %w", err)
		}
	}
	if err := c.Mail(m.cfg.From); err != nil {
		return fmt.Errorf("mail from: %w", err)
	}
	if err := c.Rcpt(l.to); err != nil {
		return fmt.Errorf("mail to: %w", err)
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("mail data: %w", err)
	}
	if _, err := w.Write(m.encode(l)); err != nil {
		return fmt.Errorf("mail data: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("mail data: %w", err)
	}
	return c.Quit()
}
