// Command load measures one Kafka broker and prints one JSON line per run.
// Messages count as produced only when the broker has acknowledged them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

var commands = map[string]func(args []string) (any, error){
	"produce": produce,
	"consume": consume,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load produce|consume [flags]; -h lists the flags")
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

// target is the server under load, and how it is reached.
type target struct {
	Addr       string `json:"-"`
	API        string `json:"api"`
	Partitions int    `json:"partitions"`
	Conns      int    `json:"conns"`
}

func (t *target) register(fs *flag.FlagSet) {
	fs.StringVar(&t.Addr, "addr", "127.0.0.1:9092", "server address")
	fs.StringVar(&t.API, "api", "franz", "client: franz (a complete one) or raw (prepared requests, cheaper for the client)")
	fs.IntVar(&t.Partitions, "partitions", 1, "partitions, used by the connections in turn")
	fs.IntVar(&t.Conns, "conns", 1, "connections")
}
