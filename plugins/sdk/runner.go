package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// Errors of a runner, for errors.Is.
var (
	ErrWrongEvent  = errors.New("wrong next event")                 // Replay was asked for another event than the next one
	ErrBadTrace    = errors.New("trace cannot be replayed")         // an index of an event lies outside its table
	ErrClosed      = errors.New("the strategy is closed")           // nothing but draining is possible any more
	ErrNoRestore   = errors.New("start state cannot be taken over") // strategy or device lacks the interface
	ErrNoInspect   = errors.New("strategy cannot be inspected")
	ErrBrokenBlock = errors.New("strategy broke its contract")
	ErrSegment     = errors.New("device refused a segment of the start state")
)

// Timing says where the loop reads the clock.
type Timing uint8

// The timing modes.
const (
	// TimingPerEvent reads the clock before and after each event.
	TimingPerEvent Timing = iota
	// TimingBatch reads it at the ends of the loop and around device calls only. Outcomes carry OutcomeNotTimed; the mean of
	// the policy time follows from the summary of the window.
	TimingBatch
)

// RunnerConfig is what a runner needs.
type RunnerConfig struct {
	Strategy   *Description
	Options    json.RawMessage                 // checked by the caller (CheckOptions); nil = {}
	OpenDevice func() (backends.Device, error) // called at the start, and at Reset of a device without backends.Resetter
	Trace      *trace.Trace                    // its tables go to the strategy; its events are what Replay runs
	Capacity   uint64                          // Env.CapacityBytes; 0 = the device's total
	Seed       uint64
	Timing     Timing
	Quiet      bool   // keep the garbage collector off and the thread locked during Replay; programs do without
	MemoryMax  uint64 // bytes the process may have, for Quiet: the collector comes back at 80 % of it; 0 = what the system gives
	CloseFully bool   // pass what a closing strategy gives back on to the device even if it is reset next, so that it sees leaks
}

// Runner is one strategy open over one device, and the loop that runs events through it. Its methods are called from one
// goroutine at a time; with a CUDA device always from the same locked one.
//
// The same code runs inside a plugin process and inside tests, fuzzers and benchmarks; only the memory of the window
// differs.
type Runner struct {
	config   RunnerConfig
	device   backends.Device
	recorder *recorder
	strategy Strategy
	uses     uses
	control  controls
	log      callLog
	slots    []tenancy
	saved    map[uint32][]tenancy
	next     uint64 // event to execute next
	checked  uint64 // events below it were found to be sound
	pending  *trace.Outcome
	held     trace.Outcome // what pending points to
	sequence uint64
	manual   bool
	restored bool
	feature  Featurer
	clock    clock.Info
	callCost uint64 // milliticks
	loopCost uint64 // milliticks
	request  Request
	move     map[uint64]uint32 // scratch of follow
	totals   totals
}

// tenancy is an entry of the slot table: who was there last, and whether it still is.
type tenancy struct {
	block  Block
	handle trace.Handle
	live   bool
}

// uses are the optional interfaces of the strategy, nil where missing.
type uses struct {
	user        StreamUser
	waiter      StreamWaiter
	completer   Completer
	destroyer   StreamDestroyer
	trimmer     Trimmer
	pools       PoolRouter
	setter      Setter
	marker      Marker
	reallocer   Reallocer
	wrongFreer  WrongFreer
	resetter    Resetter
	checkpoints Checkpointer
	defrag      Defragmenter
	restorer    LayoutRestorer
	inspector   Inspector
}

// controls are the optional interfaces of the device that the loop drives, nil where missing.
type controls struct {
	streams backends.Streams
	control backends.StreamControl
	clocked backends.Clocked
	faults  backends.FaultInjector
	reset   backends.Resetter
	answers backends.RecordedAnswers
	adopter backends.SegmentAdopter
}

