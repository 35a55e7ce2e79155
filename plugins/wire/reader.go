package wire

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// Reader is the harness's view of a window. It keeps its own copy of the geometry and believes the plugin nothing that it
// can check: a counter beyond the area, a state, reason or flag that does not exist, a first event that is not the expected
// one, are ErrLied. The record areas stay writable for the plugin, so a reader of records checks each after copying it.
type Reader struct {
	geometry Geometry
	head     *header
	outcomes []trace.Outcome
	calls    []trace.Call
	memory   []byte
	release  func([]byte) error
}

func newReader(memory []byte, g Geometry) *Reader {
	w := attach(memory, g, nil)
	return &Reader{geometry: g, head: w.head, outcomes: w.outcomes, calls: w.calls, memory: memory}
}

// Geometry returns the capacities.
func (r *Reader) Geometry() Geometry { return r.geometry }

// Progress returns how many outcomes of the Replay in progress, or of the last one, are complete, and the index of its
// first event: the event being executed, or the one that killed the plugin, is first + done. ok is false when the header
// is nonsense. It may be called at any time from any goroutine.
func (r *Reader) Progress() (first, done uint64, running, ok bool) {
	done = atomic.LoadUint64(&r.head.progress)
	first = atomic.LoadUint64(&r.head.first)
	state := State(atomic.LoadUint32(&r.head.state))
	return first, done, state == StateRunning, done <= r.geometry.OutcomeCapacity && state < stateCount
}

// Drained is what lies in a window after a Replay. The record views are valid until the next Replay.
type Drained struct {
	First    uint64 // index of the event of Outcomes[0]
	Sequence uint64
	Flags    HeaderFlags
	Outcomes []trace.Outcome
	Calls    []trace.Call
	Complete bool    // the Replay ended; otherwise the plugin died in it and Summary is empty
	Summary  Summary // the plugin's word, checked for being possible
}

// Drain returns the records of the last Replay. first is the event that was asked for. After a crash it returns the valid
// prefix with Complete false; the calls then may include some of the event that was being executed.
func (r *Reader) Drain(first uint64) (Drained, error) {
	h := r.head
	done := atomic.LoadUint64(&h.progress)
	calls := atomic.LoadUint64(&h.calls)
	state := State(atomic.LoadUint32(&h.state))
	d := Drained{
		First:    atomic.LoadUint64(&h.first),
		Sequence: atomic.LoadUint64(&h.sequence),
		Flags:    HeaderFlags(atomic.LoadUint32(&h.flags)),
		Complete: state == StateDone,
	}
	switch {
	case state >= stateCount:
		return Drained{}, fmt.Errorf("%w: state %d", ErrLied, state)
	case done > r.geometry.OutcomeCapacity:
		return Drained{}, fmt.Errorf("%w: %d outcomes in an area of %d", ErrLied, done, r.geometry.OutcomeCapacity)
	case calls > r.geometry.CallCapacity:
		return Drained{}, fmt.Errorf("%w: %d call records in an area of %d", ErrLied, calls, r.geometry.CallCapacity)
	case state != StateIdle && d.First != first:
		return Drained{}, fmt.Errorf("%w: the window begins with event %d, asked was %d", ErrLied, d.First, first)
	case d.Flags&^(HeaderWarmUp|HeaderNotTimed) != 0:
		return Drained{}, fmt.Errorf("%w: flags %#x", ErrLied, uint32(d.Flags))
	}
	d.Outcomes = r.outcomes[:done:done]
	d.Calls = r.calls[:calls:calls]
	if !d.Complete {
		return d, nil
	}
	s, err := r.summary(done)
	if err != nil {
		return Drained{}, err
	}
	d.Summary = s
	return d, nil
}

// summary loads the rest of the header once and refuses what cannot be.
func (r *Reader) summary(done uint64) (Summary, error) {
	h := *r.head // one copy: the plugin may go on writing
	s := Summary{
		Reason:          StopReason(h.reason),
		CallsWaiting:    h.waiting,
		LoopTicks:       h.loopTicks,
		DeviceWallTicks: h.deviceWallTicks,
		DeviceNs:        h.deviceNs,
		DeviceCalls:     h.deviceCalls,
		PolicySaturated: h.policySaturated,
		DeviceSaturated: h.deviceSaturated,
		Skipped:         h.skipped,
		Collections:     h.collections,
		Clock: clock.Info{Source: clock.Source(h.clockSource), FrequencyHz: h.clockHz,
			ReadCostMilliticks: h.readCostMilliticks},
		CallCostMilliticks: h.callCostMilliticks,
		LoopCostMilliticks: h.loopCostMilliticks,
	}
	switch {
	case s.Reason == StopNone || s.Reason >= stopCount:
		return Summary{}, fmt.Errorf("%w: stop reason %d", ErrLied, h.reason)
	case s.PolicySaturated > done, s.DeviceSaturated > done, s.Skipped > done:
		return Summary{}, fmt.Errorf("%w: %d, %d saturated and %d skipped of %d outcomes", ErrLied, s.PolicySaturated,
			s.DeviceSaturated, s.Skipped, done)
	case s.Clock.FrequencyHz < minClockHz || s.Clock.FrequencyHz > maxClockHz:
		return Summary{}, fmt.Errorf("%w: a clock of %d Hz", ErrLied, s.Clock.FrequencyHz)
	case s.DeviceWallTicks > s.LoopTicks:
		return Summary{}, fmt.Errorf("%w: %d ticks in device calls of a loop of %d", ErrLied, s.DeviceWallTicks, s.LoopTicks)
	case s.Reason == StopEnd && s.CallsWaiting != 0:
		return Summary{}, fmt.Errorf("%w: the trace has ended with %d call records waiting", ErrLied, s.CallsWaiting)
	}
	return s, nil
}

// A clock outside these bounds is a mistake of the plugin: slower ones cannot resolve an event, faster ones do not exist.
const (
	minClockHz = 1e6
	maxClockHz = 1e11
)

// Close unmaps the reader's view of a memory file; it does nothing on ordinary memory.
func (r *Reader) Close() error {
	memory, release := r.memory, r.release
	*r = Reader{geometry: r.geometry}
	if memory == nil || release == nil {
		return nil
	}
	return release(memory)
}

func storeState(p *uint32, s State) { atomic.StoreUint32(p, uint32(s)) }

// address returns where the window lies, for the tests of alignment.
func (r *Reader) address() uintptr { return uintptr(unsafe.Pointer(r.head)) }
