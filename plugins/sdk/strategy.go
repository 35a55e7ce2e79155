package sdk

import (
	"encoding/json"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// Stream and Pool are indexes into the stream and pool tables of the trace being run (Env.Streams, Env.Pools). 0 is the
// default one.
type (
	Stream = uint16
	Pool   = uint16
)

// Request is one allocation asked of a strategy. The loop reuses one Request for all events: do not keep the pointer.
type Request struct {
	Size   uint64 // bytes asked; may be 0
	Align  uint64 // demanded alignment, a power of two; 0 = none beyond the strategy's own
	Stream Stream
	Pool   Pool
	Tag    uint32 // index into Env.Strings; 0 = none
}

// Block is what a strategy hands out. The loop keeps it, by slot, and shows it again at Free, Use, Realloc: so a strategy
// needs no table from addresses to blocks.
type Block struct {
	Addr uint64 // device address of the first byte
	Size uint64 // bytes the block really holds (granted), ≥ requested; 0 only for a request of 0 bytes
	Ref  uint64 // the strategy's own: an index, a generation, anything
}

// Strategy is an allocator policy. Its methods are called from one goroutine, allocate nothing in the steady state, and
// read no clock. A strategy that needs more than Alloc and Free implements some of the interfaces below; an event whose
// interface is missing has the outcome StatusUnsupported, except where said otherwise.
type Strategy interface {
	// Alloc fills b and returns StatusOK, StatusRecovered (it succeeded only after dropping caches, waiting or compacting),
	// StatusSpilled, or leaves b alone and returns StatusFailed, StatusRefused or StatusError. A request of 0 bytes succeeds with b.Size 0
	// and b.Addr 0 unless the real program differs.
	Alloc(r *Request, b *Block) trace.Status
	// Free takes back the block that Alloc filled. s is the stream that frees.
	Free(b *Block, s Stream) trace.Status
	// Close gives all memory back to the device.
	Close() error
}

// StreamUser hears that a block is used on another stream than its own (record_stream). Missing: StatusUnsupported.
type StreamUser interface {
	Use(b *Block, s Stream) trace.Status
}

// StreamWaiter hears that stream s waits on the device for what `on` has issued so far. Missing: ignored, StatusOK.
type StreamWaiter interface {
	StreamWait(s, on Stream) trace.Status
}

// Completer hears that work of a stream has completed (all = every stream), by `complete` or `sync`, after the device was told; most strategies
// ask the device instead. Missing: ignored, StatusOK.
type Completer interface {
	Completed(s Stream, all, hostWaited bool) trace.Status
}

// StreamDestroyer hears that a stream is gone. Missing: ignored, StatusOK.
type StreamDestroyer interface {
	StreamDestroyed(s Stream) trace.Status
}

// Trimmer gives cached memory back to the device (empty_cache). Missing: StatusUnsupported.
type Trimmer interface {
	Trim() trace.Status
}

// PoolRouter routes allocations to private pools. Missing: StatusUnsupported.
type PoolRouter interface {
	PoolBegin(p Pool) trace.Status
	PoolEnd(p Pool) trace.Status
	PoolRelease(p Pool) trace.Status
}

// Setter changes an option mid-trace. Missing: StatusUnsupported.
type Setter interface {
	Set(key, value string) trace.Status
}

// Marker hears of marks (mark iteration=2). Missing: ignored, StatusOK.
type Marker interface {
	Mark(key string, value uint64)
}

// Reallocer resizes a block: old stays live unless the status says Placed. Missing: the loop does Alloc, then Free of old.
type Reallocer interface {
	Realloc(old *Block, r *Request, b *Block) trace.Status
}

// WrongFreer is shown deliberately wrong frees of programs (free! h1): b is the last tenancy of the handle. It must return StatusInvalid and
// change nothing. Missing: StatusUnsupported.
type WrongFreer interface {
	FreeWrong(b *Block, s Stream) trace.Status
}

// Resetter returns to the state after opening; every live block ceases to exist. Missing: StatusUnsupported.
type Resetter interface {
	Reset() trace.Status
}

// Checkpointer saves and restores the layout under a name (index into Env.Strings). Blocks handed out after the checkpoint cease to exist
// at the restore; blocks live then are live again at their addresses, with the same Ref. Missing: StatusUnsupported.
type Checkpointer interface {
	Checkpoint(name uint32) trace.Status
	RestoreCheckpoint(name uint32) trace.Status
}

// Defragmenter compacts. Each move of a live block goes through Env.Log as a CallMove; the loop follows it and shows the new address
// from then on. Missing: StatusUnsupported.
type Defragmenter interface {
	Defragment() trace.Status
}

// LayoutRestorer takes over an exact layout, before the first event (capability "restore"): segments as the device will be told to have
// them, blocks as given. For each live block it calls place, which tells the loop the Block of that slot.
type LayoutRestorer interface {
	RestoreLayout(st *trace.State, place func(slot uint32, b Block)) error
}

// Inspector shows segments, blocks, free lists and counters, for people, checks and tests.
type Inspector interface {
	Inspect() Inspection
}

// Inspection is a picture of a strategy's inside at one moment.
type Inspection struct {
	Segments  []InspectedSegment `json:"segments"`
	FreeLists []FreeList         `json:"free_lists,omitempty"`
	Counters  map[string]uint64  `json:"counters,omitempty"`
	MetaBytes uint64             `json:"meta_bytes,omitempty"` // the strategy's own bookkeeping, bytes
}

// InspectedSegment is memory held from the device, its blocks in address order without a gap.
type InspectedSegment struct {
	Addr   uint64           `json:"addr"`
	Bytes  uint64           `json:"bytes"`
	Stream Stream           `json:"stream,omitempty"`
	Pool   Pool             `json:"pool,omitempty"`
	Blocks []InspectedBlock `json:"blocks"`
}

// InspectedBlock is a block of a segment; State is "live", "free", "pending" (freed, waiting for a stream) or "unmapped".
type InspectedBlock struct {
	Addr  uint64 `json:"addr"`
	Bytes uint64 `json:"bytes"`
	State string `json:"state"`
}

// FreeList is the census of one free list.
type FreeList struct {
	Name  string `json:"name"`
	Len   uint64 `json:"len"`
	Bytes uint64 `json:"bytes"`
}

// Log takes a strategy's statements about its blocks into the call log. A nil Log discards.
type Log interface {
	// Note adds a record of one of the kinds ≥ trace.CallMove; Event is filled in.
	Note(c trace.Call)
}

// Env is what a strategy gets at Open. Device already records every call in the call log.
type Env struct {
	Device        backends.Device
	CapacityBytes uint64          // what an arena strategy takes in one segment at Open; a growing one treats it as its limit
	Options       json.RawMessage // checked against Description.Options; `{}` when none were given
	Seed          uint64
	Streams       []uint64 // names of the streams of the trace, by Stream
	Pools         []string // names of the pools, by Pool
	Strings       []string // tags, marks, checkpoint names
	Log           Log
}

// Promise is what a strategy claims beyond safety. Only promised properties are checked as such.
type Promise string

// The promises.
const (
	PromiseCoalesces         Promise = "coalesces"           // O4: no two adjacent free mergeable blocks; free-all restores whole regions
	PromiseNoSpuriousFailure Promise = "no-spurious-failure" // O6: never fails while a free range of the strategy or the device would have served
	PromiseReclaims          Promise = "reclaims"            // O13: after free-all and trim the device use is the initial one
	PromiseBoundedWaste      Promise = "bounded-waste"       // O17: granted ≤ a stated factor of requested (Description.WasteFactor)
	PromiseBoundedMetadata   Promise = "bounded-metadata"    // O14: bookkeeping is bounded by live and free blocks
	PromiseDeterministic     Promise = "deterministic"       // O10: equal programs give equal outcomes
	PromiseStreamSafe        Promise = "stream-safe"         // O7 holds for traces that use several streams
	PromiseReturnsOnFree     Promise = "returns-on-free"     // device memory goes back at the free, nothing is cached
)

// Deviation is a known difference from ideal behaviour that an exact copy of a real program keeps on purpose.
type Deviation struct {
	ID      string `json:"id"`      // short, stable: "tlsf-misses-exact-fit"
	Text    string `json:"text"`    // one sentence
	Section string `json:"section"` // where the behaviour is documented
}

// Description says what a strategy is. It is static.
type Description struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Summary      string          `json:"summary"` // one line
	Arena        bool            `json:"arena"`   // takes one segment of Env.CapacityBytes at Open (unless the option grow is set)
	Promises     []Promise       `json:"promises"`
	WasteFactor  float64         `json:"waste_factor,omitempty"`
	Options      json.RawMessage `json:"options"`      // JSON Schema of the options object
	Deviations   []Deviation     `json:"deviations"`   // known deviations
	Alignment    uint64          `json:"alignment"`    // every address is a multiple of it, at least
	Canary       bool            `json:"canary"`       // deliberately wrong: must be caught
	Capabilities []string        `json:"capabilities"` // filled by the SDK from the interfaces that the strategy implements

	// New opens the strategy over env. Errors are the user's to read (bad option, no memory for the arena).
	New func(env *Env) (Strategy, error) `json:"-"`
}
