package standalone

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluicemq/sluice/dataplane/node"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// Config is everything that can be set, for all roles of the binary. Each
// setting has a path in the YAML file, a name in the environment (SLUICE_ and
// the path in capitals), and most have a flag; see Settings.
type Config struct {
	Data      string
	HTTP      string
	Admin     string
	NameSrv   string
	Broker    string
	GRPC      string
	Advertise string
	DB        string
	Redis     string
	Mail      string
	MailFrom  string
	PublicURL string
	ReadyFile string

	TLSCert, TLSKey string
	TLSMode         node.TLSMode

	SegmentBytes      int64
	QueueSegmentBytes int64
	QueueLayout       string
	Retention         time.Duration
	RetentionCheck    time.Duration
	RetentionBytes    int64
	HotBytes          int64
	ColdRate          int64
	ColdGroupRate     int64
	DeleteHours       string // hours of the day, separated by commas
	Flush             string

	TransactionFirstCheck    time.Duration
	TransactionCheckInterval time.Duration
	TransactionCheckMax      int64
	PopMaxInFlight           int64

	CollectInterval time.Duration
	MailsPerHour    int64
	MasterKeys      string
	TokenAlgorithms string
	LogLevel        string
	SSONetworks     string

	ClusterName      string
	ClusterKey       string
	PolicyKey        string
	PolicyPublicKey  string
	BrokerName       string
	NameServers      string
	Brokers          string
	RemotingEndpoint string
	GRPCEndpoint     string
}

// Default returns the embedded defaults.
func Default() *Config {
	return &Config{
		Data: "./var", HTTP: "127.0.0.1:8080", Admin: "127.0.0.1:8090", NameSrv: "127.0.0.1:9876", Broker: "127.0.0.1:10911", GRPC: "127.0.0.1:8081",
		Redis: "embedded", TLSMode: node.TLSPermissive,
		SegmentBytes: 1 << 30, QueueSegmentBytes: 6_000_000, QueueLayout: "compatible", Retention: 72 * time.Hour, RetentionCheck: 10 * time.Second, Flush: "async",
		ColdRate: store.DefaultConfig().ColdRate, ColdGroupRate: store.DefaultConfig().ColdGroupRate,
		TransactionFirstCheck: 6 * time.Second, TransactionCheckInterval: 10 * time.Second, TransactionCheckMax: 15, PopMaxInFlight: 10_000,
		CollectInterval: 10 * time.Second, MailsPerHour: 10_000, LogLevel: "info", ClusterName: "default", BrokerName: "broker-a",
	}
}

// Setting is one line of the table of settings.
type Setting struct {
	Path  string // in the YAML file: "store.segment_bytes"
	Flag  string // "" when there is none
	Usage string
	value any // *string, *int64, *time.Duration or *node.TLSMode
}

// Env is the setting's name in the environment.
func (s *Setting) Env() string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(s.Path, ".", "_"))
}

// Default is the present value as text.
func (s *Setting) Default() string {
	switch v := s.value.(type) {
	case *string:
		return *v
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *time.Duration:
		return v.String()
	case *node.TLSMode:
		return string(*v)
	}
	return ""
}

// Set reads text into the setting.
func (s *Setting) Set(text string) error {
	switch v := s.value.(type) {
	case *string:
		*v = text
	case *int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a whole number", s.Path, text)
		}
		*v = n
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 72h or 500ms", s.Path, text)
		}
		*v = d
	case *node.TLSMode:
		*v = node.TLSMode(text)
	}
	return nil
}

