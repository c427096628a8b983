package processor

import (
	"log/slog"
	"testing"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// A defect in making an answer, on the goroutine that writes for everybody, is
// an answer to its own sender and nothing to the others.
func TestSending_answersWhenItPanics(t *testing.T) {
	broken := &Processor{log: slog.New(slog.DiscardHandler)} // has no core
	resp := (&sending{p: broken, opaque: 7}).answer(store.Appended{}, nil)
	if resp == nil || resp.Code != wire.SystemError || resp.Opaque != 7 || !resp.IsResponse() {
		t.Errorf("the answer is %+v", resp)
	}
	if resp := (&sending{p: broken, oneWay: true}).answer(store.Appended{}, nil); resp != nil {
		t.Errorf("the answer to a one-way send is %+v", resp)
	}
}
