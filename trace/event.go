package trace

// Kind says what an event does. The numbers are part of the binary form and never change.
type Kind uint8

// The event kinds, in the order of the language reference (docs/TRACES.md). The comment gives the text form and which
// fields of Event carry the arguments.
const (
	KindNone          Kind = 0
	KindAlloc         Kind = 1  // h1 = alloc SIZE [stream= pool= align= thread= tag=]: Handle, Slot, Size, Stream, Pool, AlignLog2
	KindFree          Kind = 2  // free h1 [stream=]: Handle, Slot, Stream (the stream that frees; equals the allocating one unless given)
	KindFreeWrong     Kind = 3  // free! h1: a deliberately wrong free; Handle, Slot of its last tenancy. Programs only
	KindRealloc       Kind = 4  // h3 = realloc h2 SIZE: Handle, Slot, Size of the new block; Extra.Handle2, Extra.Slot2 of the old one
	KindUse           Kind = 5  // use h1 stream=7: Handle, Slot, Stream (the stream that uses it)
	KindWait          Kind = 6  // wait stream=0 on=7: Stream waits, on the device, for Streams[Aux]
	KindComplete      Kind = 7  // complete stream=7: Stream; with FlagAll every stream
	KindSync          Kind = 8  // sync [stream=7]: Stream, or FlagAll
	KindTrim          Kind = 9  // trim
	KindMark          Kind = 10 // mark iteration=2: Strings[Aux] is the key, Size the value
	KindPoolBegin     Kind = 11 // pool-begin 0:1: Pool; routes the allocations of all streams to Pool
	KindPoolEnd       Kind = 12 // pool-end [0:1]: Pool
	KindPoolRelease   Kind = 13 // pool-release 0:1: Pool
	KindSet           Kind = 14 // set KEY=VALUE: Strings[Aux] is "KEY=VALUE"
	KindEvents        Kind = 15 // events manual|immediate: Size 1|0
	KindStreamDestroy Kind = 16 // stream-destroy 7: Stream
	KindReset         Kind = 17 // reset
	KindCheckpoint    Kind = 18 // checkpoint c1: Strings[Aux]
	KindRestore       Kind = 19 // restore c1: Strings[Aux]
	KindDefragment    Kind = 20 // defragment
	KindFailNext      Kind = 21 // fail-next device=2: Size = k; the k-th device call from here that can fail, fails
	KindTouch         Kind = 22 // touch h1 by=gpu|cpu offset= length= [write]: Handle, Slot, Size = length; Extra.Offset, Extra.Arg = Place; FlagWrite
	KindPrefetch      Kind = 23 // prefetch h1 to=gpu|cpu: Handle, Slot, Aux = Place
	kindCount         Kind = 24
)

// Place is where managed memory is touched from or moved to.
type Place uint32

// The places of managed memory.
const (
	PlaceGPU Place = 0
	PlaceCPU Place = 1
)

// Flags qualify an event.
type Flags uint8

// The event flags.
const (
	FlagAll    Flags = 1 << 0 // complete, sync: every stream
	FlagExtra  Flags = 1 << 1 // Aux indexes Trace.Extras instead of Trace.Strings
	FlagWrite  Flags = 1 << 2 // touch: writes
	FlagStream Flags = 1 << 3 // free: the freeing stream was given in the text (it may equal the allocating one)
)

// Handle is the name of an object in a trace (h17 is Handle 17). It is for people: never reused, never renumbered when an
// event is deleted. 0 means none; the first legal handle is 1, except that importers of scripts whose ids count from 0 add 1.
type Handle uint64

// Event is one event of a trace, exactly as it lies in the binary form: 32 bytes, little endian, no padding. Indexes refer
// to the tables of the Trace (Streams, Pools, Strings, Extras); index 0 of Streams is the default stream, index 0 of Pools
// the default pool, index 0 of Strings the empty string.
type Event struct {
	Kind      Kind   // byte 0
	Flags     Flags  // byte 1
	Stream    uint16 // bytes 2–3: index into Trace.Streams
	Slot      uint32 // bytes 4–7: dense number of the handle, reused after its free
	Handle    Handle // bytes 8–15
	Size      uint64 // bytes 16–23: requested bytes, or the argument named at the kind
	Pool      uint16 // bytes 24–25: index into Trace.Pools
	AlignLog2 uint8  // byte 26: log2 of the demanded alignment; 0 = none demanded
	Device    uint8  // byte 27: device number within a trace of several devices; importers split devices, so it is 0
	Aux       uint32 // bytes 28–31: index of the tag in Trace.Strings, or the argument named at the kind
}

// EventBytes is the size of one Event in the binary form.
const EventBytes = 32

// Extra holds the rarer arguments of an event with FlagExtra: 40 bytes, little endian.
type Extra struct {
	Tag     uint32 // index into Trace.Strings; 0 = no tag
	Thread  uint32 // 1 + number of the host thread; 0 = not given
	Handle2 Handle // realloc: the old handle
	Slot2   uint32 // realloc: its slot
	Arg     uint32 // touch: Place
	Offset  uint64 // touch: first byte, relative to the block
	_       uint64
}

// ExtraBytes is the size of one Extra in the binary form.
const ExtraBytes = 40

// Recorded is what the recording saw at an event (the text after "->"): 24 bytes, little endian. A strategy never sees it;
// the recorded backend and the golden tests do.
type Recorded struct {
	Addr    uint64
	Granted uint64 // 0 = not recorded
	Status  Status // StatusOK or StatusFailed
	Seen    uint8  // 1 if the recording says anything about this event
	_       [6]byte
}

// RecordedBytes is the size of one Recorded in the binary form.
const RecordedBytes = 24

// DefaultStream and DefaultPool are the table indexes of the default stream and the default pool.
const (
	DefaultStream uint16 = 0
	DefaultPool   uint16 = 0
)

// TakesMemory reports whether the kind asks the strategy for memory.
func (k Kind) TakesMemory() bool { return k == KindAlloc || k == KindRealloc }

// NamesHandle reports whether events of the kind carry a Handle and a Slot.
func (k Kind) NamesHandle() bool {
	switch k {
	case KindAlloc, KindFree, KindFreeWrong, KindRealloc, KindUse, KindTouch, KindPrefetch:
		return true
	}
	return false
}
