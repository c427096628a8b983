package store

import "time"

// Durability says what an append waits for.
type Durability uint8

// The durabilities.
const (
	DurabilityDefault Durability = iota // as Config.Flush says
	DurabilityAsync                     // in the page cache: survives the process, not the machine
	DurabilitySync                      // on the disk
	DurabilityQuorum                    // on the disks of most voters of the broker group
)

// Appended tells where a message went.
type Appended struct {
	PhysicalOffset, QueueOffset, StoreTimestamp int64
	Size                                        int32 // of the record
}

// ReadStatus is the outcome of a Read that did not fail.
type ReadStatus uint8

// The read statuses; Next of the Batch is the offset to ask for next.
const (
	ReadFound          ReadStatus = iota // Records has at least one
	ReadNoMatch                          // records there, but none that Match wants: go on at Next
	ReadNotFound                         // nothing at Max yet: wait for an arrival
	ReadOffsetTooSmall                   // below Min; Next = Min
	ReadOffsetTooBig                     // above Max; Next = Max
	ReadNoQueue                          // the queue has never had a message; Next = 0
	ReadRemoved                          // records were deleted meanwhile: go on at Next
	ReadLater                            // the budget of ReadOptions.Group is used up: ask again after Wait
)

var readStatusNames = [...]string{"found", "no match", "not found", "offset too small", "offset too big", "no queue", "removed", "later"}

// String names the status for logs.
func (s ReadStatus) String() string {
	if int(s) < len(readStatusNames) {
		return readStatusNames[s]
	}
	return "unknown"
}

// ReadOptions limit a Read. The first record is always returned, whatever its
// size. Zero values mean 32 messages and 256 KiB.
type ReadOptions struct {
	MaxMessages int
	MaxBytes    int
	// Group is the consumer group whose budget a cold read takes from: one far
	// behind the end of the log. "" has none, and is never told ReadLater.
	Group string
	// Match selects records by tags code before they are read; nil takes all.
	Match func(tagsCode int64) bool
}

// Batch is the result of a Read. Records are whole records in queue order;
// they are valid until Release.
type Batch struct {
	Status         ReadStatus
	Next, Min, Max int64
	Wait           time.Duration // of ReadLater
	Records        [][]byte

	bufs *readBuffers
}

// Boundary chooses between two neighbours in OffsetByTime.
type Boundary uint8

// The boundaries.
const (
	BoundaryLower Boundary = iota // first message with store time >= t; Max when there is none
	BoundaryUpper                 // last message with store time <= t
)

// Arrival says that a message can be read.
type Arrival struct {
	Topic                string
	QueueID              int32
	NextOffset, TagsCode int64 // NextOffset is the queue's Max after this message
}
