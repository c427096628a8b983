package cases

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// Case B006: 50,000 probes of a health checker, which connect, send nothing or
// a little junk and leave, leave nothing behind at any port that the process
// listens on.
func TestProbes_leaveNothing_B006(t *testing.T) {
	server, err := testcluster.StartProcess(t.Context(), testcluster.Binary(t), filepath.Join(t.TempDir(), "data"))
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	token, err := os.ReadFile(filepath.Join(server.Data, "operator.token"))
	must(t, err)
	p := watched{server, strings.TrimSpace(string(token))}

	ports := p.listening(t)
	names := map[string]string{server.HTTP: "http", server.Admin: "admin", server.NameSrv: "namesrv", server.Broker: "broker", server.GRPC: "grpc"}
	for addr, name := range names {
		if !slices.Contains(ports, addr) {
			t.Fatalf("%s %s is not among the ports that the process listens on: %v", name, addr, ports)
		}
	}
	const rounds = 50_000
	for _, addr := range ports { // what is made once, such as pools and the first pages of the heap, is no leak
		probe(t, addr, 1_000)
	}
	start := p.settled(t, func(level) bool { return true })
	for _, addr := range ports {
		began := time.Now()
		probe(t, addr, rounds)
		name := cmp.Or(names[addr], "no setting")
		t.Logf("%s (%s): %d probes in %.1f s, then %v", addr, name, rounds, time.Since(began).Seconds(), p.level(t))
	}
	// One probe of 10,000 that left a file or goroutine would be over the first,
	// 100 bytes of each probe that stayed over the others. Jobs that run by the
	// clock come and go meanwhile, with connections to the database.
	const ownSlack, heapSlack, residentSlack = 16, 4 << 20, 24 << 20
	end := p.settled(t, func(now level) bool {
		return now.goroutines <= start.goroutines+ownSlack && now.files <= start.files+ownSlack && now.heap <= start.heap+heapSlack && now.resident <= start.resident+residentSlack
	})
	t.Logf("%d ports, %d probes each; before: %v; after: %v", len(ports), rounds, start, end)
	if end.goroutines > start.goroutines+ownSlack || end.files > start.files+ownSlack {
		t.Errorf("goroutines or open files stayed: %v before, %v after", start, end)
	}
	if end.heap > start.heap+heapSlack || end.resident > start.resident+residentSlack {
		t.Errorf("memory stayed: %v before, %v after", start, end)
	}
	a, err := testcluster.SignUp(t.Context(), server.URL(), server.Mails(), "probes@example.com", "Probes")
	must(t, err)
	k := key{server.Addresses, a.KeyID, a.Secret}
	must(t, remotingSend(t, k, "hello")([]byte("still serves"), ""))
	must(t, grpcSend(t, k, "hello")([]byte("still serves"), ""))
}

// protocols are bytes that what the ports speak begins with: a remoting frame,
// TLS, HTTP/1, HTTP/2, Redis; and one that nothing begins with. A port tells
// protocols apart by them, and what comes next is left in another place.
const protocols = "\x00\x16GP*\x7f"

// probe connects to addr n times, each time sending 0, 1 or 20 bytes of junk.
// Three of four end with a reset, and they come from many addresses, so that
// the ports of one are not used up.
func probe(t *testing.T, addr string, n int) {
	t.Helper()
	const workers, sources = 8, 200
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			for i := w; i < n; i += workers {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%sources))}, Timeout: 20 * time.Second}
				nc, err := d.Dial("tcp", addr)
				if err != nil {
					return err
				}
				if n := []int{0, 1, 20}[i%3]; n > 0 {
					junk := bytes.Repeat([]byte{protocols[i/3%len(protocols)]}, n)
					_, _ = nc.Write(junk) // the server may have closed already
				}
				if i/18%4 != 0 {
					_ = nc.(*net.TCPConn).SetLinger(0)
				}
				_ = nc.Close()
			}
			return nil
		})
	}
	must(t, g.Wait())
}

// watched is a process whose resources are looked at.
type watched struct {
	*testcluster.Process
	token string
}

// level is what a process holds.
type level struct {
	goroutines, files int
	heap, resident    int64 // bytes; the heap after a collection
}

func (l level) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%d goroutines, %d open files, heap %.1f MiB, resident %.1f MiB", l.goroutines, l.files, float64(l.heap)/mib, float64(l.resident)/mib)
}

// settled waits until the level is fine and no longer falls, at most for the
// two minutes that the report allows, and returns it.
func (p watched) settled(t *testing.T, fine func(level) bool) level {
	t.Helper()
	last := p.level(t)
	_ = testcluster.Eventually(t.Context(), 2*time.Minute, func() (bool, error) { // the caller judges the level
		now := p.level(t)
		falls := now.goroutines < last.goroutines || now.files < last.files
		last = now
		return fine(now) && !falls, nil
	})
	return last
}

func (p watched) level(t *testing.T) level {
	t.Helper()
	p.get(t, "/debug/pprof/heap?gc=1")
	values := map[string]float64{}
	for line := range strings.Lines(p.get(t, "/metrics")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = v
		}
	}
	resident, err := p.Resident()
	must(t, err)
	for _, name := range []string{"go_goroutines", "process_open_fds", "go_memstats_heap_alloc_bytes"} {
		if values[name] == 0 {
			t.Fatalf("metric %s is missing", name)
		}
	}
	return level{int(values["go_goroutines"]), int(values["process_open_fds"]), int64(values["go_memstats_heap_alloc_bytes"]), resident}
}

// get asks the admin listener on a connection of its own.
func (p watched) get(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Admin+path, nil)
	must(t, err)
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	return string(body)
}

// listening returns the IPv4 addresses that the process listens on, also those
// that no setting names, as the kernel says.
func (p watched) listening(t *testing.T) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", p.PID)
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	must(t, err)
	inodes := map[string]bool{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
		if err != nil { // closed meanwhile
			continue
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "net/tcp"))
	must(t, err)
	var out []string
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		f := strings.Fields(s.Text()) // sl local remote state … inode, see proc_pid_net_tcp(5)
		const stateListen = "0A"
		if len(f) < 10 || f[3] != stateListen || !inodes[f[9]] {
			continue
		}
		host, port, _ := strings.Cut(f[1], ":")
		ip, err := hex.DecodeString(host)
		must(t, err)
		slices.Reverse(ip) // the kernel prints it as a little-endian number
		n, err := strconv.ParseUint(port, 16, 16)
		must(t, err)
		out = append(out, net.JoinHostPort(net.IP(ip).String(), strconv.FormatUint(n, 10)))
	}
	return out
}
