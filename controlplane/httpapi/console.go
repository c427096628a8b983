package httpapi

import (
	"bytes"
	"encoding/json"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/console"
	"github.com/sluicemq/sluice/controlplane/mail"
	"github.com/sluicemq/sluice/internal/errs"
)

// console serves the single-page application: a file if there is one of that
// name, else index.html, for the application to find the page.
func (s *server) console(c *gin.Context) {
	if c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead {
		s.fail(c, errs.E(errs.NotFound, "no such route: %s %s", c.Request.Method, clip(c.Request.URL.Path)).WithReason("route_not_found"))
		return
	}
	if s.d.Console == nil {
		s.fail(c, errs.E(errs.NotFound, "this build has no console").WithReason("console_missing"))
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+c.Request.URL.Path), "/")
	info, err := fs.Stat(s.d.Console, name)
	if name == "" || err != nil || info.IsDir() {
		if strings.HasPrefix(name, "assets/") || (path.Ext(name) != "" && err != nil) {
			s.fail(c, errs.E(errs.NotFound, "no such file: %s", clip(name)))
			return
		}
		name = "index.html"
	}
	h := c.Writer.Header()
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // names carry a hash
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	file, encoding := console.Encoded(s.d.Console, name, c.GetHeader("Accept-Encoding"))
	h.Set("Vary", "Accept-Encoding")
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	data, err := fs.ReadFile(s.d.Console, file)
	if err != nil {
		s.fail(c, errs.E(errs.NotFound, "no such file: %s", clip(name)).WithReason("console_missing"))
		return
	}
	c.Status(http.StatusOK)
	http.ServeContent(c.Writer, c.Request, name, time.Time{}, bytes.NewReader(data)) // not ServeFileFS: it redirects index.html
}

var mailboxPage = template.Must(template.New("mailbox").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Mailbox · Sluice</title>
<style>:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{max-width:46rem;margin:2rem auto;padding:0 1rem}article{border-top:1px solid #8886;padding:1rem 0}pre{white-space:pre-wrap;font:inherit}small{opacity:.7}</style></head>
<body><h1>Mailbox</h1><p>Mails that this server would have sent. Shown on loopback only.</p>
{{range .}}<article><h2>{{.Subject}}</h2><small>to {{.To}} · {{.At.UTC.Format "2006-01-02 15:04:05"}} UTC · {{.File}}</small><pre>{{.Body}}</pre></article>{{else}}<p>No mails yet.</p>{{end}}
</body></html>`))

type mailJSON struct {
	File    string    `json:"file"`
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	Body    string    `json:"body"`
}

// mailbox shows the mails of the folder, to callers on this machine alone.
func (s *server) mailbox(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if s.d.Mailbox == nil || !s.d.Mailbox.HasFolder() || !addressOf(r).IsLoopback() || !loopbackHost(r.Host) || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	list, err := s.d.Mailbox.Messages()
	if err != nil {
		s.d.Logger.Error("mailbox", "err", err)
		http.Error(w, "the mail folder cannot be read", http.StatusInternalServerError)
		return
	}
	if r.URL.Path == "/mailbox.json" {
		h.Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"items": mailsJSON(list)}); err != nil {
			s.d.Logger.Debug("mailbox not written", "err", err)
		}
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if err := mailboxPage.Execute(w, list); err != nil {
		s.d.Logger.Debug("mailbox not written", "err", err)
	}
}

func mailsJSON(list []mail.Message) []mailJSON {
	out := make([]mailJSON, len(list))
	for i, m := range list {
		out[i] = mailJSON(m)
	}
	return out
}

// loopbackHost reports whether a Host header names this machine; a page of
// another site that resolves to 127.0.0.1 does not.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
