package tenant

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// memoryRoots is a RootStore in memory.
type memoryRoots struct {
	keys    []RootKey
	purpose string
	sealed  []byte
}

func (m *memoryRoots) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	before := append([]RootKey(nil), m.keys...)
	err := fn(ctx)
	if err != nil {
		m.keys = before
	}
	return err
}
func (m *memoryRoots) LockChanges(context.Context) error { return nil }
func (m *memoryRoots) RootKeys(context.Context) ([]RootKey, error) {
	return append([]RootKey(nil), m.keys...), nil
}
func (m *memoryRoots) AddRootKey(_ context.Context, k RootKey) error {
	m.keys = append(m.keys, k)
	return nil
}
func (m *memoryRoots) RewrapRootKey(_ context.Context, k RootKey) error {
	for i := range m.keys {
		if m.keys[i].ID == k.ID {
			m.keys[i].MasterID, m.keys[i].Wrapped = k.MasterID, k.Wrapped
		}
	}
	return nil
}
func (m *memoryRoots) OldSealed(context.Context) (string, []byte, error) {
	if m.sealed == nil {
		return "", nil, errs.E(errs.NotFound, "nothing")
	}
	return m.purpose, m.sealed, nil
}

func master(t *testing.T, b byte) *LocalKey {
	t.Helper()
	k, err := NewLocalKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openRing(t *testing.T, s RootStore, masters ...KMS) (*Keyring, bool) {
	t.Helper()
	k, changed, err := OpenKeyring(t.Context(), s, masters, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return k, changed
}

// An installation from before there were root keys goes on: what its master
// key sealed opens, and what was derived from it stays the same.
func TestOpenKeyring_oldInstallation(t *testing.T) {
	old := master(t, 1)
	s := &memoryRoots{purpose: "data key of ten_a", sealed: seal(old.aead, "data key of ten_a", []byte("key"))}
	before, err := NewKeyring(old.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenKeyring(t.Context(), s, []KMS{master(t, 2)}, time.Now); !errors.Is(err, ErrWrongMasterKey) || len(s.keys) != 0 {
		t.Fatalf("another master key: %v, %d root keys", err, len(s.keys))
	}
	k, _ := openRing(t, s, master(t, 2), old) // the master key changes with the upgrade
	for range 2 {
		if got, err := k.Open("data key of ten_a", s.sealed); err != nil || string(got) != "key" {
			t.Errorf("an old value: %q, %v", got, err)
		}
		if !bytes.Equal(k.Derive("page tokens"), before.Derive("page tokens")) {
			t.Error("derived keys changed")
		}
		k, _ = openRing(t, s, master(t, 2)) // the old master key is gone
	}
}

func TestOpenKeyring_masterKeyChanges(t *testing.T) {
	s := &memoryRoots{}
	first, _ := openRing(t, s, master(t, 1))
	derived, sealed := first.Derive("x"), first.Seal("p", []byte("one"))
	standby, changed := openRing(t, s, master(t, 1), master(t, 2))
	if changed || !strings.Contains(MasterKeys(s.keys), master(t, 1).id) {
		t.Error("a master key that stands by changes something")
	}
	second, changed := openRing(t, s, master(t, 2), master(t, 1))
	if !changed || MasterKeys(s.keys) != master(t, 2).id {
		t.Errorf("after the change the root keys need %s", MasterKeys(s.keys))
	}
	fresh := second.Seal("p", []byte("two"))
	if bytes.Equal(fresh[:9], sealed[:9]) || !bytes.Equal(fresh[:9], second.Newest()) {
		t.Error("no new root key seals")
	}
	if got, err := standby.Open("p", fresh); err != nil || string(got) != "two" {
		t.Errorf("a replica that ran before cannot read: %q, %v", got, err)
	}
	third, changed := openRing(t, s, master(t, 2))
	for name, k := range map[string]*Keyring{"standby": standby, "second": second, "third": third} {
		if got, err := k.Open("p", sealed); err != nil || string(got) != "one" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !bytes.Equal(k.Derive("x"), derived) {
			t.Errorf("%s: derived keys changed", name)
		}
	}
	if changed {
		t.Error("opening again changes something")
	}
	if _, err := third.Open("q", sealed); err == nil {
		t.Error("a value opens for another purpose")
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if _, err := third.Open("p", broken); err == nil {
			t.Errorf("byte %d changed: it opens", i)
		}
	}
	if _, _, err := OpenKeyring(t.Context(), s, []KMS{master(t, 1)}, time.Now); !errors.Is(err, ErrWrongMasterKey) {
		t.Errorf("the master key that was taken away: %v", err)
	}
	s.keys[0].Wrapped, s.keys[1].Wrapped = s.keys[1].Wrapped, s.keys[0].Wrapped
	if _, _, err := OpenKeyring(t.Context(), s, []KMS{master(t, 2)}, time.Now); err == nil {
		t.Error("root keys can be swapped")
	}
}

func TestOpenKMS(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	t.Setenv("SLUICE_TEST_MASTER", key)
	t.Setenv("SLUICE_TEST_SHORT", "AAAA")
	dir := t.TempDir()
	program := func(name, script string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// A key management service of its own: a mark in front is all that wrapping
	// has to be here.
	kms := program("kms", `case $1 in key-id) echo projects/x/keys/1 ;; wrap) (printf wrapped:; base64 -d) | base64 -w0 ;; unwrap) base64 -d | tail -c +9 | base64 -w0 ;; *) exit 2 ;; esac`)
	locked := program("locked", `case $1 in key-id) echo k ;; *) echo "access denied" >&2; exit 1 ;; esac`)
	for setting, want := range map[string]string{
		"file:" + filepath.Join(dir, "m"): "", "env:SLUICE_TEST_MASTER": "", "command:" + kms: "",
		"env:SLUICE_TEST_SHORT": "SLUICE_TEST_SHORT", "env:SLUICE_TEST_NONE": "SLUICE_TEST_NONE", "": "write file:", "file:": "write file:", "vault:x": "write file:",
		"command:" + filepath.Join(dir, "none"): "none key-id",
	} {
		k, err := OpenKMS(t.Context(), setting)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AAAA") {
				t.Errorf("%q: %v", setting, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", setting, err)
			continue
		}
		s := &memoryRoots{}
		ring, _ := openRing(t, s, k)
		sealed := ring.Seal("p", []byte("v"))
		again, _ := openRing(t, s, k)
		if got, err := again.Open("p", sealed); err != nil || string(got) != "v" {
			t.Errorf("%q: %q, %v", setting, got, err)
		}
		moved, changed := openRing(t, s, master(t, 9), k)
		if got, err := moved.Open("p", sealed); err != nil || string(got) != "v" || !changed {
			t.Errorf("%q to another: %q, %v", setting, got, err)
		}
	}
	k, err := OpenKMS(t.Context(), "command:"+locked)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenKeyring(t.Context(), &memoryRoots{}, []KMS{k}, time.Now); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("a service that refuses: %v", err)
	}
}
