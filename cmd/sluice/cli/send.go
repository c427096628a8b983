package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// largestBody is more than any topic takes; it bounds what is read from a
// file or a pipe by mistake.
const largestBody = 4 << 20

var receiptView = view[api.MessageReceipt]{name: func(r api.MessageReceipt) string { return r.MessageId }, columns: []column[api.MessageReceipt]{
	{title: "message_id", value: func(r api.MessageReceipt) string { return r.MessageId }},
	{title: "topic", value: func(r api.MessageReceipt) string { return r.Topic }},
	{title: "queue", value: func(r api.MessageReceipt) string { return number(r.Queue) }},
	{title: "offset", value: func(r api.MessageReceipt) string { return r.Offset }},
	{title: "stored_at", value: func(r api.MessageReceipt) string { return r.StoredAt.String() }},
}}

type sendFlags struct {
	body, file, tag, group, deliver string
	keys                            []string
	properties                      map[string]string
	queue                           int32
}

func (a *app) sendCommand() *cobra.Command {
	var s sendFlags
	c := a.command("send TOPIC [BODY]", "Send one message", cobra.RangeArgs(1, 2), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		body, err := a.messageBody(cmd.Flags(), s, args[1:])
		if err != nil {
			return err
		}
		message, err := a.message(cmd.Flags(), s, body)
		if err != nil {
			return err
		}
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		resp, err := a.sdk.SendMessageWithResponse(ctx, ns, args[0], &api.SendMessageParams{DryRun: a.dry()}, message)
		if a.dryRun {
			if err := apiclient.Done(resp, err); err != nil {
				return doing("send to topic "+args[0], err)
			}
			a.noted()
			return nil
		}
		receipt, err := apiclient.Created(resp, err)
		if err != nil {
			return doing("send to topic "+args[0], err)
		}
		if err := showOne(a, receiptView, receipt); err != nil {
			return err
		}
		a.hint("Next: sluice receive %s", args[0])
		return nil
	})
	c.Long = "Sends one message. The body is the second argument, or --body, or --file, or what comes on standard input."
	c.Example = `  sluice send orders '{"id": 1001}' --key order-1001 --tag created
  generate | sluice send orders --property source=batch`
	f := c.Flags()
	f.StringVar(&s.body, "body", "", "the body")
	f.StringVar(&s.file, "file", "", "file that holds the body; - is standard input")
	f.StringArrayVar(&s.keys, "key", nil, "key to find the message by; may be repeated")
	f.StringVar(&s.tag, "tag", "", "tag for subscriptions")
	f.StringToStringVar(&s.properties, "property", nil, "property as name=value; may be repeated")
	f.StringVar(&s.group, "message-group", "", "message group, for FIFO topics, which are not delivered yet")
	f.StringVar(&s.deliver, "deliver", "", "when to deliver, as a time or from now on (10m), for DELAY topics, which are not delivered yet")
	f.Int32Var(&s.queue, "queue", 0, "queue (default: the server chooses)")
	return a.writes(c)
}

func (a *app) messageBody(f *pflag.FlagSet, s sendFlags, arg []string) ([]byte, error) {
	given := len(arg)
	for _, name := range []string{"body", "file"} {
		if f.Changed(name) {
			given++
		}
	}
	if given > 1 {
		return nil, usage("the body comes from several places", "Give one of: an argument, --body, --file.")
	}
	var from io.Reader
	switch {
	case len(arg) == 1:
		return []byte(arg[0]), nil
	case f.Changed("body"):
		return []byte(s.body), nil
	case s.file != "" && s.file != "-":
		file, err := os.Open(s.file)
		if err != nil {
			return nil, usage(err.Error(), "Name a file that can be read.")
		}
		defer file.Close()
		from = file
	case s.file == "-" || !a.InTerminal:
		from = a.In
	default:
		return nil, usage("there is no body", "Give it as the second argument, with --file, or on standard input.")
	}
	body, err := io.ReadAll(io.LimitReader(from, largestBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if len(body) > largestBody {
		return nil, usage(fmt.Sprintf("the body has more than %d bytes", largestBody), "Store it elsewhere and send where it is.")
	}
	return body, nil
}

func (a *app) message(f *pflag.FlagSet, s sendFlags, body []byte) (api.MessageSend, error) {
	m := api.MessageSend{Body: string(body), Tag: given(f, "tag", s.tag), Keys: given(f, "key", s.keys), Properties: given(f, "property", s.properties),
		MessageGroup: given(f, "message-group", s.group), Queue: given(f, "queue", s.queue)}
	if !utf8.Valid(body) {
		m.Body, m.BodyEncoding = base64.StdEncoding.EncodeToString(body), ptr(api.Base64)
	}
	if f.Changed("deliver") {
		t, err := a.instant("--deliver", s.deliver)
		if err != nil {
			return m, err
		}
		m.DeliverAt = &t
	}
	return m, nil
}

// show writes one message of a stream: JSON is one object a line, YAML one
// document a message.
func (a *app) showMessage(m api.Message) error {
	switch a.form() {
	case outputName:
		_, err := fmt.Fprintln(a.Out, m.MessageId)
		return err
	case outputTable:
		return a.messageLine(m)
	case outputYAML:
		if _, err := fmt.Fprintln(a.Out, "---"); err != nil {
			return err
		}
		return a.encode(m)
	}
	return a.encodeLine(m)
}

// messageLine is one message for a person: where and when, then the body.
func (a *app) messageLine(m api.Message) error {
	body := m.Body
	if m.BodyEncoding == api.Base64 {
		body = fmt.Sprintf("(%d bytes, base64) %s", m.SizeBytes, m.Body)
	}
	head := fmt.Sprintf("%s %s/%d@%s", m.StoredAt, m.Topic, m.Queue, m.Offset)
	if m.Tag != nil {
		head += " tag=" + *m.Tag
	}
	for _, k := range m.Keys {
		head += " key=" + k
	}
	if len(m.Properties) > 0 {
		head += " " + labels(m.Properties)
	}
	if a.colour() {
		head = "\x1b[2m" + head + "\x1b[0m"
	}
	_, err := fmt.Fprintf(a.Out, "%s %s\n", head, printable(body))
	return err
}

// printable keeps a body from driving the reader's terminal.
func printable(body string) string {
	out := []rune(body)
	for i, r := range out {
		if (r < ' ' && r != '\t' && r != '\n') || (r >= 0x7f && r < 0xa0) {
			out[i] = '�'
		}
	}
	return string(out)
}

var errEnough = errors.New("enough messages")
