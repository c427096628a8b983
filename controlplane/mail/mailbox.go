package mail

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	netmail "net/mail"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Message is a mail in the folder.
type Message struct {
	File    string
	To      string
	Subject string
	At      time.Time
	Body    string
}

// maxListed bounds what Messages reads.
const maxListed = 200

// HasFolder reports whether mails go into a folder, so that they can be shown.
func (m *Mailer) HasFolder() bool { return m.folder != "" }

// Messages lists the newest mails of the folder, newest first.
func (m *Mailer) Messages() ([]Message, error) {
	if m.folder == "" {
		return nil, errors.New("mails go to a server, not into a folder")
	}
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return nil, fmt.Errorf("list mails: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".eml") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(names)))
	if len(names) > maxListed {
		names = names[:maxListed]
	}
	out := make([]Message, 0, len(names))
	for _, name := range names {
		msg, err := read(filepath.Join(m.folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read mail %s: %w", name, err)
		}
		out = append(out, msg)
	}
	return out, nil
}

func read(path string) (Message, error) {
	f, err := os.Open(path)
	if err != nil {
		return Message{}, err
	}
	defer func() { _ = f.Close() }()
	raw, err := netmail.ReadMessage(f)
	if err != nil {
		return Message{}, err
	}
	var body io.Reader = raw.Body
	if raw.Header.Get("Content-Transfer-Encoding") == "base64" {
		body = base64.NewDecoder(base64.StdEncoding, raw.Body)
	}
	text, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil {
		return Message{}, err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(raw.Header.Get("Subject"))
	if err != nil {
		subject = raw.Header.Get("Subject")
	}
	at, _ := raw.Header.Date()
	return Message{File: filepath.Base(path), To: raw.Header.Get("To"), Subject: subject, At: at, Body: string(text)}, nil
}
