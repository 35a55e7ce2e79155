package ledger

import "fmt"

// Check is the family of a check, in the numbering of docs/METHODOLOGY.md.
type Check string

// The checks that the ledger makes.
const (
	CheckOverlap      Check = "O1"  // no two live blocks overlap
	CheckConservation Check = "O2"  // every byte and every device object is accounted for; wrong frees are not accepted
	CheckStatistics   Check = "O3"  // figures told (memory info, reserved against a limit) agree with the books
	CheckPlacement    Check = "O5"  // alignment, range, granted ≥ requested, size 0, sensible status
	CheckStreams      Check = "O7"  // memory is not handed out while another stream still uses it
	CheckNoTrace      Check = "O11" // an event that failed leaves no block behind
	CheckReclaim      Check = "O13" // after close nothing is held
)

// Code names one way to break a check; stable, for triage and for counting.
type Code string

// The codes, by check.
const (
	CodeOverlap Code = "overlap" // O1: a block covers bytes of another live block

	CodeDoubleFree     Code = "double-free"       // O2: a free of something not live was accepted
	CodeFreeDenied     Code = "free-denied"       // O2: the free of a live block was called wrong
	CodeSkippedLive    Code = "skipped-live"      // O2: an event on a live block was skipped
	CodeUnknownBlock   Code = "unknown-block"     // O2: a move, spill, share or drop names no live block
	CodeDroppedOutside Code = "dropped-outside"   // O2: a block dropped by an event that is neither reset nor restore
	CodeSegmentInUse   Code = "segment-in-use"    // O2: a segment or mapping given back under a live block
	CodeUnknownFree    Code = "unknown-free"      // O2: a device free, release, unmap or unreserve of something not held
	CodeDeviceOverlap  Code = "device-overlap"    // O2: the device answered memory that is already held
	CodeMapConflict    Code = "map-conflict"      // O2: a mapping outside a reservation, over another, or of unknown memory
	CodeOverCapacity   Code = "over-capacity"     // O2: more held than the device has
	CodeSegmentOverful Code = "segment-overfull"  // O2: the live blocks of a segment exceed it
	CodeCopyUnheld     Code = "copy-outside-held" // O2: a copy reads or writes memory that is not held

	CodeMemInfo   Code = "memory-info" // O3: free above total, a changing total, or used below held
	CodeOverLimit Code = "over-limit"  // O3: reserved above the strategy's limit

	CodeMisaligned  Code = "misaligned"   // O5: address not a multiple of the alignment
	CodeOutOfRange  Code = "out-of-range" // O5: a block not wholly inside held memory
	CodeTooSmall    Code = "too-small"    // O5: granted below requested
	CodeGrantedZero Code = "granted-zero" // O5: a request above 0 answered with 0 bytes
	CodeBadExtent   Code = "bad-extent"   // O5: the extents of a block exceed what was granted
	CodeBadStatus   Code = "bad-status"   // O5: a status that this kind of event cannot have

	CodeStreamHazard Code = "stream-hazard" // O7: handed out while a use on another stream was not complete

	CodeFailedTrace Code = "failed-trace" // O11: a failed event has an address, a size or extents

	CodeLeak Code = "leak" // O13: held after close
)

// Limits on what is kept of violations; all are counted.
const (
	// MaxStoredViolations is the number of violations kept whole: the first ones. One is enough to disqualify; a person
	// reads a handful; a strategy that is wrong at every event must not fill the memory.
	MaxStoredViolations = 64
	// mapNeighbours is the number of blocks shown on each side in the address map of a violation.
	mapNeighbours = 3
)

// Violation is one proven breach of a check. Observed and Expected are one line each; Map is a drawing of the addresses
// around, several lines, or empty where no address is concerned.
type Violation struct {
	Event    int64  `json:"event"`            // index of the event; −1 open, −2 restore, −3 close
	Handle   uint64 `json:"handle,omitempty"` // handle of the event or block concerned; 0 = none
	Check    Check  `json:"check"`
	Code     Code   `json:"code"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Map      string `json:"map,omitempty"`
}

// String gives the violation in one line.
func (v Violation) String() string {
	where := fmt.Sprintf("event %d", v.Event)
	switch v.Event {
	case -1:
		where = "open"
	case -2:
		where = "restore"
	case -3:
		where = "close"
	}
	if v.Handle != 0 {
		where += fmt.Sprintf(" (h%d)", v.Handle)
	}
	return fmt.Sprintf("%s: %s %s: %s; expected %s", where, v.Check, v.Code, v.Observed, v.Expected)
}

// ViolationCount is how often a code was met.
type ViolationCount struct {
	Check Check  `json:"check"`
	Code  Code   `json:"code"`
	Count uint64 `json:"count"`
}
