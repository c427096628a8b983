package storetool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is something that a person should know about a folder.
type Finding struct {
	Name   string `json:"name"`             // of the kind of finding
	File   string `json:"file"`             // below the folder
	Offset int64  `json:"offset"`           // byte in the file
	Length int64  `json:"length,omitempty"` // bytes, where a range is meant
	What   string `json:"what"`
	Fix    string `json:"fix,omitempty"`
}

// String is the finding in one line.
func (f Finding) String() string {
	at := f.File
	if f.Offset > 0 || f.Length > 0 {
		at = fmt.Sprintf("%s at byte %d", f.File, f.Offset)
	}
	if f.Length > 0 {
		at += fmt.Sprintf(", %d bytes", f.Length)
	}
	return fmt.Sprintf("%s: %s: %s", f.Name, at, f.What)
}

// Report is the outcome of a Verify.
type Report struct {
	Folder  string `json:"folder"`
	Clean   bool   `json:"clean"` // the last stop was
	Sizes   Sizes  `json:"sizes"`
	From    int64  `json:"from"` // commit log offsets
	To      int64  `json:"to"`
	Records int64  `json:"records"`
	Queues  int64  `json:"queues"`
	Units   int64  `json:"units"`
	Keys    int64  `json:"keys"` // entries of the index
	// Dirty is what the next start mends by itself, without losing anything
	// that was acknowledged as durable.
	Dirty []Finding `json:"dirty"`
	// Faults are damage.
	Faults []Finding `json:"faults"`
	// Notes are neither.
	Notes   []Finding `json:"notes"`
	Omitted int       `json:"omitted,omitempty"` // findings over the limit of a list
}

// Damaged tells whether anything is wrong that a start does not mend.
func (r *Report) Damaged() bool { return len(r.Faults) > 0 }

// maxFindings is how many findings one list holds.
const maxFindings = 1000

func (r *Report) add(list *[]Finding, f Finding) {
	if len(*list) >= maxFindings {
		r.Omitted++
		return
	}
	*list = append(*list, f)
}

// sort brings the findings into the order of files and bytes.
func (r *Report) sort() {
	for _, list := range []*[]Finding{&r.Dirty, &r.Faults, &r.Notes} {
		slices.SortFunc(*list, func(a, b Finding) int {
			return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
		})
		if *list == nil {
			*list = []Finding{}
		}
	}
}

func (r *Report) dirty(f Finding) { r.add(&r.Dirty, f) }
func (r *Report) fault(f Finding) { r.add(&r.Faults, f) }
func (r *Report) note(f Finding)  { r.add(&r.Notes, f) }

// What to do about a finding.
const (
	fixStart   = "The next start mends it."
	fixRebuild = "Run: sluice store repair --rebuild FOLDER, which makes queues and index anew from the commit log."
	fixCopy    = "Bring the file back from a copy or a replica. Without it what it held is lost: everything else is served, and reads of it say that it is gone."
	fixSizes   = "Say the sizes that the folder was made with, or move the file out of the folder."
	fixMove    = "Move it out of the folder."
)
