package wire

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// Window is the writer's view of a window. Its methods are called from one goroutine.
type Window struct {
	geometry Geometry
	head     *header
	outcomes []trace.Outcome
	calls    []trace.Call
	memory   []byte
	release  func([]byte) error // nil for ordinary memory
}

// NewWindow makes a window in ordinary memory: for loops in the same process.
func NewWindow(g Geometry) (*Window, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	words := make([]uint64, g.TotalBytes()/8) // of words, so that records are aligned
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), g.TotalBytes())
	writeGeometry(memory, g)
	return attach(memory, g, nil), nil
}

// writeGeometry fills line 0 of the header.
func writeGeometry(memory []byte, g Geometry) {
	h := headerOf(memory)
	h.magic = WindowMagic
	h.version = WindowVersion
	h.headerBytes = HeaderBytes
	h.totalBytes = g.TotalBytes()
	h.outcomeOffset = g.outcomeOffset()
	h.outcomeCapacity = g.OutcomeCapacity
	h.callOffset = g.callOffset()
	h.callCapacity = g.CallCapacity
	h.outcomeBytes = trace.OutcomeBytes
	h.callBytes = trace.CallBytes
}

// checkGeometry is the plugin's check of line 0 against what Open said.
func checkGeometry(memory []byte, g Geometry) error {
	if uint64(len(memory)) < g.TotalBytes() {
		return fmt.Errorf("%w: the file has %d bytes, %d outcomes and %d calls need %d", ErrWindow, len(memory), g.OutcomeCapacity,
			g.CallCapacity, g.TotalBytes())
	}
	h := headerOf(memory)
	switch {
	case h.magic != WindowMagic:
		return fmt.Errorf("%w: magic %#x, want %#x", ErrWindow, h.magic, WindowMagic)
	case h.version != WindowVersion:
		return fmt.Errorf("%w: layout version %d, this plugin writes %d", ErrWindow, h.version, WindowVersion)
	case h.headerBytes != HeaderBytes, h.outcomeBytes != trace.OutcomeBytes, h.callBytes != trace.CallBytes:
		return fmt.Errorf("%w: header, outcome and call of %d, %d and %d bytes, want %d, %d and %d", ErrWindow, h.headerBytes,
			h.outcomeBytes, h.callBytes, HeaderBytes, trace.OutcomeBytes, trace.CallBytes)
	case h.outcomeCapacity != g.OutcomeCapacity, h.callCapacity != g.CallCapacity, h.totalBytes != g.TotalBytes(),
		h.outcomeOffset != g.outcomeOffset(), h.callOffset != g.callOffset():
		return fmt.Errorf("%w: its header says %d outcomes and %d calls, Open said %d and %d", ErrWindow, h.outcomeCapacity,
			h.callCapacity, g.OutcomeCapacity, g.CallCapacity)
	}
	return nil
}

func headerOf(memory []byte) *header { return (*header)(unsafe.Pointer(&memory[0])) }

func attach(memory []byte, g Geometry, release func([]byte) error) *Window {
	return &Window{
		geometry: g,
		head:     headerOf(memory),
		outcomes: unsafe.Slice((*trace.Outcome)(unsafe.Pointer(&memory[g.outcomeOffset()])), g.OutcomeCapacity),
		calls:    unsafe.Slice((*trace.Call)(unsafe.Pointer(&memory[g.callOffset()])), g.CallCapacity),
		memory:   memory,
		release:  release,
	}
}

// Geometry returns the capacities.
func (w *Window) Geometry() Geometry { return w.geometry }

// Outcomes and Calls are the areas, whole. The writer fills them from the front.
func (w *Window) Outcomes() []trace.Outcome { return w.outcomes }

// Calls is the call-log area.
func (w *Window) Calls() []trace.Call { return w.calls }

// Reader returns a reader of the same memory, for loops in the same process.
func (w *Window) Reader() *Reader { return newReader(w.memory, w.geometry) }

// Close unmaps the window. Views of it must not be used any more.
func (w *Window) Close() error {
	memory, release := w.memory, w.release
	if memory == nil {
		return errors.New("window closed twice")
	}
	*w = Window{geometry: w.geometry}
	if release == nil {
		return nil
	}
	return release(memory)
}

// Begin starts a Replay: nothing is in the window.
func (w *Window) Begin(first, sequence uint64, flags HeaderFlags) {
	h := w.head
	h.calls = 0
	storeRelease(&h.progress, 0)
	h.first = first
	h.sequence = sequence
	h.flags = uint32(flags)
	h.reason = uint32(StopNone)
	storeState(&h.state, StateRunning)
}

// Publish makes the first n outcomes and the first calls call records visible. Everything in them is written already.
func (w *Window) Publish(n, calls uint64) {
	w.head.calls = calls
	storeRelease(&w.head.progress, n)
}

// Progress is the pair of words that Publish writes, for loops that publish after every event: Calls first, then StoreProgress.
type Progress struct{ head *header }

// Progress returns the counters of the window.
func (w *Window) Progress() Progress { return Progress{w.head} }

// SetCalls stores the number of call records. It becomes visible with the next Store.
func (p Progress) SetCalls(n uint64) { p.head.calls = n }

// Store makes the first n outcomes visible.
func (p Progress) Store(n uint64) { storeRelease(&p.head.progress, n) }

// Summary is what the plugin says about a whole Replay, beside the records.
type Summary struct {
	Reason             StopReason
	CallsWaiting       uint64 // call records that did not fit
	LoopTicks          uint64
	DeviceWallTicks    uint64
	DeviceNs           uint64
	DeviceCalls        uint64
	PolicySaturated    uint64
	DeviceSaturated    uint64
	Skipped            uint64
	Collections        uint64
	Clock              clock.Info
	CallCostMilliticks uint64 // of recording one device call
	LoopCostMilliticks uint64 // of the loop around one event
}

// End completes the Replay.
func (w *Window) End(s *Summary) {
	h := w.head
	h.reason = uint32(s.Reason)
	h.waiting = s.CallsWaiting
	h.loopTicks = s.LoopTicks
	h.deviceWallTicks = s.DeviceWallTicks
	h.deviceNs = s.DeviceNs
	h.deviceCalls = s.DeviceCalls
	h.policySaturated = s.PolicySaturated
	h.deviceSaturated = s.DeviceSaturated
	h.skipped = s.Skipped
	h.collections = s.Collections
	h.clockSource = uint32(s.Clock.Source)
	h.clockHz = s.Clock.FrequencyHz
	h.readCostMilliticks = s.Clock.ReadCostMilliticks
	h.callCostMilliticks = s.CallCostMilliticks
	h.loopCostMilliticks = s.LoopCostMilliticks
	storeState(&h.state, StateDone)
}

// Published returns the counters as they stand.
func (w *Window) Published() (outcomes, calls uint64) { return w.head.progress, w.head.calls }
