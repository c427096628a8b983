// Command load drives a RocketMQ broker over the remoting protocol and prints one line of JSON. It speaks to the broker
// alone, checks the code of every reply and counts only what the broker has acknowledged, at a small cost of its own, so
// that it measures servers and not clients.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

const usageText = `load ready    time until the broker accepts a message
load produce  send; -rate makes it an open loop
load pull     read a topic
load COMMAND -h lists the flags`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usageText)
		os.Exit(2)
	}
	result, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

func run(command string, args []string) (any, error) {
	f := flag.NewFlagSet(command, flag.ExitOnError)
	var cred credentials
	addr := f.String("broker", "127.0.0.1:10911", "address of the broker")
	topic := f.String("topic", "load", "topic")
	queues := f.Int("queues", 8, "queues of the topic")
	f.StringVar(&cred.accessKey, "access-key", "", "sign requests with this access key")
	f.StringVar(&cred.secretKey, "secret-key", "", "and this secret key")

	switch command {
	case "ready":
		since := f.Int64("since", 0, "report milliseconds since this Unix time in milliseconds, not since the call")
		timeout := f.Duration("timeout", time.Minute, "give up after this time")
		create := f.Bool("create", true, "create the topic when it is missing")
		f.Parse(args)
		return ready(*addr, *topic, *queues, *since, *timeout, *create, cred)
	case "produce":
		cfg := produceConfig{drainTimeout: 10 * time.Second}
		f.IntVar(&cfg.size, "size", 1024, "bytes of a message's body")
		f.IntVar(&cfg.batch, "batch", 1, "messages of a request")
		f.IntVar(&cfg.conns, "conns", 1, "connections")
		f.IntVar(&cfg.window, "window", 64, "requests in flight of each connection; the most allowed with -rate")
		f.IntVar(&cfg.rate, "rate", 0, "messages per second of all connections; 0 for as many as the window allows")
		f.DurationVar(&cfg.warmup, "warmup", 5*time.Second, "time before counting")
		f.DurationVar(&cfg.duration, "duration", 20*time.Second, "time counted")
		f.BoolVar(&cfg.create, "create", true, "create the topic first")
		f.Parse(args)
		cfg.addr, cfg.topic, cfg.queues, cfg.cred = *addr, *topic, *queues, cred
		return produce(cfg)
	case "pull":
		cfg := pullConfig{}
		f.StringVar(&cfg.group, "group", "load", "consumer group; no offset is committed")
		f.IntVar(&cfg.readers, "readers", 1, "independent readers of the whole topic, one pull per queue in flight each")
		f.IntVar(&cfg.conns, "conns", 1, "connections that all cursors are spread over")
		f.IntVar(&cfg.maxMsgs, "max-msgs", 32, "messages of one pull")
		f.IntVar(&cfg.maxBytes, "max-bytes", 256<<10, "bytes of one pull")
		f.DurationVar(&cfg.warmup, "warmup", 2*time.Second, "time before counting, with -duration")
		f.BoolVar(&cfg.create, "create", true, "create the group first")
		f.DurationVar(&cfg.duration, "duration", 0, "read over and over for this time; 0 to read once")
		f.Parse(args)
		cfg.addr, cfg.topic, cfg.queues, cfg.cred = *addr, *topic, *queues, cred
		return pull(cfg)
	default:
		return nil, fmt.Errorf("no command %q\n%s", command, usageText)
	}
}
