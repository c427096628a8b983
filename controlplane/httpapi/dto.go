package httpapi

import (
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
)

func at(t time.Time) api.Timestamp { return api.NewTimestamp(t) }

func atPtr(t *time.Time) *api.Timestamp {
	if t == nil {
		return nil
	}
	v := at(*t)
	return &v
}

func timeOf(t *api.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	v := t.UTC()
	return &v
}

func labels(m map[string]string) api.Labels {
	if m == nil {
		return api.Labels{}
	}
	return m
}

func status(st catalog.Status) api.ResourceStatus {
	phase := st.Phase
	if phase == catalog.PhaseDeleting {
		phase = catalog.PhasePending
	}
	observed := st.ObservedRevision
	return api.ResourceStatus{Phase: api.Phase(phase), Reason: some(st.Reason), ObservedRevision: &observed}
}

func wide(p *int32) *int64 {
	if p == nil {
		return nil
	}
	v := int64(*p)
	return &v
}

func strs[From, To ~string](in []From) []To {
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = To(v)
	}
	return out
}
