package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// mqadminRow is the row in which a tenant uses RocketMQ's stock tool.
const mqadminRow = "mqadmin"

// adminCommand is one command of the tool and what its output must hold; the
// tool ends with 0 whatever happens.
type adminCommand struct {
	args string
	want []string
}

// adminCommands are what a tenant may use, and some of what it may not. The
// topic "admin" has 20 messages, which the group "admin" has consumed.
func adminCommands(broker string) []adminCommand {
	denied := []string{"[SLUICE:permission_denied]", "for operators"}
	return []adminCommand{
		{"topicList", []string{"admin"}},
		{"topicRoute -t admin", []string{`"brokerName":"broker-a"`}},
		{"topicStatus -t admin", []string{"broker-a"}},
		{"consumerProgress -g admin", []string{"admin", "Diff Total: 0"}},
		{"consumerProgress", []string{"admin"}},
		{"consumerConnection -g admin", []string{"JAVA", "CONSUME_PASSIVELY"}},
		{"consumerStatus -g admin", []string{"Rebalance OK"}},
		{"printMsg -t admin", []string{"hello 0", "hello 19"}},
		{"queryMsgByOffset -t admin -b broker-a -i 0 -o 0", []string{"Queue Offset:        0", "Keys:"}},
		{"resetOffsetByTime -g admin -t admin -s 0", []string{"broker-a"}},
		{"skipAccumulatedMessage -g admin -t admin", []string{"broker-a"}},
		{"cloneGroupOffset -s admin -d admin-copy -t admin -o true", []string{"clone group offset success"}},
		{"sendMessage -t admin -p hello", []string{"SEND_OK"}},
		{"statsAll", []string{"admin"}},
		{"clusterList", denied},
		{"brokerStatus -b " + broker, denied},
		{"updateTopic -b " + broker + " -t hacked", denied},
		{"updateBrokerConfig -b " + broker + " -k x -v y", denied},
	}
}

// mqadmin runs the commands beside a consumer that stays connected.
func mqadmin(ctx context.Context, server *testcluster.Process, a *testcluster.Account, pattern string) error {
	if match, err := path.Match(pattern, mqadminRow); err != nil || !match {
		return err
	}
	began := time.Now()
	home, err := os.MkdirTemp("", "sluice-mqadmin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if err := adminHome(home, a); err != nil {
		return err
	}
	jars, err := filepath.Abs(".cache/peers/rocketmq/server/lib")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "bench/peers/rocketmq/setup.sh").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: fetch the tool: %w\n%s", mqadminRow, err, out)
	}
	stop, err := adminConsumer(ctx, server, a)
	if err != nil {
		return fmt.Errorf("%s: %w", mqadminRow, err)
	}
	defer stop()
	commands := adminCommands(server.Broker)
	var failed []error
	for _, c := range commands {
		args := append([]string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.home=" + home, "-Drocketmq.home.dir=" + home,
			"-cp", filepath.Join(jars, "*"), "org.apache.rocketmq.tools.command.MQAdminStartup"}, strings.Fields(c.args)...)
		call, cancel := context.WithTimeout(ctx, time.Minute)
		cmd := exec.CommandContext(call, "java", append(args, "-n", server.NameSrv)...)
		cmd.Dir = home
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		for _, want := range c.want {
			if err == nil && !strings.Contains(out.String(), want) {
				err = fmt.Errorf("the output does not hold %q", want)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("mqadmin %s: %w\n%s", c.args, err, shortened(out.String())))
		}
	}
	fmt.Printf("\nmqadmin: commands=%d passed=%d failed=%d seconds=%.0f\n", len(commands), len(commands)-len(failed), len(failed), time.Since(began).Seconds())
	return errors.Join(failed...)
}

// shortened leaves out what the tool says about its own log.
func shortened(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "|-") && !strings.HasPrefix(line, "\tat ") && out.Len() < 2000 {
			out.WriteString(line)
		}
	}
	return out.String()
}

// adminHome writes the tool's configuration: the key to sign with.
func adminHome(home string, a *testcluster.Account) error {
	conf := filepath.Join(home, "conf")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(conf, "tools.yml"), []byte("accessKey: "+a.KeyID+"\nsecretKey: "+a.Secret+"\n"), 0o600)
}

// adminConsumer fills the topic, has the group consume it, and leaves a
// consumer running until stop.
func adminConsumer(ctx context.Context, server *testcluster.Process, a *testcluster.Account) (stop func(), err error) {
	var s sdk
	for _, one := range sdks() {
		if one.name == "java-remoting-5.5.0" {
			s = one
		}
	}
	out, err := s.folder(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.CreateTopic(ctx, "admin"), a.CreateGroup(ctx, "admin"), a.CreateGroup(ctx, "admin-copy")); err != nil {
		return nil, err
	}
	if code, text := s.start(ctx, server, out, "admin", a.KeyID, a.Secret); code != 0 {
		return nil, errors.New(text)
	}
	cmd := s.command(ctx, server, out, "admin", a.KeyID, a.Secret, "RMQ_MODE=push")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // it runs until it is killed
		_ = cmd.Wait()
	}, nil
}
