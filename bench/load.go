package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// measured is what one run of a load program found: messages that the server
// acknowledged or handed out in the counted time, and what it used meanwhile.
type measured struct {
	PerSecond   float64 `json:"msgs_per_s"`
	MBPerSecond float64 `json:"record_mb_per_s"` // of a reader of RocketMQ's protocol only
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	Millis      float64 `json:"ms"`      // of a program that waits for a server
	From        int64   `json:"from_ms"` // counted time, Unix milliseconds
	To          int64   `json:"to_ms"`

	CPU   float64 `json:"-"` // microseconds of the server's processor time per message
	Anon  float64 `json:"-"` // MiB of the server's anonymous memory, the highest seen in the run
	Read  float64 `json:"-"` // MiB that the server read from the disk in the run
	Other float64 `json:"-"` // cores that neither server nor load program used
}

// disturbed is the share of a core above which a run beside other work says little.
const disturbed = 0.25

// load runs a load program to its end and watches the server meanwhile.
func load(ctx context.Context, server int, program string, args ...string) (m measured, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	before := diskRead(server)
	if err := cmd.Start(); err != nil {
		return m, err
	}
	stop := make(chan struct{})
	watched := make(chan []reading, 1)
	go func() { watched <- watch(stop, server, cmd.Process.Pid) }()
	err = cmd.Wait()
	close(stop)
	readings := <-watched
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, complaint.Bytes(), out.Bytes())
	}
	m.Read = float64(diskRead(server)-before) / (1 << 20)
	if len(readings) < 2 || m.To <= m.From {
		return m, nil
	}
	first, last := at(readings, m.From), at(readings, m.To)
	wall := last.time.Sub(first.time).Seconds()
	if n := m.PerSecond * float64(m.To-m.From) / 1000; n > 0 && wall > 0 {
		m.CPU = (last.server - first.server).Seconds() * 1e6 / n
	}
	m.Other = max(0, ((last.machine-first.machine)-(last.server-first.server)-(last.client-first.client)).Seconds()/wall)
	for _, r := range readings {
		m.Anon = max(m.Anon, r.anon)
	}
	return m, nil
}

// reading is processor time used so far, and memory in MiB.
type reading struct {
	time                    time.Time
	server, client, machine time.Duration
	anon                    float64
}

// watch reads both processes again and again until stop is closed.
func watch(stop <-chan struct{}, server, client int) (all []reading) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all = append(all, reading{time.Now(), processTime(server), processTime(client), machineTime(), anonymous(server)})
		select {
		case <-stop:
			return all
		case <-tick.C:
		}
	}
}

// at is the reading next to a time.
func at(all []reading, unixMilli int64) reading {
	for _, r := range all {
		if r.time.UnixMilli() >= unixMilli {
			return r
		}
	}
	return all[len(all)-1]
}

const clockTick = 10 * time.Millisecond // USER_HZ is 100 on Linux

// processTime is the processor time of a process; 0 if there is none.
func processTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold spaces; user and system time are the 12th
	// and 13th fields after it.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return ticks(f[11]) + ticks(f[12])
}

// machineTime is the time that all processors together were not idle.
func machineTime() (busy time.Duration) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	const idle, iowait, steal = 4, 5, 8 // what follows steal is counted in user time already
	for i, f := range strings.Fields(line) {
		if i > 0 && i != idle && i != iowait && i <= steal {
			busy += ticks(f)
		}
	}
	return busy
}

func ticks(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64) // the kernel writes numbers
	return time.Duration(n) * clockTick
}

// anonymous is the MiB of a process's memory that no file is behind.
func anonymous(pid int) float64 {
	return float64(number(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")) / 1024
}

// diskRead is the bytes that a process caused to be read from a disk.
func diskRead(pid int) int64 { return number(fmt.Sprintf("/proc/%d/io", pid), "read_bytes:") }

// number finds a line of a file of /proc by its first word; 0 if it is not there.
func number(path, name string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
