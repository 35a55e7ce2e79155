package wire

import (
	"unsafe"

	"github.com/gpubench/gpubench/trace"
)

// Layout of a window. docs/PLUGINS.md has the same table with every byte.
const (
	WindowMagic   uint64 = 0x574f444e49574247 // the bytes "GBWINDOW"
	WindowVersion uint32 = 1
	HeaderBytes          = 4096 // one page, so that the areas can be mapped on their own
)

// State is what the writer of a window is doing.
type State uint32

// The states of a window.
const (
	StateIdle    State = 0 // drained, or never used
	StateRunning State = 1 // a Replay is in progress; only the progress counter says how far
	StateDone    State = 2 // the Replay has ended and the header is complete
	stateCount   State = 3
)

// StopReason says why a Replay ended. The numbers are those of the protobuf enum.
type StopReason uint32

// The reasons to stop.
const (
	StopNone     StopReason = 0
	StopMax      StopReason = 1 // the events asked for are done
	StopAreaFull StopReason = 2 // outcome or call area is full: drain and ask again
	StopEnd      StopReason = 3 // the trace has ended and every record was delivered
	stopCount    StopReason = 4
)

var stopNames = [stopCount]string{"none", "max", "area full", "end"}

// String returns the words used in text and errors.
func (r StopReason) String() string {
	if r < stopCount {
		return stopNames[r]
	}
	return "unknown"
}

// HeaderFlags qualify a window.
type HeaderFlags uint32

// The header flags.
const (
	HeaderWarmUp   HeaderFlags = 1 << 0 // the request said warm-up
	HeaderNotTimed HeaderFlags = 1 << 1 // timing mode batch: no clock was read around events
)

// header is the first page of a window as it lies in memory. Every line of 64 bytes has one writer and one purpose, so that
// the harness, which polls the second line, disturbs the writer as little as possible.
type header struct {
	// Line 0: written by the harness when it creates the window, checked by the plugin.
	magic           uint64 // byte 0
	version         uint32 // byte 8
	headerBytes     uint32 // byte 12
	totalBytes      uint64 // byte 16
	outcomeOffset   uint64 // byte 24
	outcomeCapacity uint64 // byte 32: records
	callOffset      uint64 // byte 40
	callCapacity    uint64 // byte 48: records
	outcomeBytes    uint32 // byte 56
	callBytes       uint32 // byte 60

	// Line 1: written by the plugin after each event.
	progress uint64 // byte 64: outcomes complete in this window; stored with release semantics
	calls    uint64 // byte 72: call records complete in this window; stored before progress
	_        [48]byte

	// Line 2: written by the plugin at the start (state, flags, sequence, first) and the end of a Replay.
	state    uint32 // byte 128
	reason   uint32 // byte 132
	flags    uint32 // byte 136
	_        uint32
	sequence uint64 // byte 144: number of Replays before this one, since Open
	first    uint64 // byte 152: index of the event of outcome 0
	waiting  uint64 // byte 160: call records that did not fit and come with the next window
	_        [24]byte

	// Line 3: written by the plugin at the end of a Replay.
	loopTicks       uint64 // byte 192: of the timed loop
	deviceWallTicks uint64 // byte 200: of that, inside device calls
	deviceNs        uint64 // byte 208: sum of the device times
	deviceCalls     uint64 // byte 216: device calls (records of kind < 64) made by the loop of this window
	policySaturated uint64 // byte 224: outcomes with OutcomePolicyTimeSaturated
	deviceSaturated uint64 // byte 232: outcomes with OutcomeDeviceTimeSaturated
	skipped         uint64 // byte 240: outcomes with StatusSkipped
	collections     uint64 // byte 248: garbage collections during the loop

	// Line 4: the clock, written by the plugin at the end of a Replay.
	clockSource        uint32 // byte 256: clock.Source
	_                  uint32
	clockHz            uint64 // byte 264
	readCostMilliticks uint64 // byte 272
	callCostMilliticks uint64 // byte 280
	loopCostMilliticks uint64 // byte 288
	_                  [24]byte
	_                  [HeaderBytes - 320]byte
}

// The layouts are part of the contract: a change of a Go struct must not change them silently.
const (
	_ = uint(HeaderBytes-unsafe.Sizeof(header{})) + uint(unsafe.Sizeof(header{})-HeaderBytes)
	_ = uint(trace.OutcomeBytes-unsafe.Sizeof(trace.Outcome{})) + uint(unsafe.Sizeof(trace.Outcome{})-trace.OutcomeBytes)
	_ = uint(trace.CallBytes-unsafe.Sizeof(trace.Call{})) + uint(unsafe.Sizeof(trace.Call{})-trace.CallBytes)
	_ = uint(trace.EventBytes-unsafe.Sizeof(trace.Event{})) + uint(unsafe.Sizeof(trace.Event{})-trace.EventBytes)
	_ = uint(trace.ExtraBytes-unsafe.Sizeof(trace.Extra{})) + uint(unsafe.Sizeof(trace.Extra{})-trace.ExtraBytes)
	_ = uint(trace.RecordedBytes-unsafe.Sizeof(trace.Recorded{})) + uint(unsafe.Sizeof(trace.Recorded{})-trace.RecordedBytes)
)
