// Command load measures a NATS server with JetStream and prints one JSON line
// per run. Messages count as produced only when their PubAck has arrived.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

var commands = map[string]func(args []string) (any, error){
	"produce": produce,
	"latency": latency,
	"consume": consume,
	"ready":   ready,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load produce|latency|consume|ready [flags]; -h lists the flags")
		os.Exit(2)
	}
	result, err := commands[os.Args[1]](os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// target is the server under load and the streams used on it.
type target struct {
	Label   string `json:"label,omitempty"`
	URL     string `json:"-"`
	Streams int    `json:"streams"`
	Conns   int    `json:"conns"`
}

func (t *target) register(fs *flag.FlagSet) {
	fs.StringVar(&t.Label, "label", "", "text to tell the run's line by, such as the server's sync_interval")
	fs.StringVar(&t.URL, "url", nats.DefaultURL, "server URL")
	fs.IntVar(&t.Streams, "streams", 1, "streams, used by the connections in turn")
	fs.IntVar(&t.Conns, "conns", 1, "connections")
}

// streamName names stream i; it is also the only subject of that stream.
func streamName(i int) string { return fmt.Sprintf("LOAD%d", i) }
