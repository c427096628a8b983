package meter

import (
	"maps"
	"slices"
)

// keyUses are those that no acknowledged report has told yet.
type keyUses struct {
	waiting  map[string]KeyUse
	sequence uint64            // of the last report with some
	told     map[string]KeyUse // in that report
}

const usesPerReport = 20_000

// report adds fresh uses and returns what the report of a sequence tells.
func (k *keyUses) report(fresh func() []KeyUse, sequence uint64) []KeyUse {
	if fresh == nil {
		return nil
	}
	if k.waiting == nil {
		k.waiting = map[string]KeyUse{}
	}
	for _, u := range fresh() {
		k.waiting[u.KeyID] = u
	}
	ids := slices.Sorted(maps.Keys(k.waiting))
	k.sequence, k.told = sequence, map[string]KeyUse{}
	var out []KeyUse
	for _, id := range ids[:min(len(ids), usesPerReport)] {
		out = append(out, k.waiting[id])
		k.told[id] = k.waiting[id]
	}
	return out
}

// ack forgets what the last report told, unless the key was used again.
func (k *keyUses) ack(sequence uint64) {
	if sequence != k.sequence {
		return
	}
	for id, u := range k.told {
		if k.waiting[id] == u {
			delete(k.waiting, id)
		}
	}
	k.told = nil
}
