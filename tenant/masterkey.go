package tenant

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/keyfile"
)

// KMS holds a master key: one of ours, or one of a key management service that
// never gives it out. Its methods may be called by any number of goroutines.
type KMS interface {
	// KeyID names the key, in at most 64 characters; it is stored beside what
	// the key wrapped.
	KeyID() string
	Wrap(ctx context.Context, plain []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
}

// masterMagic begins the file of the master key; the digit is its version.
const masterMagic = "sluice-master-key-1 "

const keySize = 32

// ErrMasterKey is returned for a master key that cannot be used.
var ErrMasterKey = errors.New("master key is damaged or of another version")

// OpenMasterKey reads the master key from a file, or makes the file if there is
// none. Losing it means losing every API key secret.
func OpenMasterKey(path string) ([]byte, error) {
	text, err := keyfile.ReadOrCreate(path, func() []byte {
		key := make([]byte, keySize)
		_, _ = rand.Read(key)
		return []byte(masterMagic + base64.StdEncoding.EncodeToString(key) + "\n")
	})
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(text)), masterMagic)
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s: %w", path, ErrMasterKey)
	}
	return key, nil
}

// OpenKMS opens what a setting names: file:<path> (made when absent),
// env:<variable> with the base64 of 32 bytes, or command:<path> for a program
// that speaks to a key management service; see Command.
func OpenKMS(ctx context.Context, setting string) (KMS, error) {
	kind, rest, _ := strings.Cut(setting, ":")
	switch {
	case rest == "":
	case kind == "file":
		key, err := OpenMasterKey(rest)
		if err != nil {
			return nil, err
		}
		return NewLocalKey(key)
	case kind == "env":
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(os.Getenv(rest)))
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("master key: the environment variable %s must hold the base64 of %d bytes: %w", rest, keySize, ErrMasterKey)
		}
		return NewLocalKey(key)
	case kind == "command":
		return NewCommand(ctx, rest)
	}
	return nil, fmt.Errorf("master key %q: write file:<path>, env:<variable> or command:<path>", setting)
}

// LocalKey is a master key of 32 bytes that this process holds itself.
type LocalKey struct {
	id   string
	key  []byte
	aead cipher.AEAD
}

// NewLocalKey makes a LocalKey.
func NewLocalKey(key []byte) (*LocalKey, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	sum := sha256.Sum256(append([]byte("sluice master key id "), key...))
	return &LocalKey{id: "local-" + hex.EncodeToString(sum[:8]), key: bytes.Clone(key), aead: aead}, nil
}

// KeyID implements KMS.
func (l *LocalKey) KeyID() string { return l.id }

// Wrap implements KMS.
func (l *LocalKey) Wrap(_ context.Context, plain []byte) ([]byte, error) {
	return seal(l.aead, "root key", plain), nil
}

// Unwrap implements KMS.
func (l *LocalKey) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	return open(l.aead, "root key", wrapped)
}

// Command is a master key behind a program of the operator's, which speaks to
// the key management service of any cloud. It is called with one argument:
// key-id prints the name of the key; wrap and unwrap read base64 from standard
// input and print base64. A failure is an exit code above 0, its reason the
// first line of standard error. It has 30 s for each call.
type Command struct{ path, id string }

const (
	commandTime  = 30 * time.Second
	maxKeyID     = 64
	maxErrorLine = 200
)

// NewCommand asks the program for its key.
func NewCommand(ctx context.Context, path string) (*Command, error) {
	c := &Command{path: path}
	out, err := c.run(ctx, "key-id", nil)
	if err != nil {
		return nil, err
	}
	if c.id = strings.TrimSpace(string(out)); c.id == "" || len(c.id) > maxKeyID || strings.ContainsFunc(c.id, control) {
		return nil, fmt.Errorf("master key command %s: key-id must print one line of 1 to %d characters: %w", path, maxKeyID, ErrMasterKey)
	}
	return c, nil
}

// KeyID implements KMS.
func (c *Command) KeyID() string { return c.id }

// Wrap implements KMS.
func (c *Command) Wrap(ctx context.Context, plain []byte) ([]byte, error) {
	return c.convert(ctx, "wrap", plain)
}

// Unwrap implements KMS.
func (c *Command) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	return c.convert(ctx, "unwrap", wrapped)
}

func (c *Command) convert(ctx context.Context, verb string, in []byte) ([]byte, error) {
	out, err := c.run(ctx, verb, []byte(base64.StdEncoding.EncodeToString(in)+"\n"))
	if err != nil {
		return nil, err
	}
	got, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(out)))
	if err != nil || len(got) == 0 {
		return nil, fmt.Errorf("master key command %s %s: the answer is not base64: %w", c.path, verb, ErrMasterKey)
	}
	return got, nil
}

func (c *Command) run(ctx context.Context, verb string, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, verb)
	cmd.WaitDelay = time.Second
	cmd.Stdin = bytes.NewReader(in)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(failure.String()), "\n")
		return nil, fmt.Errorf("master key command %s %s: %.*s: %w", c.path, verb, maxErrorLine, line, err)
	}
	return out.Bytes(), nil
}