// NewRunner opens the device and the strategy.
func NewRunner(c RunnerConfig) (*Runner, error) {
	if c.Trace == nil {
		c.Trace = &trace.Trace{Strings: []string{""}, Streams: []uint64{0}, Pools: []string{"0:0"}}
	}
	if len(c.Options) == 0 {
		c.Options = json.RawMessage("{}")
	}
	if c.Quiet {
		limitMemory(c.MemoryMax)
	}
	costs := calibratedCosts()
	r := &Runner{config: c, clock: costs.clock, callCost: costs.callMilliticks, loopCost: costs.loopMilliticks}
	if err := r.openDevice(); err != nil {
		return nil, err
	}
	if err := r.openStrategy(); err != nil {
		return nil, errors.Join(err, r.device.Close())
	}
	return r, nil
}

func (r *Runner) openDevice() error {
	d, err := r.config.OpenDevice()
	if err != nil {
		return err
	}
	r.device, r.control = d, controlsOf(d)
	return nil
}

func controlsOf(d backends.Device) controls {
	return controls{
		streams: capabilityOf[backends.Streams](d, CapStreams),
		control: capabilityOf[backends.StreamControl](d, CapStreamControl),
		clocked: capabilityOf[backends.Clocked](d, CapClocked),
		faults:  capabilityOf[backends.FaultInjector](d, CapFaultInjector),
		reset:   capabilityOf[backends.Resetter](d, CapDeviceReset),
		answers: capabilityOf[backends.RecordedAnswers](d, CapRecordedAnswers),
		adopter: capabilityOf[backends.SegmentAdopter](d, CapSegmentAdopter),
	}
}

// openStrategy opens the strategy over the open device and forgets every block.
func (r *Runner) openStrategy() error {
	t := r.config.Trace
	r.log.enter(trace.EventOpen)
	var seen backends.Device
	r.recorder, seen = newRecorder(r.device, &r.log, r.clock)
	capacity := r.config.Capacity
	if capacity == 0 {
		capacity = r.device.Info().TotalBytes
	}
	s, err := r.config.Strategy.New(&Env{
		Device: seen, CapacityBytes: capacity, Options: r.config.Options, Seed: r.config.Seed,
		Streams: t.Streams, Pools: t.Pools, Strings: t.Strings, Log: &r.log,
	})
	if err != nil {
		return fmt.Errorf("opening %s: %w", r.config.Strategy.Name, err)
	}
	r.strategy = s
	r.feature, _ = s.(Featurer)
	r.uses = usesOf(s)
	if uint64(cap(r.slots)) < uint64(t.Slots) {
		r.slots = make([]tenancy, t.Slots)
	} else {
		r.slots = r.slots[:t.Slots]
		clear(r.slots)
	}
	r.saved = nil
	r.next, r.pending, r.sequence, r.manual, r.restored = 0, nil, 0, false, false
	return nil
}

func usesOf(s Strategy) (u uses) {
	u.user, _ = s.(StreamUser)
	u.waiter, _ = s.(StreamWaiter)
	u.completer, _ = s.(Completer)
	u.destroyer, _ = s.(StreamDestroyer)
	u.trimmer, _ = s.(Trimmer)
	u.pools, _ = s.(PoolRouter)
	u.setter, _ = s.(Setter)
	u.marker, _ = s.(Marker)
	u.reallocer, _ = s.(Reallocer)
	u.wrongFreer, _ = s.(WrongFreer)
	u.resetter, _ = s.(Resetter)
	u.checkpoints, _ = s.(Checkpointer)
	u.defrag, _ = s.(Defragmenter)
	u.restorer, _ = s.(LayoutRestorer)
	u.inspector, _ = s.(Inspector)
	return u
}

// Device returns the open device, undecorated.
func (r *Runner) Device() backends.Device { return r.device }

// Strategy returns the open strategy.
func (r *Runner) Strategy() Strategy { return r.strategy }

// Next returns the index of the first event whose outcome has not been delivered.
func (r *Runner) Next() uint64 {
	if r.pending != nil {
		return r.next - 1
	}
	return r.next
}

// CallsWaiting returns the number of call records that the next window will bring.
func (r *Runner) CallsWaiting() uint64 { return uint64(len(r.log.spill)) }

// Clock returns the clock of this process and the calibrated costs, in thousandths of a tick, of recording one device call
// and of the loop around one event.
func (r *Runner) Clock() (info clock.Info, callCostMilliticks, loopCostMilliticks uint64) {
	return r.clock, r.callCost, r.loopCost
}

