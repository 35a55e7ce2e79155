package fuzz

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// The checks, in the numbering of docs/METHODOLOGY.md and docs/FINDINGS.md.
const (
	CheckOverlap      = "O1"
	CheckConservation = "O2"
	CheckStatistics   = "O3"
	CheckCoalescing   = "O4"
	CheckPlacement    = "O5"
	CheckSpurious     = "O6"
	CheckStreams      = "O7"
	CheckCrash        = "O8"
	CheckHang         = "O9"
	CheckMetamorphic  = "O10"
	CheckNoTrace      = "O11"
	CheckCanary       = "O12"
	CheckReclaim      = "O13"
	CheckMetadata     = "O14"
	CheckLinear       = "O15"
	CheckEviction     = "O16"
	CheckCost         = "O17"
)

// Stage is when in the judging of a program a breach shows. Shrinking runs no later stage than that of the breach it keeps.
type Stage int

// The stages, in order.
const (
	StageRun      Stage = iota // the program itself
	StageInspect               // the picture after it
	StageEpilogue              // everything freed, caches dropped
	StageRepeat                // closed, opened and run again
	StageVariants              // run changed in ways that must not matter
)

// Breach is one proven breach of a check or of a promise by one program.
type Breach struct {
	Check    string `json:"check"`
	Code     string `json:"code"`  // how it was broken; the class of the finding
	Event    int    `json:"event"` // index of the event that showed it; the length of the program or more: after it; -1 before
	Kind     string `json:"kind,omitempty"`
	Handle   uint64 `json:"handle,omitempty"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Map      string `json:"map,omitempty"`   // addresses around
	Site     string `json:"site,omitempty"`  // of a crash
	Stack    string `json:"stack,omitempty"` // of a crash
	Stage    Stage  `json:"stage"`
}

// String returns one line.
func (b *Breach) String() string {
	return fmt.Sprintf("%s %s at %s: %s; expected %s", b.Check, b.Code, b.Where(), b.Observed, b.Expected)
}

// Where says at which event.
func (b *Breach) Where() string {
	switch {
	case b.Event < 0:
		return "open"
	case b.Kind != "":
		return fmt.Sprintf("event %d (%s)", b.Event, b.Kind)
	}
	return fmt.Sprintf("event %d", b.Event)
}

// Cause is what two breaches of one bug have in common, as far as can be told from outside. Findings are deduplicated by it.
func (b *Breach) Cause() string { return b.Check + "/" + b.Code + "/" + b.Kind + "/" + b.Site }

// Same reports whether two breaches are of the same check and code: what shrinking keeps.
func (b *Breach) Same(o *Breach) bool {
	return o != nil && b.Check == o.Check && b.Code == o.Code && b.Site == o.Site
}

// CheckState says of a check whether it is applied to a target, and why not.
type CheckState struct {
	Check   string `json:"check"`
	What    string `json:"what"`
	Applied bool   `json:"applied"`
	Why     string `json:"why,omitempty"` // of a check that is not applied
}

// Target is an allocator to be fuzzed.
type Target struct {
	Name string
	Desc sdk.Description
	// Open opens it; nil opens it in this process.
	Open func(cfg Config, tables *trace.Trace) (Session, error)
	// Backend is the device below, BackendIdeal if empty. Other bounds the devices' sizes.
	Backend              string
	DeviceMin, DeviceMax uint64
	Options              [][]byte // options to try, beside the defaults
	Settings             []string // "key=value", for set
	// BlackBox does without what the target shows of itself: Inspect and features.
	BlackBox bool
	// InProcess is the same strategy in this process, to compare with; nil for none.
	InProcess *sdk.Description
}

func (t *Target) open(cfg Config, tables *trace.Trace) (Session, error) {
	if t.Open != nil {
		return t.Open(cfg, tables)
	}
	return OpenLocal(&t.Desc, cfg, tables)
}

func (t *Target) promises(p sdk.Promise) bool {
	for _, q := range t.Desc.Promises {
		if p == q {
			return true
		}
	}
	return false
}

// can reports whether the strategy has a capability.
func (t *Target) can(c sdk.Capability) bool {
	for _, have := range t.Desc.Capabilities {
		if have == string(c) {
			return true
		}
	}
	return false
}

// Checks lists all checks with whether they apply.
func (t *Target) Checks() []CheckState {
	promised := func(p sdk.Promise) string {
		if t.promises(p) {
			return ""
		}
		return "not promised: " + string(p)
	}
	looks := ""
	if t.BlackBox {
		looks = "black box: the picture of the inside is not looked at"
	} else if !t.can(sdk.CapInspect) {
		looks = "the strategy shows no picture of its inside"
	}
	first := func(list ...string) string {
		for _, s := range list {
			if s != "" {
				return s
			}
		}
		return ""
	}
	trims := ""
	if !t.can(sdk.CapTrim) {
		trims = "the strategy has no trim"
	}
	canary := "strategies do not touch bytes; two owners of one byte are O1"
	list := []CheckState{
		{Check: CheckOverlap, What: "no two live blocks overlap"},
		{Check: CheckConservation, What: "every byte and every device object is accounted for"},
		{Check: CheckStatistics, What: "figures told agree with the books"},
		{Check: CheckCoalescing, What: "no two adjacent free blocks; freeing all restores whole regions", Why: first(promised(sdk.PromiseCoalesces), looks)},
		{Check: CheckPlacement, What: "alignment, range and size of blocks"},
		{Check: CheckSpurious, What: "no failure while memory would have served", Why: promised(sdk.PromiseNoSpuriousFailure)},
		{Check: CheckStreams, What: "no block is reused while another stream uses it", Why: promised(sdk.PromiseStreamSafe)},
		{Check: CheckCrash, What: "no crash"},
		{Check: CheckHang, What: "no hang"},
		{Check: CheckMetamorphic, What: "repeated, after a reset, relabelled, checkpointed and restored: the same outcomes", Why: promised(sdk.PromiseDeterministic)},
		{Check: CheckNoTrace, What: "an event that fails leaves no trace"},
		{Check: CheckCanary, What: "bytes of live blocks stay as they were written", Why: canary},
		{Check: CheckReclaim, What: "after freeing all and a trim the device use is the initial one; nothing is held after close", Why: first(promised(sdk.PromiseReclaims), trims)},
		{Check: CheckMetadata, What: "bookkeeping is bounded by live and free blocks", Why: first(promised(sdk.PromiseBoundedMetadata), looks)},
		{Check: CheckLinear, What: "concurrent histories are linearizable", Why: "the contract calls a strategy from one thread"},
		{Check: CheckEviction, What: "eviction is legal", Why: "strategies do not evict; the target pmm does"},
		{Check: CheckCost, What: "waste and device calls within the stated bound", Why: promised(sdk.PromiseBoundedWaste)},
	}
	for i := range list {
		list[i].Applied = list[i].Why == ""
	}
	return list
}
