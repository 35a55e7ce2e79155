package sdk

import (
	"slices"
	"sync"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// costs are what measuring costs in this process, in thousandths of a tick.
type costs struct {
	clock          clock.Info
	callMilliticks uint64 // what recording one device call adds to the time around it, beyond the call's own wall ticks
	loopMilliticks uint64 // what the loop adds to one event in batch mode
}

const (
	calibrationEvents = 2048 // one round; events of a strategy that does nothing
	calibrationRounds = 15   // the median of them counts
)

// calibratedCosts measures once a process: a few hundred microseconds beside the clock's own calibration.
var calibratedCosts = sync.OnceValue(func() costs {
	c := costs{clock: clock.Calibrated()}
	c.callMilliticks = measureCallCost(c.clock)
	c.loopMilliticks = measureLoopCost(c.clock)
	return c
})

// measureCallCost records pairs of malloc and free on a device that does nothing.
func measureCallCost(info clock.Info) uint64 {
	area := make([]trace.Call, 2*calibrationEvents)
	var log callLog
	_, d := newRecorder(nullDevice{}, &log, info)
	var rounds []uint64
	for range calibrationRounds {
		log.begin(area)
		log.enter(0)
		start := clock.Ticks()
		for i := range uint64(calibrationEvents) {
			d.Malloc(256)
			d.Free(i)
		}
		spent := clock.Ticks() - start
		var outside uint64
		if spent > log.wallTicks {
			outside = spent - log.wallTicks
		}
		rounds = append(rounds, outside*clock.MilliticksPerTick/(2*calibrationEvents))
	}
	return median(rounds)
}

// measureLoopCost runs allocs and frees of a strategy that does nothing, untimed.
func measureLoopCost(info clock.Info) uint64 {
	t := &trace.Trace{Strings: []string{""}, Streams: []uint64{0}, Pools: []string{"0:0"}, Slots: 1}
	for i := range calibrationEvents {
		ev := trace.Event{Kind: trace.KindAlloc, Handle: trace.Handle(i/2 + 1), Size: 256}
		if i%2 == 1 {
			ev.Kind = trace.KindFree
		}
		t.Events = append(t.Events, ev)
	}
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: calibrationEvents, CallCapacity: 1})
	if err != nil {
		return 0 // the geometry is a constant: it is valid
	}
	r := &Runner{config: RunnerConfig{Trace: t, Timing: TimingBatch}, strategy: nullStrategy{}, slots: make([]tenancy, 1), clock: info}
	var rounds []uint64
	for range calibrationRounds {
		r.next = 0
		w.Begin(0, 0, 0)
		r.run(w, 0, calibrationEvents)
		rounds = append(rounds, r.totals.loopTicks*clock.MilliticksPerTick/calibrationEvents)
	}
	return median(rounds)
}

func median(v []uint64) uint64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// nullStrategy does nothing, at no cost beyond the two interface calls.
type nullStrategy struct{}

func (nullStrategy) Alloc(r *Request, b *Block) trace.Status {
	b.Size = r.Size
	return trace.StatusOK
}
func (nullStrategy) Free(*Block, Stream) trace.Status { return trace.StatusOK }
func (nullStrategy) Close() error                     { return nil }

// nullBytes is small enough for a strategy to build its tables quickly and large enough for any default option.
const nullBytes = 1 << 30

// nullDevice answers every call and keeps nothing.
type nullDevice struct{}

func (nullDevice) Info() backends.Info {
	return backends.Info{Name: "null", TotalBytes: nullBytes, PageBytes: 2 << 20, Deterministic: true}
}
func (nullDevice) MemInfo() (uint64, uint64)                { return nullBytes, nullBytes }
func (nullDevice) Malloc(uint64) (uint64, trace.CallStatus) { return 2 << 20, trace.CallOK }
func (nullDevice) Free(uint64) trace.CallStatus             { return trace.CallOK }
func (nullDevice) NowNs() uint64                            { return 0 }
func (nullDevice) Close() error                             { return nil }

// discardLog takes notes and keeps none.
type discardLog struct{}

func (discardLog) Note(trace.Call) {}
