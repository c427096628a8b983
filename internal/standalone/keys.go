package standalone

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sluicemq/sluice/internal/keyfile"
)

// secretBytes is the length of the cluster's shared secret.
const secretBytes = 32

// keys are what the processes of one cluster trust each other by.
type keys struct {
	secret  []byte             // of the system principal
	signing ed25519.PrivateKey // of policy; nil where only the public half is
	public  ed25519.PublicKey
}

// openKeys reads the key files of c. With create, what is missing is made:
// standalone and control plane do, the data plane's processes must be given
// theirs.
func openKeys(c *Config, create, sign bool) (*keys, error) {
	var k keys
	text, err := readOrCreate(c.ClusterKey, create, func() string { return hex.EncodeToString(randomBytes(secretBytes)) })
	if err != nil {
		return nil, fmt.Errorf("cluster.key_file: %w", err)
	}
	if k.secret, err = hex.DecodeString(text); err != nil || len(k.secret) != secretBytes {
		return nil, fmt.Errorf("cluster.key_file %s: want %d hexadecimal digits", c.ClusterKey, 2*secretBytes)
	}
	if sign {
		text, err := readOrCreate(c.PolicyKey, create, func() string {
			return base64.StdEncoding.EncodeToString(randomBytes(ed25519.SeedSize))
		})
		if err != nil {
			return nil, fmt.Errorf("cluster.policy_key_file: %w", err)
		}
		seed, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("cluster.policy_key_file %s: want the base64 of %d bytes", c.PolicyKey, ed25519.SeedSize)
		}
		k.signing = ed25519.NewKeyFromSeed(seed)
		k.public = k.signing.Public().(ed25519.PublicKey)
		if err := keyfile.Create(c.PolicyPublicKey, []byte(base64.StdEncoding.EncodeToString(k.public)+"\n"), 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("cluster.policy_public_file: %w", err)
		}
		return &k, nil
	}
	text, err = readOrCreate(c.PolicyPublicKey, false, nil)
	if err != nil {
		return nil, fmt.Errorf("cluster.policy_public_file: %w", err)
	}
	if k.public, err = base64.StdEncoding.DecodeString(text); err != nil || len(k.public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("cluster.policy_public_file %s: want the base64 of %d bytes", c.PolicyPublicKey, ed25519.PublicKeySize)
	}
	return &k, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// readOrCreate reads a small text file; a missing one is made of value, or is an
// error that says where it comes from.
func readOrCreate(path string, create bool, value func() string) (string, error) {
	if !create {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s is missing: copy it from the control plane's data folder", path)
		}
		return strings.TrimSpace(string(raw)), err
	}
	raw, err := keyfile.ReadOrCreate(path, func() []byte { return []byte(value() + "\n") })
	return strings.TrimSpace(string(raw)), err
}
