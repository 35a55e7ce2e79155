package trace

import (
	"fmt"
	"math/bits"
)

// Builder turns events that name their objects by handles into records: it gives every handle a dense slot, interns
// streams, pools and strings in order of first use, and keeps the optional columns only when something is put into them.
//
//	b := trace.NewBuilder()              // or trace.CreateFile(path): the same calls, streamed to disk
//	b.At(12_500)                         // optional: time of the events from here on
//	b.Saw(0x7f0000000000, 2<<20, false)  // optional: what the recording saw at the next event
//	err := b.Alloc(1, 2<<20, trace.AllocArgs{Stream: b.Stream(7), Tag: b.String("layer.0")})
//	err = b.Free(1, trace.FreeArgs{})
//	t, err := b.Finish(trace.Meta{Source: "rmm-csv"})
//
// An event that breaks a rule of the language is refused with an *EventError and leaves no trace: the caller may count it,
// warn, and go on. Errors that end the building (a full disk, a limit of a table) are kept and returned by every later
// call and by Finish.
//
// Slots. The first SlotsFresh handles get a slot each for good; later ones take the slot freed last. A consumer's table by
// slot is therefore at most SlotsFresh + the largest number of live handles long, and hot slots stay in cache.
//
// Memory. In memory: the records. Into a file: buffers, the tables, 32 bytes a live handle, and one bit for each handle
// that does not arrive as the next number; so a file may be of any length.
//
// A Builder is used by one goroutine.
type Builder struct {
	cols    columns
	file    *fileTarget // nil: in memory
	wrong   uint64      // events of KindFreeWrong
	names   names
	streams table[uint64]
	pools   table[string]
	strings table[string]
	strLen  int
	start   *State
	began   bool // an event was added, or Start was called
	open    []uint16
	nowNs   int64
	lastNs  int64
	timed   bool
	seen    bool
	pending Recorded
	err     error
	done    bool
}

// AllocArgs are the optional arguments of Alloc and Realloc. Indexes come from Builder.Stream, Pool and String; the zero
// value is the default stream, the default pool, no alignment, no thread, no tag.
type AllocArgs struct {
	Stream uint16
	Pool   uint16
	Align  uint64 // bytes, a power of two; 0 = none demanded
	Thread uint32 // 1 + number of the host thread; 0 = not given
	Tag    uint32
}

// FreeArgs are the optional arguments of Free.
type FreeArgs struct {
	Stream uint16 // the stream that frees, when OnStream is set
	// OnStream says that Stream was recorded; without it the block is freed on the stream that allocated it.
	OnStream bool
	Thread   uint32 // 1 + number of the host thread; 0 = not given
	Tag      uint32
}

// TouchArgs are the arguments of Touch.
type TouchArgs struct {
	By     Place
	Offset uint64 // first byte, relative to the block
	Length uint64
	Write  bool
	Thread uint32 // 1 + number of the host thread; 0 = not given
	Tag    uint32
}

// NewBuilder returns a builder that keeps the trace in memory.
func NewBuilder() *Builder {
	b := new(Builder)
	b.streams.add(0)
	b.pools.add(DefaultPoolName)
	b.strings.add("")
	return b
}

// DefaultPoolName is the name of the default pool, PyTorch's pool id (0, 0).
const DefaultPoolName = "0:0"

// Len returns the number of events so far, which is the index of the next one.
func (b *Builder) Len() uint64 { return b.cols.events() }

// LiveHandles returns the number of handles live now.
func (b *Builder) LiveHandles() int { return b.names.live.count }

// Live reports whether h is live now, and its slot.
func (b *Builder) Live(h Handle) (slot uint32, ok bool) {
	if e := b.names.live.get(h); e != nil {
		return e.slot, true
	}
	return 0, false
}

// Err returns the error that ended the building, if any.
func (b *Builder) Err() error { return b.err }

// Stream returns the index of the stream with this name (for CUDA its handle), adding it when new; 0 is the default
// stream. When the table is full it returns 0 and the builder ends with ErrLimit.
func (b *Builder) Stream(name uint64) uint16 {
	i, fresh := b.streams.intern(name)
	if fresh && i >= MaxStreams {
		b.fail(limitError("MaxStreams", MaxStreams))
		return 0
	}
	return uint16(i)
}

// Pool returns the index of the pool with this name, adding it when new. A name is two numbers as in PyTorch, "0:1", or
// any other text; a lone number N is short for "0:N", and "" for the default pool.
func (b *Builder) Pool(name string) uint16 {
	i, fresh := b.pools.intern(canonicalPool(name))
	if fresh && (i >= MaxPools || !b.addBytes(name)) {
		b.fail(limitError("MaxPools", MaxPools))
		return 0
	}
	return uint16(i)
}

// canonicalPool writes a pool's name in full.
func canonicalPool(name string) string {
	if name == "" {
		return DefaultPoolName
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return name
		}
	}
	return "0:" + name
}

// String returns the index of a string, adding it when new; "" is 0.
func (b *Builder) String(s string) uint32 {
	i, fresh := b.strings.intern(s)
	if fresh && (i >= MaxStrings || !b.addBytes(s)) {
		b.fail(limitError("MaxStrings", MaxStrings))
		return 0
	}
	return uint32(i)
}

