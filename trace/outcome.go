package trace

import (
	"errors"
	"fmt"
	"math"
)

// Status is what became of one event. The numbers are part of the wire form.
type Status uint8

// The statuses of an outcome. Recovered, Failed, Spilled and Refused are four different things: see docs/METHODOLOGY.md.
const (
	StatusOK          Status = 0 // done
	StatusRecovered   Status = 1 // done, but only after the strategy dropped caches, waited for frees or compacted
	StatusFailed      Status = 2 // out of memory
	StatusSpilled     Status = 3 // placed in host memory instead
	StatusRefused     Status = 4 // refused by policy (a limit, an impossible size), the device was not asked or not at fault
	StatusSkipped     Status = 5 // not executed: its handle has no live block because the alloc failed
	StatusUnsupported Status = 6 // the strategy has no such operation
	StatusInvalid     Status = 7 // the strategy detected a wrong call (double free, unknown address) and did nothing
	StatusError       Status = 8 // the strategy or device broke in a way that is not out-of-memory
	statusCount       Status = 9
)

var statusNames = [statusCount]string{"ok", "recovered", "failed", "spilled", "refused", "skipped", "unsupported", "invalid", "error"}

// String returns the lower-case word used in JSON and text.
func (s Status) String() string {
	if s < statusCount {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Placed reports whether the event ended with a block at an address.
func (s Status) Placed() bool { return s == StatusOK || s == StatusRecovered || s == StatusSpilled }

// OutcomeFlags qualify an Outcome.
type OutcomeFlags uint8

// The outcome flags.
const (
	OutcomePolicyTimeSaturated OutcomeFlags = 1 << 0 // PolicyTicks did not fit and is the maximum
	OutcomeDeviceTimeSaturated OutcomeFlags = 1 << 1 // DeviceNs did not fit and is the maximum
	OutcomeNotTimed            OutcomeFlags = 1 << 2 // no per-event clock was read: PolicyTicks is 0 and means nothing
)

// Outcome is what happened at one event: 32 bytes, little endian, in the order of the events. The calls that the strategy
// made during the event lie in the call log.
type Outcome struct {
	Status      Status       // byte 0
	Flags       OutcomeFlags // byte 1
	Calls       uint16       // bytes 2–3: records this event added to the call log; 65535 = that or more
	PolicyTicks uint32       // bytes 4–7: time in the strategy without its device calls, in ticks of the plugin's clock
	Addr        uint64       // bytes 8–15: address of the block (alloc, realloc), else 0
	Granted     uint64       // bytes 16–23: bytes the block really holds (alloc, realloc), else 0
	DeviceNs    uint32       // bytes 24–27: time of the device calls, on the device's clock, in ns
	Feature     uint32       // bytes 28–31: free for the strategy: a number that tells abstract states apart (fuzzing)
}

// OutcomeBytes is the size of one Outcome on the wire.
const OutcomeBytes = 32

// CallKind says what a record of the call log is: a device call, or a statement of the strategy about one of its blocks.
type CallKind uint8

// The kinds of call-log records. Fields that are not named are 0.
const (
	CallNone        CallKind = 0
	CallMalloc      CallKind = 1  // Size asked, Addr answered
	CallFree        CallKind = 2  // Addr, Size as answered at malloc (0 if unknown to the device)
	CallReserve     CallKind = 3  // virtual range: Size, Addr
	CallUnreserve   CallKind = 4  // Addr, Size
	CallCreate      CallKind = 5  // physical memory: Size; Aux = physical handle
	CallRelease     CallKind = 6  // Aux = physical handle
	CallMap         CallKind = 7  // Addr, Size; Aux = physical handle (mapped from its offset 0)
	CallUnmap       CallKind = 8  // Addr, Size
	CallSetAccess   CallKind = 9  // Addr, Size
	CallEventRecord CallKind = 10 // Stream; Aux = event
	CallEventQuery  CallKind = 11 // Aux = event; Status CallOK = complete, CallNotReady = not yet
	CallEventWait   CallKind = 12 // the host waits: Aux = event
	CallStreamWait  CallKind = 13 // Stream waits on the device for event Aux
	CallStreamSync  CallKind = 14 // the host waits for Stream
	CallDeviceSync  CallKind = 15 // the host waits for everything
	CallMemInfo     CallKind = 16 // Addr = free bytes, Size = total bytes
	CallHostMalloc  CallKind = 17 // pinned host memory: Size, Addr (host address space)
	CallHostFree    CallKind = 18 // Addr
	CallCopy        CallKind = 19 // Size bytes from Aux to Addr
	CallManaged     CallKind = 20 // managed memory: Size, Addr
	CallTouch       CallKind = 21 // Addr, Size
	CallPrefetch    CallKind = 22 // Addr, Size

	// Statements about blocks; no device call stands behind them.
	CallMove       CallKind = 64 // a live block moved: Aux = old address, Addr = new address, Size = its granted bytes
	CallExtent     CallKind = 65 // the block of this event also owns [Addr, Addr+Size), further extents of it
	CallShare      CallKind = 66 // the block of this event shares [Addr, Addr+Size) with the block at address Aux
	CallSpill      CallKind = 67 // the live block at Aux now lives in host memory at Addr
	CallUnspill    CallKind = 68 // the block in host memory at Aux lives on the device again, at Addr
	CallCheckpoint CallKind = 69 // the layout was saved; Aux = string index of the name
	CallDropped    CallKind = 70 // the live block at Addr ceased to exist by reset or restore
)

// CallStatus is the result of a device call.
type CallStatus uint8

// The results of device calls. Names follow the CUDA driver API's error codes where one exists.
const (
	CallOK           CallStatus = 0
	CallOutOfMemory  CallStatus = 1 // CUDA_ERROR_OUT_OF_MEMORY
	CallInvalidValue CallStatus = 2 // CUDA_ERROR_INVALID_VALUE: unknown address, bad size
	CallNotSupported CallStatus = 3 // CUDA_ERROR_NOT_SUPPORTED
	CallNotReady     CallStatus = 4 // CUDA_ERROR_NOT_READY
	CallDeviceLost   CallStatus = 5 // CUDA_ERROR_DEVICE_UNAVAILABLE and the like: nothing will work any more
	CallHung         CallStatus = 6 // gave up after the deadline
	CallInjected     CallStatus = 7 // failed on purpose (fault decorator, fail-next)
	CallBroken       CallStatus = 8 // the device broke its contract (transport gone, nonsense answer)
)

var errCall = [...]error{nil,
	errors.New("out of memory"), errors.New("invalid value"), errors.New("not supported by this device"),
	errors.New("not ready"), errors.New("device lost"), errors.New("device call hung"), errors.New("injected failure"),
	errors.New("device broken")}

// Err returns nil for CallOK and otherwise one fixed error a status, comparable with errors.Is against ErrOf.
func (s CallStatus) Err() error {
	if int(s) < len(errCall) {
		return errCall[s]
	}
	return fmt.Errorf("device call status %d", uint8(s))
}

// OutOfMemory reports whether the strategy should treat the result as "no memory": a real or an injected shortage.
func (s CallStatus) OutOfMemory() bool { return s == CallOutOfMemory || s == CallInjected }

// Call is one record of the call log: 48 bytes, little endian. The records of an event are written before its outcome.
type Call struct {
	Event     uint64     // bytes 0–7: index of the event, or EventOpen, EventRestore, EventClose
	Kind      CallKind   // byte 8
	Status    CallStatus // byte 9
	Flags     uint16     // bytes 10–11: reserved, 0
	Stream    uint32     // bytes 12–15
	Addr      uint64     // bytes 16–23
	Size      uint64     // bytes 24–31
	Aux       uint64     // bytes 32–39
	DeviceNs  uint32     // bytes 40–43: on the device's clock, saturating
	WallTicks uint32     // bytes 44–47: real time of the call in ticks of the plugin's clock, saturating
}

// CallBytes is the size of one Call on the wire.
const CallBytes = 48

// Pseudo event indexes of calls made outside any event.
const (
	EventOpen    uint64 = math.MaxUint64     // while the strategy was opened
	EventRestore uint64 = math.MaxUint64 - 1 // while a start state was restored
	EventClose   uint64 = math.MaxUint64 - 2 // while it was closed
)