// Settings is the table of everything that can be set.
func (c *Config) Settings() []*Setting {
	return []*Setting{
		{"data", "data", "folder for everything that is written", &c.Data},
		{"http", "http", "console and API", &c.HTTP},
		{"admin", "admin", "operators: metrics, health, pprof", &c.Admin},
		{"namesrv", "namesrv", "RocketMQ name server", &c.NameSrv},
		{"broker", "broker", "RocketMQ broker, remoting", &c.Broker},
		{"grpc", "grpc", "RocketMQ 5 endpoint, gRPC", &c.GRPC},
		{"advertise", "advertise", "host that clients are told (default: the listener's)", &c.Advertise},
		{"db", "db", "sqlite:<path> or mysql://user:password@host:port/name (default: sqlite:<data>/control.db)", &c.DB},
		{"master_keys", "master-keys", "master keys, the one in force first: file:<path>, env:<variable> or command:<program>, by commas (default: env:SLUICE_MASTER_KEY if set, else file:<data>/master.key)", &c.MasterKeys},
		{"token_algorithms", "", "algorithms that signing keys of access tokens are kept for, EdDSA and RS256 by commas; the first signs, so add one at the end before it becomes the first (default: EdDSA)", &c.TokenAlgorithms},
		{"redis", "redis", "embedded, redis://… or rediss://…", &c.Redis},
		{"mail", "mail", "file:<folder> or smtp://user:password@host:port (default: file:<data>/mail)", &c.Mail},
		{"mail_from", "mail-from", "sender of mails", &c.MailFrom},
		{"mails_per_hour", "", "mails that strangers can cause within an hour in all: codes of sign-ups, resets and changes", &c.MailsPerHour},
		{"public_url", "public-url", "address of the console as users type it (default: as the request says)", &c.PublicURL},
		{"ready_file", "ready-file", "file to write the real addresses to, once everything serves", &c.ReadyFile},
		{"tls.cert", "tls-cert", "certificate chain, PEM (default: self-signed in <data>/tls)", &c.TLSCert},
		{"tls.key", "tls-key", "private key, PEM", &c.TLSKey},
		{"tls.mode", "tls-mode", "disabled, permissive (TLS and plain on one port) or required", &c.TLSMode},
		{"store.segment_bytes", "", "size of a commit log file; a folder keeps the size that it was made with", &c.SegmentBytes},
		{"store.queue_segment_bytes", "", "size of a consume queue file", &c.QueueSegmentBytes},
		{"store.queue_layout", "", "compatible: queue files as RocketMQ has them, for some thousand queues; compact: for any number", &c.QueueLayout},
		{"store.retention", "", "how long messages are kept", &c.Retention},
		{"store.retention_bytes", "", "the oldest commit log files go while all together have more; 0 for no limit", &c.RetentionBytes},
		{"store.hot_bytes", "", "consumer groups that read further behind the newest message have a budget; 0 for 40 % of the memory", &c.HotBytes},
		{"store.cold_rate", "", "bytes a second that all such groups read together", &c.ColdRate},
		{"store.cold_group_rate", "", "bytes a second that one of them reads", &c.ColdGroupRate},
		{"store.delete_hours", "", "hours of the local day at which old files are deleted, as 4 or 4,16; empty for all", &c.DeleteHours},
		{"store.retention_check", "", "how often old files are looked for", &c.RetentionCheck},
		{"store.flush", "", "what the answer to a send waits for: async (the page cache), sync (the disk) or quorum (the disks of most voters)", &c.Flush},
		{"transaction.first_check", "", "age of an open transaction at its first check", &c.TransactionFirstCheck},
		{"transaction.check_interval", "", "time between checks", &c.TransactionCheckInterval},
		{"transaction.check_max", "", "number of checks", &c.TransactionCheckMax},
		{"pop.max_in_flight", "", "received, not acknowledged messages of a queue and group", &c.PopMaxInFlight},
		{"usage.collect_interval", "", "how often usage is collected from brokers", &c.CollectInterval},
		{"sso.networks", "", "private networks that identity providers may lie in, such as 10.0.0.0/8, joined by commas; loopback: this machine, by http, too", &c.SSONetworks},
		{"log.level", "log-level", "debug, info, warn or error", &c.LogLevel},
		{"cluster.name", "cluster", "name of the cluster", &c.ClusterName},
		{"cluster.key_file", "", "secret shared by all processes of the cluster (default: <data>/cluster.key)", &c.ClusterKey},
		{"cluster.policy_key_file", "", "key that the control plane signs policy with (default: <data>/policy.key)", &c.PolicyKey},
		{"cluster.policy_public_file", "", "its public half, for name servers and brokers (default: <data>/policy.pub)", &c.PolicyPublicKey},
		{"cluster.broker_name", "broker-name", "name of the broker group", &c.BrokerName},
		{"cluster.name_servers", "name-servers", "addresses of the name servers, joined by commas; for roles broker and controlplane", &c.NameServers},
		{"cluster.brokers", "brokers", "addresses of the brokers, joined by commas; for role controlplane", &c.Brokers},
		{"cluster.remoting_endpoint", "", "name server address that users are told (default: the first name server)", &c.RemotingEndpoint},
		{"cluster.grpc_endpoint", "", "gRPC address that users are told; for role controlplane", &c.GRPCEndpoint},
	}
}