// stringBytes is String for bytes that the caller will overwrite.
func (b *Builder) stringBytes(s []byte) uint32 {
	i, ok := b.strings.index[string(s)]
	if !ok {
		return b.String(string(s))
	}
	return i
}

// poolBytes is Pool for bytes that the caller will overwrite.
func (b *Builder) poolBytes(s []byte) uint16 {
	if i, ok := b.pools.index[string(s)]; ok {
		return uint16(i)
	}
	return b.Pool(string(s))
}

func (b *Builder) addBytes(s string) bool {
	b.strLen += len(s)
	if len(s) > MaxStringBytes {
		b.fail(limitError("MaxStringBytes", MaxStringBytes))
		return false
	}
	if b.strLen > MaxStringsBytes {
		b.fail(limitError("MaxStringsBytes", MaxStringsBytes))
		return false
	}
	return true
}

// At sets the time, in ns since the start of the recording, of the events from here on. Times may not go back: the next
// event is refused with ErrTimeBack if they do. Events before the first At are at time 0.
func (b *Builder) At(ns int64) {
	b.nowNs = ns
	b.timed = true
}

// Saw says what the recording saw at the next event: where the block lay and how large it really was (0 = not recorded),
// or that the request failed.
func (b *Builder) Saw(addr, granted uint64, failed bool) {
	b.seen = true
	b.pending = Recorded{Addr: addr, Granted: granted, Seen: 1}
	if failed {
		b.pending = Recorded{Status: StatusFailed, Seen: 1}
	}
}

// SawSegment says that during the next event, or after the last one when none follows, the recording saw memory taken from
// the device or given back. stream is an index from Builder.Stream.
func (b *Builder) SawSegment(kind SegmentEventKind, addr, bytes uint64, stream uint16) error {
	if b.err != nil {
		return b.err
	}
	n := b.cols.events()
	if kind.String() == "" {
		return fmt.Errorf("%w: segment event of kind %d before event %d", ErrArgument, kind, n)
	}
	if int(stream) >= len(b.streams.list) {
		return fmt.Errorf("%w: segment event before event %d: stream %d of %d", ErrIndex, n, stream, len(b.streams.list))
	}
	b.cols.seg = append(room(b.cols.seg), SegmentEvent{Event: n, Addr: addr, Bytes: bytes, Stream: stream, Kind: kind})
	return nil
}

// Start gives the layout before the first event. It comes before any event and fills in the slots of the live blocks of
// st, in order; their handles are live from here on. A pending block is not live, but its handle counts as used.
func (b *Builder) Start(st *State) error {
	if b.err != nil {
		return b.err
	}
	if b.began {
		return fmt.Errorf("%w: Start comes once, before the first event", ErrState)
	}
	b.began = true
	if st == nil {
		return nil
	}
	if err := st.assign(&b.names); err != nil {
		return err
	}
	if err := st.check(len(b.streams.list), len(b.pools.list)); err != nil {
		return err
	}
	b.start = st
	return nil
}

// fail keeps the first error that ends the building.
func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Builder) refuse(k Kind, h Handle, err error) error {
	n := b.cols.events()
	b.unsee()
	return &EventError{Event: n, Kind: k, Handle: h, Err: err}
}

func (b *Builder) unsee() {
	b.seen = false
	b.pending = Recorded{}
}

// ready checks what holds for every event.
func (b *Builder) ready(k Kind, h Handle) error {
	if b.err != nil {
		return b.err
	}
	if b.nowNs < b.lastNs {
		back := fmt.Errorf("%w: %d ns after %d ns", ErrTimeBack, b.nowNs, b.lastNs)
		b.nowNs = b.lastNs
		return b.refuse(k, h, back)
	}
	if b.cols.events() >= MaxEvents {
		b.fail(limitError("MaxEvents", MaxEvents))
		return b.err
	}
	return nil
}

// put appends a checked event.
func (b *Builder) put(ev *Event) error {
	b.began = true
	b.lastNs = b.nowNs
	b.cols.push(ev, b.timed, b.nowNs, b.seen, b.pending)
	if b.seen {
		b.unsee()
	}
	if b.file != nil && len(b.cols.ev) >= flushEvents {
		if err := b.file.flush(&b.cols); err != nil {
			b.fail(err)
			return err
		}
	}
	return nil
}

// extra moves the rarer arguments of an event into the table of extras when it has any.
func (b *Builder) extra(ev *Event, x Extra, forced bool) error {
	if x.Thread == 0 && !forced {
		ev.Aux = x.Tag
		return nil
	}
	n := b.cols.extras()
	if n >= MaxExtras {
		b.fail(limitError("MaxExtras", MaxExtras))
		return b.err
	}
	ev.Flags |= FlagExtra
	ev.Aux = uint32(n)
	b.cols.ex = append(b.cols.ex, x)
	return nil
}

// alignLog2 turns an alignment in bytes into the field of an event.
func alignLog2(align uint64) (uint8, error) {
	if align == 0 {
		return 0, nil
	}
	if align&(align-1) != 0 {
		return 0, fmt.Errorf("%w: %d", ErrAlignment, align)
	}
	return uint8(bits.TrailingZeros64(align)), nil
}
