package testcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/internal/standalone"
)

// Process is a standalone of the real binary, or one role of it, on free ports
// that stay the same over restarts.
type Process struct {
	standalone.Addresses
	Data string

	binary string
	role   standalone.Role
	env    []string
	log    *os.File
	cmd    *exec.Cmd
	exited chan error
}

// StartProcess starts binary on data and waits until it is ready. env is added
// to the environment. The log goes to <data>/../standalone.log.
func StartProcess(ctx context.Context, binary, data string, env ...string) (*Process, error) {
	return StartRole(ctx, binary, standalone.RoleAll, data, standalone.Addresses{}, env...)
}

// StartRole is StartProcess for a process of one role, whose log has the role's
// name. It serves at the addresses given, on free ports where there is none.
// Where its key files and the other processes are, env says.
func StartRole(ctx context.Context, binary string, role standalone.Role, data string, at standalone.Addresses, env ...string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(data), string(role)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{Addresses: at, Data: data, binary: binary, role: role, env: env, log: log}
	for _, a := range []*string{&p.HTTP, &p.Admin, &p.NameSrv, &p.Broker, &p.GRPC} {
		if *a == "" {
			*a = "127.0.0.1:0"
		}
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return p, nil
}

// Start starts the process again after Kill or Stop.
func (p *Process) Start(ctx context.Context) error {
	ready := filepath.Join(filepath.Dir(p.Data), "ready-"+string(p.role)+"-"+strconv.FormatInt(time.Now().UnixNano(), 36)+".json")
	p.cmd = exec.Command(p.binary, string(p.role), "--data", p.Data, "--ready-file", ready, "--http", p.HTTP, "--admin", p.Admin,
		"--namesrv", p.NameSrv, "--broker", p.Broker, "--grpc", p.GRPC)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(p.cmd, p.exited)
	return p.awaitReady(ctx, ready)
}

func (p *Process) awaitReady(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		raw, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(raw, &p.Addresses) == nil {
			return os.Remove(path)
		}
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.role, err, p.LogTail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w\n%s", p.role, ctx.Err(), p.LogTail()), p.Kill())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// LogTail returns the end of the process's log.
func (p *Process) LogTail() string {
	raw, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	p.exited <- nil
	return nil
}

// Stop asks the process to end and waits; an exit code other than 0 is an
// error.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.exited:
		p.exited <- nil
		return err
	case <-time.After(40 * time.Second):
		return errors.Join(fmt.Errorf("%s does not stop", p.role), p.Kill())
	}
}

// Close kills what still runs and closes the log.
func (p *Process) Close() error { return errors.Join(p.Kill(), p.log.Close()) }

// Mails is the folder of the process's mails.
func (p *Process) Mails() string { return filepath.Join(p.Data, "mail") }

// URL is the base of its HTTP API.
func (p *Process) URL() string { return "http://" + p.HTTP }

// Resident returns the process's resident memory in bytes.
func (p *Process) Resident() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0, errors.New("statm is short")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
