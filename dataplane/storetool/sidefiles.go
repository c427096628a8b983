package storetool

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/dataplane/replica"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// The files beside the logs, as they lie there: the overlay may already have what
// a start would make of them.

// readSide reads a file of the folder; check tells whether its content is good. A
// missing one is fs.ErrNotExist.
func (v *verifier) readSide(name string, check func([]byte) error) error {
	b, err := vfs.ReadFile(v.base, v.path(name))
	if err != nil {
		return err
	}
	if err := check(b); err != nil {
		return damagedSide{err}
	}
	return nil
}

// damagedSide marks that a file could be read, but is no good.
type damagedSide struct{ error }

// besideCopy says what is wrong with a file and its copy; "" when the file is good
// or neither is there. whole tells whether the copy is good.
func (v *verifier) besideCopy(name string, check func([]byte) error) (what string, whole bool, err error) {
	var damaged damagedSide
	mainErr := v.readSide(name, check)
	switch {
	case mainErr == nil:
		return "", true, nil
	case errors.As(mainErr, &damaged):
		what = damaged.Error()
	case errors.Is(mainErr, fs.ErrNotExist):
		what = "it is missing"
	default:
		return "", false, mainErr
	}
	copyErr := v.readSide(name+".bak", check)
	switch {
	case copyErr == nil:
		return what + "; its copy, the version before, is good", true, nil
	case errors.As(copyErr, &damaged):
		return what + "; its copy is damaged, too: " + damaged.Error(), false, nil
	case !errors.Is(copyErr, fs.ErrNotExist):
		return "", false, copyErr
	case errors.Is(mainErr, fs.ErrNotExist):
		return "", false, nil
	}
	return what + "; there is no copy", false, nil
}

const (
	topicsName = "topics.json"
	groupsName = "subscriptionGroup.json"
	formatName = "sluice.store.json"
	secretName = "sluice.indexKey.json"
)

// checkConfig reads the configuration files.
func (v *verifier) checkConfig() error {
	infos, err := v.base.ReadDir(v.path("config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := map[string]bool{}
	for _, info := range infos {
		if name := strings.TrimSuffix(info.Name, ".bak"); !info.Dir && filepath.Ext(name) == ".json" {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		check := store.CheckConfig
		if name == formatName {
			check = func(b []byte) error { _, err := store.DecodeFormat(b); return err }
		}
		what, whole, err := v.besideCopy(filepath.Join("config", name), check)
		if err != nil {
			return err
		}
		if what != "" {
			v.fault(Finding{Name: "config-damaged", File: filepath.Join("config", name), What: what, Fix: fixConfig(name, whole)})
		}
	}
	return nil
}

// fixConfig is what to do about a configuration file; whole says that its copy is
// good.
func fixConfig(name string, whole bool) string {
	switch {
	case name == formatName:
		return "The next start takes the sizes of its configuration and writes the file anew: make sure that they are those that the folder was made with."
	case whole:
		return "The next start uses " + name + ".bak: what was changed last is lost, unless you bring the file back from a copy."
	case name == secretName:
		return "The next start makes a new secret and the key index anew."
	case name == topicsName, name == groupsName, name == "sluice.deletedTopics.json":
		return "The next start refuses: bring the file back from a copy."
	}
	return "Bring the file back from a copy."
}

// checkTables tells of tables that are gone with their copies although there is
// something that was in them.
func (v *verifier) checkTables() error {
	gone := func(name string) (bool, error) {
		there, err := vfs.Exists(v.base, v.path("config", name))
		if err == nil && !there {
			there, err = vfs.Exists(v.base, v.path("config", name+".bak"))
		}
		return !there, err
	}
	if v.Records > 0 {
		if missing, err := gone(topicsName); err != nil {
			return err
		} else if missing {
			v.fault(Finding{Name: "topics-missing", File: filepath.Join("config", topicsName), What: fmt.Sprintf("it and its copy are missing, and the commit log has %d records", v.Records),
				Fix: "Bring the file back from a copy. The next start knows no topics without it, so nobody can read or send."})
			return nil
		}
	}
	for topic := range v.view.Topics() {
		if !strings.HasPrefix(topic, "%RETRY%") {
			continue
		}
		missing, err := gone(groupsName)
		if err == nil && missing {
			v.fault(Finding{Name: "groups-missing", File: filepath.Join("config", groupsName), What: "it and its copy are missing, and there are topics that belong to consumer groups, as " + topic,
				Fix: "Bring the file back from a copy. The next start knows no consumer groups without it."})
		}
		return err
	}
	return nil
}

// checkTerms reads the file of terms.
func (v *verifier) checkTerms() error {
	what, whole, err := v.besideCopy(replica.FileName, func(b []byte) error { _, err := replica.Decode(b); return err })
	if err != nil {
		return err
	}
	found := Finding{Name: "terms-damaged", File: replica.FileName, What: what, Fix: "The next start lets terms begin anew: they do not tell any more which leader wrote what. Bring the file back from a copy."}
	// Whoever has written that part of the checkpoint has begun a term, too.
	if what == "" && !whole && v.view.Checkpoint().Synced > 0 {
		found.Name, what = "terms-missing", "it and its copy are missing"
		found.What = what
	}
	if whole && what != "" {
		found.Fix = "The next start uses the copy, so the last term is not known."
	}
	if what != "" {
		v.fault(found)
	}
	return nil
}

// checkCheckpoint tells of a checkpoint that says nothing.
func (v *verifier) checkCheckpoint() error {
	const fix = "The next start reads the whole commit log and writes the file anew, but cannot tell whether the end of the log is lost."
	if err := v.view.CheckpointErr; err != nil {
		v.fault(Finding{Name: "checkpoint-damaged", File: "checkpoint", What: "it has bytes that cannot be: a wrong checksum, or no zeros behind the numbers", Fix: fix})
		return nil
	}
	there, err := vfs.Exists(v.base, v.path("checkpoint"))
	if err == nil && !there && v.made.Version > 0 && v.Records > 0 {
		v.fault(Finding{Name: "checkpoint-missing", File: "checkpoint", What: "it is missing", Fix: fix})
	}
	return err
}

// checkDirectory tells of compact queues without the directory that says which
// page is whose.
func (v *verifier) checkDirectory() error {
	const name = "sluice.queues/directory"
	if v.cfg.QueueLayout != store.LayoutCompact {
		return nil
	}
	there, err := vfs.Exists(v.base, v.path(name))
	if err == nil && !there {
		v.noDirectory = true
		v.fault(Finding{Name: "queue-directory", File: name, What: "it is missing, and the page files are of no use without it",
			Fix: "The next start makes all queues anew from the commit log. Offsets that the log does not show any more are used again: bring the file back from a copy together with the page files, if there is one."})
	}
	return err
}
