package cli

import (
	"strings"
	"testing"
)

// The shipped example of an audit trail is intact, and the one with an edited
// row is found out, at that row.
func TestAudit_shippedExample(t *testing.T) {
	s := newShell(t)
	if r := s.must("audit", "verify", "../../../internal/auditchain/example/export.jsonl"); !strings.Contains(r.stdout, "intact") {
		t.Errorf("the example: %+v", r)
	}
	if r := s.run("audit", "verify", "../../../internal/auditchain/example/edited.jsonl"); r.code != exitRefused || !strings.Contains(r.stderr, "event 5") {
		t.Errorf("the edited example: %+v", r)
	}
}