// Load fills c from a YAML file (if path is not empty), then from the
// environment. Flags are set afterwards by the caller. All problems are
// reported at once.
func (c *Config) Load(path string, environ []string) error {
	var errs []error
	byPath, byEnv := map[string]*Setting{}, map[string]*Setting{}
	for _, s := range c.Settings() {
		byPath[s.Path], byEnv[s.Env()] = s, s
	}
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("config file: %w", err)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(raw, &tree); err != nil {
			return fmt.Errorf("config file %s: %w", path, err)
		}
		errs = append(errs, setTree(byPath, "", tree)...)
	}
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		if s, ok := byEnv[name]; ok {
			if err := s.Set(text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			continue
		}
		if section := sectionOf(name, byEnv); section != "" {
			errs = append(errs, fmt.Errorf("environment: %s is no setting of section %s", name, section))
		}
	}
	return errors.Join(errs...)
}

// sectionOf returns the section of settings that an environment name begins
// with, "" for names that are none of the servers' business.
func sectionOf(name string, byEnv map[string]*Setting) string {
	for _, s := range byEnv {
		section, _, ok := strings.Cut(s.Path, ".")
		if ok && strings.HasPrefix(name, "SLUICE_"+strings.ToUpper(section)+"_") {
			return section
		}
	}
	return ""
}

func setTree(byPath map[string]*Setting, prefix string, tree map[string]any) []error {
	var errs []error
	for key, value := range tree {
		path := prefix + key
		if below, ok := value.(map[string]any); ok {
			errs = append(errs, setTree(byPath, path+".", below)...)
			continue
		}
		s, ok := byPath[path]
		if !ok {
			errs = append(errs, fmt.Errorf("config file: %s is no setting%s", path, nearest(byPath, path)))
			continue
		}
		if err := s.Set(fmt.Sprint(value)); err != nil {
			errs = append(errs, fmt.Errorf("config file: %w", err))
		}
	}
	return errs
}

// nearest names the setting that somebody means who wrote it as a flag or in
// another way than the file has it.
func nearest(byPath map[string]*Setting, path string) string {
	plain := strings.NewReplacer(".", "", "_", "", "-", "").Replace
	for _, s := range byPath {
		if plain(s.Path) == plain(path) || s.Flag != "" && plain(s.Flag) == plain(path) {
			section, key, nested := strings.Cut(s.Path, ".")
			if nested {
				return fmt.Sprintf("; write %s: {%s: …}", section, key)
			}
			return "; write " + s.Path
		}
	}
	return ""
}

// Finish fills in what depends on other settings and checks everything. All
// problems are reported at once, with their paths.
func (c *Config) Finish() error {
	under := func(target *string, name string) {
		if *target == "" {
			*target = filepath.Join(c.Data, name)
		}
	}
	under(&c.ClusterKey, "cluster.key")
	under(&c.PolicyKey, "policy.key")
	under(&c.PolicyPublicKey, "policy.pub")
	if c.DB == "" {
		c.DB = "sqlite:" + filepath.Join(c.Data, "control.db")
	}
	if c.Mail == "" {
		c.Mail = "file:" + filepath.Join(c.Data, "mail")
	}
	return c.validate()
}

