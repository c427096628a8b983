package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// sdk is one row: a small program on an official SDK, how it is built and how
// it is started. The programs lie in clients; clients/README.md says where they
// come from and what they print.
type sdk struct {
	name   string
	source string // folder in clients
	build  func(ctx context.Context, src, out string) error
	argv   func(out string) []string
	grpc   bool
	tls    bool
	// consumes are the modes in which it only consumes: "push", and "consume"
	// where there is a simple consumer.
	consumes []string
}

// clientsDir is where the programs are, seen from the repository's root.
const clientsDir = "internal/interop/clients"

func sdks() []sdk {
	java := func(out string) []string {
		return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx160m", "-Duser.home=" + out,
			"-cp", filepath.Join(out, "target/classes") + ":" + filepath.Join(out, "lib/*"), "Smoke"}
	}
	program := func(out string) []string { return []string{filepath.Join(out, "smoke")} }
	python := func(out string) []string {
		return []string{filepath.Join(out, "venv/bin/python"), filepath.Join(out, "smoke.py")}
	}
	push, both := []string{"push"}, []string{"consume", "push"}
	return []sdk{
		{name: "go-remoting", source: "go-remoting", build: buildGo, argv: program, consumes: push},
		{name: "go-remoting-tls", source: "go-remoting", build: buildGo, argv: program, tls: true},
		{name: "go-grpc", source: "go-grpc", build: buildGo, argv: program, grpc: true, consumes: both},
		{name: "go-grpc-tls", source: "go-grpc", build: buildGo, argv: program, grpc: true, tls: true},
		{name: "java-remoting-4.9.8", source: "java-remoting", build: maven("-Drmq.version=4.9.8", "-Pacl"), argv: java, consumes: push},
		{name: "java-remoting-5.5.0", source: "java-remoting", build: maven("-Drmq.version=5.5.0"), argv: java, consumes: push},
		{name: "java-grpc-5.2.0", source: "java-grpc", build: maven(), argv: java, grpc: true, consumes: both},
		{name: "java-grpc-5.2.0-tls", source: "java-grpc", build: maven(), argv: java, grpc: true, tls: true},
		{name: "node-grpc-1.0.8", source: "node-grpc", build: buildNode, argv: func(out string) []string { return []string{"node", filepath.Join(out, "smoke.js")} }, grpc: true, consumes: both},
		{name: "python-grpc-5.1.2", source: "python-grpc", build: buildPython, argv: python, grpc: true, consumes: both},
	}
}

// result is what a row found.
type result struct {
	sent, received, acked, refused bool
	detail                         string
}

func (r result) ok() bool { return r.sent && r.received && r.acked && r.refused }

const (
	messages  = 20
	wait      = 40 * time.Second // for the messages, inside the program
	processed = 90 * time.Second // for a program as a whole
)

// try builds the program and runs it twice: with the right secret, then with a
// wrong one. A row has a topic and a group of its own.
func (s sdk) try(ctx context.Context, server *testcluster.Process, a *testcluster.Account) result {
	out, err := s.folder(ctx)
	if err != nil {
		return result{detail: err.Error()}
	}
	topic := "interop-" + strings.ReplaceAll(s.name, ".", "-")
	if err := errors.Join(a.CreateTopic(ctx, topic), a.CreateGroup(ctx, topic)); err != nil {
		return result{detail: err.Error()}
	}
	var r result
	code, text := s.start(ctx, server, out, topic, a.KeyID, a.Secret)
	var sent, received int
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, "%d sent %d received", &sent, &received); err == nil {
			break
		}
	}
	r.sent, r.received = sent == messages, received == messages && code == 0
	if !r.sent || !r.received {
		r.detail = text
	}
	if err := testcluster.Eventually(ctx, 15*time.Second, func() (bool, error) { return acknowledged(ctx, a, topic) }); err != nil {
		r.detail += "\nack: " + err.Error()
	} else {
		r.acked = true
	}
	code, text = s.start(ctx, server, out, topic, a.KeyID, "sls_wrong"+a.Secret[9:])
	r.refused = code != 0 && !strings.Contains(text, strconv.Itoa(messages)+" received")
	if !r.refused {
		r.detail += "\nwith a wrong secret: " + text
	}
	return r
}

// folder is where the program lies, built.
func (s sdk) folder(ctx context.Context) (string, error) {
	out, err := filepath.Abs(filepath.Join(".cache/clients", s.name))
	if err != nil {
		return "", err
	}
	if err := s.prepare(ctx, out); err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	return out, nil
}

// acknowledged reports whether the group has every message of the topic behind
// it: the offsets that it committed add up to what was sent.
func acknowledged(ctx context.Context, a *testcluster.Account, name string) (bool, error) {
	var lag struct {
		Lag    string `json:"lag"`
		Topics []struct {
			Topic  string `json:"topic"`
			Queues []struct {
				Committed int64 `json:"committed_offset,string"`
			} `json:"queues"`
		} `json:"topics"`
	}
	if err := a.Do(ctx, "GET", "/v1/namespaces/"+a.NamespaceID+"/groups/"+name+"/lag", nil, &lag); err != nil {
		return false, err
	}
	sum := int64(0)
	for _, t := range lag.Topics {
		if t.Topic != name {
			continue
		}
		for _, q := range t.Queues {
			sum += max(0, q.Committed)
		}
	}
	if lag.Lag != "0" || sum != messages {
		return false, fmt.Errorf("lag %s, committed %d of %d", lag.Lag, sum, messages)
	}
	return true, nil
}

func (s sdk) start(ctx context.Context, server *testcluster.Process, out, topic, keyID, secret string, env ...string) (code int, text string) {
	ctx, cancel := context.WithTimeout(ctx, processed)
	defer cancel()
	timeout := wait
	if strings.HasPrefix(secret, "sls_wrong") {
		timeout = 5 * time.Second
	}
	env = append(env, "RMQ_COUNT="+strconv.Itoa(messages), "RMQ_TIMEOUT_S="+strconv.Itoa(int(timeout.Seconds())))
	cmd := s.command(ctx, server, out, topic, keyID, secret, env...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	text = b.String()
	if len(text) > 6000 {
		text = text[:3000] + "\n…\n" + text[len(text)-3000:]
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, text
	case errors.As(err, &exit):
		return 1, text
	}
	return 1, text + err.Error()
}

// command is the program with its environment, not started.
func (s sdk) command(ctx context.Context, server *testcluster.Process, out, topic, keyID, secret string, env ...string) *exec.Cmd {
	endpoint := server.NameSrv
	if s.grpc {
		endpoint = server.GRPC
	}
	argv := s.argv(out)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "HOME="+out, "RMQ_ENDPOINT="+endpoint, "RMQ_TOPIC="+topic, "RMQ_GROUP="+topic, "RMQ_AK="+keyID, "RMQ_SK="+secret,
		"RMQ_TLS="+map[bool]string{true: "1", false: "0"}[s.tls])
	cmd.Env = append(cmd.Env, env...)
	return cmd
}
