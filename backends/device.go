package backends

import "github.com/gpubench/gpubench/trace"

// Stream numbers a stream of the trace being run: an index into its stream table. 0 is the default stream.
type Stream = uint16

// EventID names an event recorded on a stream. 0 is no event.
type EventID uint64

// PhysID names physical memory made by Create. 0 is none.
type PhysID uint64

// Info describes a device.
type Info struct {
	Name             string // "ideal", "pmm a100-80", "NVIDIA H200"
	TotalBytes       uint64 // what cudaMemGetInfo calls total, and totalGlobalMem
	PageBytes        uint64 // granularity of Malloc and Create; 2 MiB on all devices modelled so far
	AddrLimit        uint64 // addresses of Malloc lie below; 0 = no limit
	VirtualMemory    bool   // implements VirtualMemory
	StreamEvents     bool   // implements Streams
	Deterministic    bool   // equal calls give equal answers and equal times
	ModelledTime     bool   // NowNs is a model's clock, not a measured one
	UncalibratedTime bool   // the model's cost parameters were not measured on the device they stand for
	CostSource       string // where the cost parameters come from
}

// Device is what a strategy gets memory from. Methods are called from one goroutine at a time and do not allocate in the
// steady state. Sizes and addresses are bytes. A device that answers CallDeviceLost once answers it for ever.
type Device interface {
	// Info never changes during the life of the device.
	Info() Info
	// MemInfo returns free and total bytes as the device's own query would.
	MemInfo() (freeBytes, totalBytes uint64)
	// Malloc returns size bytes of device memory, aligned to 256 at least. Size 0 is CallInvalidValue.
	Malloc(size uint64) (addr uint64, st trace.CallStatus)
	// Free gives back what Malloc returned at addr; any other address is CallInvalidValue.
	Free(addr uint64) trace.CallStatus
	// NowNs is the device's clock: the model's on a model (it advances only by costs and Advance), else a real one.
	NowNs() uint64
	// Close gives everything back.
	Close() error
}

// VirtualMemory is implemented by devices with virtual memory management (cuMemAddressReserve, cuMemCreate, cuMemMap, …).
// All sizes are multiples of PageBytes, except that Reserve rounds up.
type VirtualMemory interface {
	Reserve(size uint64) (addr uint64, st trace.CallStatus)
	Unreserve(addr, size uint64) trace.CallStatus
	Create(size uint64) (PhysID, trace.CallStatus)
	Release(PhysID) trace.CallStatus
	// Map maps the whole of phys at addr, which lies in a reservation and is not mapped.
	Map(addr, size uint64, phys PhysID) trace.CallStatus
	// Unmap unmaps whole mappings only.
	Unmap(addr, size uint64) trace.CallStatus
	SetAccess(addr, size uint64) trace.CallStatus
}

// HostMemory is implemented by devices that can hold memory of the host to which the device copies: pinned memory. Its addresses are of another
// address space than the device's; no two of both kinds are equal.
type HostMemory interface {
	// HasHostMemory reports whether this very device can: decorators have the methods whatever they wrap.
	HasHostMemory() bool
	// HostMalloc returns size bytes of pinned host memory. Size 0 is CallInvalidValue.
	HostMalloc(size uint64) (addr uint64, st trace.CallStatus)
	// HostFree gives back what HostMalloc returned at addr.
	HostFree(addr uint64) trace.CallStatus
	// Copy copies size bytes from src to dst, each in memory of the device or of the host, and waits for the end.
	Copy(dst, src, size uint64) trace.CallStatus
}

// Streams is implemented by devices that know streams and events.
type Streams interface {
	// Record records an event behind all work issued to s so far.
	Record(s Stream) EventID
	// Query reports whether the event has completed.
	Query(EventID) bool
	// Wait lets the host wait for the event: it, and everything recorded on that stream before it, is complete afterwards.
	Wait(EventID)
	// StreamWait lets s wait on the device for the event.
	StreamWait(s Stream, e EventID)
	// Drop frees the event.
	Drop(EventID)
	// SyncStream and SyncDevice let the host wait for a stream or for all.
	SyncStream(s Stream)
	SyncDevice()
}

// StreamControl is what the replay loop, not the strategy, drives: the trace's own statements about the progress of work.
type StreamControl interface {
	// SetManualEvents(true) makes events complete only by Complete, Wait or Sync; false (the initial state) at once.
	SetManualEvents(manual bool)
	// Complete says that the device has finished all work issued to s so far; the host did not wait.
	Complete(s Stream)
	// CompleteAll is Complete for every stream.
	CompleteAll()
	// DestroyStream says that the program destroyed s: its work is finished and it is not used again.
	DestroyStream(s Stream)
}

// Clocked is implemented by devices with a model clock: the trace's recorded gaps advance it.
type Clocked interface {
	// AdvanceNs moves the clock forward; background work of the model (scrubbing) proceeds.
	AdvanceNs(ns uint64)
}

// FaultInjector is implemented by devices, or decorators, that can fail a call on purpose.
type FaultInjector interface {
	// FailNext makes the k-th call from now that can run out of memory (Malloc, Create, Reserve, Map) answer CallInjected;
	// k counts from 1. 0 cancels.
	FailNext(k uint64)
}

// Resetter is implemented by devices that can return to the state after opening, at no cost; used between warm-up and
// measurement and by programs.
type Resetter interface {
	Reset()
}

// RecordedAnswers is implemented by the recorded backend: before each event the replay loop shows it what the recording
// saw, so that the device can answer with the recorded addresses.
type RecordedAnswers interface {
	// BeginEvent is called before event i is executed.
	BeginEvent(i uint64)
}

// SegmentAdopter is implemented by devices that can start with memory handed out already. Before a strategy takes over a
// start state (trace.State), the replay loop tells the device every segment of it, in the order of the state; a mapped range
// of an expandable segment page by page (Info.PageBytes), and Unmap of whole pages gives those back.
type SegmentAdopter interface {
	// Adopt makes [addr, addr+size) memory that Malloc has returned; Free(addr) gives it back. CallInvalidValue when it
	// overlaps what is handed out already, CallOutOfMemory when the device is smaller than its segments.
	Adopt(addr, size uint64) trace.CallStatus
}