// Restore takes over the start state of the trace: the device is told its segments, the strategy its blocks. It must come
// before the first event. A trace without a start state is left alone.
func (r *Runner) Restore() error {
	start := r.config.Trace.Start
	switch {
	case r.strategy == nil:
		return ErrClosed
	case r.next != 0 || r.restored:
		return fmt.Errorf("%w: a start state must come before the first event", ErrWrongEvent)
	case start == nil:
		return nil
	case r.uses.restorer == nil:
		return fmt.Errorf("%w: %s has no restore", ErrNoRestore, r.config.Strategy.Name)
	case r.control.adopter == nil:
		return fmt.Errorf("%w: the device %s cannot be told its segments", ErrNoRestore, r.device.Info().Name)
	}
	r.log.enter(trace.EventRestore)
	for i := range start.Segments {
		s := &start.Segments[i]
		if st := r.adopt(s); st != trace.CallOK {
			return fmt.Errorf("%w: segment %d, %d bytes at %#x: %w", ErrSegment, i, s.Bytes, s.Addr, st.Err())
		}
	}
	owners := make(map[uint32]trace.Handle)
	for i := range start.Segments {
		for _, b := range start.Segments[i].Blocks {
			if b.Handle != 0 && !b.Pending { // a pending block is the program's no more
				owners[b.Slot] = b.Handle
			}
		}
	}
	var placed error
	err := r.uses.restorer.RestoreLayout(start, func(slot uint32, b Block) {
		h, known := owners[slot]
		if !known || uint64(slot) >= uint64(len(r.slots)) {
			placed = fmt.Errorf("%w: it placed a block in slot %d, where the start state has none", ErrBrokenBlock, slot)
			return
		}
		delete(owners, slot)
		r.slots[slot] = tenancy{block: b, handle: h, live: true}
	})
	if err = errors.Join(err, placed); err != nil {
		return fmt.Errorf("restoring the start state: %w", err)
	}
	if len(owners) != 0 {
		return fmt.Errorf("%w: %d live blocks of the start state were not placed", ErrBrokenBlock, len(owners))
	}
	r.restored = true
	return nil
}

// adopt tells the device a segment of the start state. Mapped ranges are told page by page and without a record: the call log
// has no physical memory to name, and the reader of the log knows them from the start state.
func (r *Runner) adopt(s *trace.StateSegment) trace.CallStatus {
	if !s.Expandable {
		return r.recorder.adopt(r.control.adopter, s.Addr, s.Bytes)
	}
	page := max(r.device.Info().PageBytes, 1)
	for done := uint64(0); done < s.Bytes; done += page {
		if st := r.control.adopter.Adopt(s.Addr+done, min(page, s.Bytes-done)); st != trace.CallOK {
			return st
		}
	}
	return trace.CallOK
}

// Reset returns strategy and device to the state after NewRunner, including the start state if it was taken over. The
// strategy is closed and opened again, and so is a device that cannot reset itself. Records that wait, and those of the closing, are
// dropped: the next window begins a new history, with the records of the opening.
func (r *Runner) Reset() error { return r.restart(r.config.Trace, r.restored) }

// restart is Reset with another trace.
func (r *Runner) restart(t *trace.Trace, restore bool) error {
	if r.strategy == nil {
		return ErrClosed
	}
	r.log.enter(trace.EventClose)
	if r.control.reset != nil && !r.config.CloseFully {
		r.recorder.forgetful()
	}
	if err := r.closeStrategy(); err != nil {
		return err
	}
	r.log.spill = r.log.spill[:0]
	if r.control.reset != nil {
		r.control.reset.Reset()
	} else {
		if err := r.device.Close(); err != nil {
			return fmt.Errorf("closing the device: %w", err)
		}
		if err := r.openDevice(); err != nil {
			return err
		}
	}
	if t != r.config.Trace {
		r.config.Trace, r.checked = t, 0
	}
	if err := r.openStrategy(); err != nil {
		return err
	}
	if restore {
		return r.Restore()
	}
	return nil
}

// proceed goes on from the present state with the events of another trace.
func (r *Runner) proceed(t *trace.Trace) {
	r.config.Trace, r.checked, r.next, r.pending = t, 0, 0, nil
	if missing := int(t.Slots) - len(r.slots); missing > 0 {
		r.slots = append(r.slots, make([]tenancy, missing)...)
	}
}