func (c *Config) validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf(path+": "+format, args...))
	}
	for path, addr := range map[string]string{"http": c.HTTP, "admin": c.Admin, "namesrv": c.NameSrv, "broker": c.Broker, "grpc": c.GRPC} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad(path, "%q is not host:port", addr)
		}
	}
	if c.Data == "" {
		bad("data", "must name a folder")
	}
	if !c.TLSMode.Valid() {
		bad("tls.mode", "%q is not disabled, permissive or required", c.TLSMode)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls.cert", "tls.cert and tls.key go together")
	}
	if _, err := store.ParseFlushMode(c.Flush); err != nil {
		bad("store.flush", "%q is not async, sync or quorum", c.Flush)
	}
	if _, err := c.deleteHours(); err != nil {
		bad("store.delete_hours", "%w", err)
	}
	if _, err := store.ParseQueueLayout(c.QueueLayout); err != nil {
		bad("store.queue_layout", "%w", err)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		bad("log.level", "%q is not debug, info, warn or error", c.LogLevel)
	}
	if _, _, err := c.ssoNetworks(); err != nil {
		bad("sso.networks", "%w", err)
	}
	if !strings.HasPrefix(c.DB, "sqlite:") && !strings.HasPrefix(c.DB, "mysql://") {
		bad("db", "must begin with sqlite: or mysql://")
	}
	if c.Redis != "embedded" && !strings.HasPrefix(c.Redis, "redis://") && !strings.HasPrefix(c.Redis, "rediss://") {
		bad("redis", "must be embedded or begin with redis:// or rediss://")
	}
	if !strings.HasPrefix(c.Mail, "file:") && !strings.HasPrefix(c.Mail, "smtp://") {
		bad("mail", "must begin with file: or smtp://")
	}
	st, _ := c.store() // what does not parse was told above
	st.Dir = c.Data    // a part of it, once it serves
	errs = append(errs, st.Validate())
	for path, n := range map[string]int64{
		"transaction.first_check": int64(c.TransactionFirstCheck), "transaction.check_interval": int64(c.TransactionCheckInterval), "transaction.check_max": c.TransactionCheckMax,
		"pop.max_in_flight": c.PopMaxInFlight, "usage.collect_interval": int64(c.CollectInterval), "mails_per_hour": c.MailsPerHour,
	} {
		if n <= 0 {
			bad(path, "must be positive")
		}
	}
	if c.TransactionCheckMax > transaction.MaxChecks {
		bad("transaction.check_max", fmt.Sprintf("must be at most %d", transaction.MaxChecks))
	}
	return errors.Join(errs...)
}

// store is the broker's store as it is set, without its folder.
func (c *Config) store() (store.Config, error) {
	st := store.DefaultConfig()
	st.SegmentBytes, st.QueueSegmentBytes, st.Retention, st.RetentionCheck = c.SegmentBytes, c.QueueSegmentBytes, c.Retention, c.RetentionCheck
	st.RetentionBytes, st.HotBytes, st.ColdRate, st.ColdGroupRate = c.RetentionBytes, c.HotBytes, c.ColdRate, c.ColdGroupRate
	var hours, layout, flush error
	st.DeleteHours, hours = c.deleteHours()
	st.QueueLayout, layout = store.ParseQueueLayout(c.QueueLayout)
	st.Flush, flush = store.ParseFlushMode(c.Flush)
	return st, errors.Join(hours, layout, flush)
}

// deleteHours parses the hours of the day at which old files go.
func (c *Config) deleteHours() ([]int, error) {
	var hours []int
	for _, text := range list(c.DeleteHours) {
		hour, err := strconv.Atoi(text)
		if err != nil || hour < 0 || hour > 23 {
			return nil, fmt.Errorf("%q is no hour from 0 to 23", text)
		}
		hours = append(hours, hour)
	}
	return hours, nil
}

// list splits a setting that holds several addresses.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

// masterKeyVariable holds the base64 of a master key.
const masterKeyVariable = "SLUICE_MASTER_KEY"

// masterKeys are the settings of the master keys; none: the file in the data
// folder.
func (c *Config) masterKeys() []string {
	if c.MasterKeys == "" && os.Getenv(masterKeyVariable) != "" {
		return []string{"env:" + masterKeyVariable}
	}
	return list(c.MasterKeys)
}

// ssoNetworks reads sso.networks.
func (c *Config) ssoNetworks() (networks []netip.Prefix, loopback bool, err error) {
	for _, text := range list(c.SSONetworks) {
		if text == "loopback" {
			loopback = true
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, false, fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor the word loopback", text)
		}
		networks = append(networks, p.Masked())
	}
	return networks, loopback, nil
}
