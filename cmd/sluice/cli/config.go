package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// settings is config.yaml: what a person may read, copy and edit.
type settings struct {
	Current  string              `yaml:"current,omitempty"`
	Previous string              `yaml:"previous,omitempty"`
	Contexts map[string]*profile `yaml:"contexts"`
}

// profile is a context: a server and who one is there.
type profile struct {
	Endpoint  string `yaml:"endpoint"`
	Namespace string `yaml:"namespace,omitempty"`
	KeyID     string `yaml:"key_id,omitempty"`
	Email     string `yaml:"email,omitempty"`

	name   string
	source string // where endpoint and credential came from, for error messages
	secret secret
}

// secret is what secrets.yaml, readable by its owner only, holds for a context.
type secret struct {
	KeySecret    string    `yaml:"key_secret,omitempty"`
	AccessToken  string    `yaml:"access_token,omitempty"`
	AccessEnds   time.Time `yaml:"access_ends,omitempty"`
	RefreshToken string    `yaml:"refresh_token,omitempty"`
}

const (
	settingsFile = "config.yaml"
	secretsFile  = "secrets.yaml"
)

func (a *app) loadSettings() (*settings, error) {
	s := &settings{}
	if err := a.load(settingsFile, s); err != nil {
		return nil, err
	}
	if s.Contexts == nil {
		s.Contexts = map[string]*profile{}
	}
	for name, p := range s.Contexts {
		p.name = name
	}
	return s, nil
}

func (s *settings) names() []string {
	names := make([]string, 0, len(s.Contexts))
	for name := range s.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// choose makes a context the current one.
func (s *settings) choose(name string) {
	if s.Current != name {
		s.Previous, s.Current = s.Current, name
	}
}

func (a *app) saveSettings(s *settings) error { return a.save(settingsFile, s, 0o644) }

func (a *app) loadSecrets() (map[string]secret, error) {
	all := map[string]secret{}
	err := a.load(secretsFile, &all)
	return all, err
}

func (a *app) saveSecrets(all map[string]secret) error { return a.save(secretsFile, all, 0o600) }

func (a *app) load(name string, into any) error {
	path := filepath.Join(a.ConfigDir, name)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return &Error{Exit: exitUsage, What: path + " is not valid", Why: err.Error(), Fix: "Put it right, or delete it and sign in again: sluice login", cause: err}
	}
	return nil
}

// save replaces a file as a whole: a reader finds the old or the new one.
func (a *app) save(name string, v any, mode fs.FileMode) error {
	if err := os.MkdirAll(a.ConfigDir, 0o700); err != nil {
		return err
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(a.ConfigDir, "."+name+"-") // 0600 from birth
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(a.ConfigDir, name))
}

// locked runs f while no other sluice changes the files. A refresh token
// works once: two commands that start at the same time must not both use it.
func (a *app) locked(f func() error) error {
	if err := os.MkdirAll(a.ConfigDir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(a.ConfigDir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

// keep stores a context with its secret and makes it the current one.
func (a *app) keep(name string, p profile) error {
	return a.locked(func() error {
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		secrets, err := a.loadSecrets()
		if err != nil {
			return err
		}
		s.Contexts[name], secrets[name] = &p, p.secret
		s.choose(name)
		if err := a.saveSecrets(secrets); err != nil {
			return err
		}
		return a.saveSettings(s)
	})
}
