package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluicemq/sluice/dataplane/message"
)

// keyHash makes the hash under which the index holds a key of a topic; tag says
// that the key is the TAGS of a message. The result is not negative.
type keyHash interface {
	hash(topic, key []byte, tag bool) int32
}

// javaHash is RocketMQ's. Keys that share a hash are easily made, for any topic:
// where tenants share a store, one of them could slow down the look-ups of
// another, and tell by the time of its own whether the other has a key.
type javaHash struct{}

func (javaHash) hash(topic, key []byte, tag bool) int32 {
	if tag {
		return message.TagHash(topic, key)
	}
	return message.KeyHash(topic, key)
}

// keyedHash is the begin of SHA-256 over a secret of the store, topic and key.
// It belongs to one goroutine.
type keyedHash struct {
	secret []byte
	buf    []byte
}

func (h *keyedHash) hash(topic, key []byte, tag bool) int32 {
	b := append(h.buf[:0], h.secret...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	b = append(b, topic...)
	if tag {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(b, key...)
	h.buf = b
	sum := sha256.Sum256(b)
	return int32(binary.BigEndian.Uint32(sum[:]) >> 1)
}

const (
	indexKeyFile     = "sluice.indexKey.json"
	indexSecretBytes = 32
)

// indexSecret returns the secret of the store's hashes; made is true when it is
// a new one, with which no index goes that is there.
func (s *Store) indexSecret() (secret []byte, made bool, err error) {
	if secret, err = s.loadIndexSecret(); err == nil {
		return secret, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrConfigDamaged) {
		return nil, false, err
	}
	secret = make([]byte, indexSecretBytes)
	rand.Read(secret)
	data, err := json.Marshal(secret)
	if err == nil {
		err = s.SaveConfig(indexKeyFile, data)
	}
	if err != nil {
		return nil, false, fmt.Errorf("secret of the key index: %w", err)
	}
	return secret, true, nil
}

// loadIndexSecret returns fs.ErrNotExist or ErrConfigDamaged when there is none.
func (s *Store) loadIndexSecret() (secret []byte, err error) {
	data, err := s.LoadConfig(indexKeyFile)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, &secret) != nil || len(secret) != indexSecretBytes {
		return nil, fmt.Errorf("%s holds no key of %d bytes: %w", indexKeyFile, indexSecretBytes, ErrConfigDamaged)
	}
	return secret, nil
}