func (r *Runner) closeStrategy() error {
	s := r.strategy
	r.strategy, r.uses, r.feature = nil, uses{}, nil
	if err := s.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", r.config.Strategy.Name, err)
	}
	return nil
}

// Close closes the strategy and the device. Records of what the strategy did then wait for Replay with max 0.
func (r *Runner) Close() error {
	if r.strategy == nil {
		return nil
	}
	r.log.enter(trace.EventClose)
	err := r.closeStrategy()
	return errors.Join(err, r.device.Close())
}

// Inspect returns the strategy's picture of itself.
func (r *Runner) Inspect() (Inspection, error) {
	switch {
	case r.strategy == nil:
		return Inspection{}, ErrClosed
	case r.uses.inspector == nil:
		return Inspection{}, fmt.Errorf("%w: %s", ErrNoInspect, r.config.Strategy.Name)
	}
	return r.uses.inspector.Inspect(), nil
}

// Replay runs the next events of the trace, at most max, into the window, and returns the summary that it also leaves in
// the header. first must be Next(). With max 0 it delivers waiting call records only, also after Close.
func (r *Runner) Replay(w *wire.Window, first, max uint64, warmUp bool) (wire.Summary, error) {
	if first != r.Next() {
		return wire.Summary{}, fmt.Errorf("%w: asked for event %d, the next is %d", ErrWrongEvent, first, r.Next())
	}
	if r.strategy == nil && max != 0 {
		return wire.Summary{}, ErrClosed
	}
	var flags wire.HeaderFlags
	if warmUp {
		flags |= wire.HeaderWarmUp
	}
	if r.config.Timing == TimingBatch {
		flags |= wire.HeaderNotTimed
	}
	end := uint64(len(r.config.Trace.Events))
	if left := end - r.next; max > left+1 {
		max = left + 1 // a pending outcome counts too; also keeps first + max from overflowing
	}
	if err := r.checkEvents(min(r.next+max, end, r.next+uint64(len(w.Outcomes())))); err != nil {
		return wire.Summary{}, err
	}
	w.Begin(first, r.sequence, flags)
	r.sequence++
	r.totals = totals{}
	done, collections := r.window(w, max)
	s := wire.Summary{
		Reason: wire.StopMax, CallsWaiting: r.CallsWaiting(),
		LoopTicks: r.totals.loopTicks, DeviceWallTicks: r.totals.deviceWall, DeviceNs: r.totals.deviceNs, DeviceCalls: r.totals.deviceCalls,
		PolicySaturated: r.totals.policySaturated, DeviceSaturated: r.totals.deviceSaturated, Skipped: r.totals.skipped,
		Collections: collections, Clock: r.clock, CallCostMilliticks: r.callCost, LoopCostMilliticks: r.loopCost,
	}
	switch {
	case r.pending != nil, len(r.log.spill) != 0:
		s.Reason = wire.StopAreaFull
	case r.next == end:
		s.Reason = wire.StopEnd
	case done == uint64(len(w.Outcomes())) && done < max:
		s.Reason = wire.StopAreaFull
	}
	w.End(&s)
	r.log.end()
	return s, nil
}

// window fills one window and returns the number of outcomes in it.
func (r *Runner) window(w *wire.Window, max uint64) (done, collections uint64) {
	whole := r.log.begin(w.Calls())
	w.Publish(0, uint64(r.log.n))
	if !whole || max == 0 {
		return 0, 0
	}
	if r.pending != nil {
		r.count(r.pending)
		w.Outcomes()[0] = *r.pending
		r.pending = nil
		done = 1
		w.Publish(1, uint64(r.log.n))
	}
	n := min(max, uint64(len(w.Outcomes()))) - done
	n = min(n, uint64(len(r.config.Trace.Events))-r.next, math.MaxInt32)
	if n == 0 {
		return done, 0
	}
	if !r.config.Quiet {
		return done + r.run(w, done, n), 0
	}
	q := quieten()
	ran := r.run(w, done, n)
	return done + ran, q.restore()
}
