package sdk

import (
	"math"

	"github.com/gpubench/gpubench/trace"
)

// callLog gathers the records of the call log. They go into the call area of the current window; what does not fit goes
// into spill, in order, and is delivered at the beginning of the next windows. Outside of windows (while a strategy is opened, reset or
// closed) the area is empty and everything is spilled. In the steady state nothing is allocated.
type callLog struct {
	area  []trace.Call
	n     int // records in area
	spill []trace.Call

	event uint64 // index of the event being executed, or a pseudo event

	// Of the event being executed.
	start       int    // n when it began
	made        int    // records added
	wallTicks   uint64 // inside device calls
	deviceNs    uint64
	deviceCalls uint64
	moved       bool // a live block has moved, changed its home or the like
}

// begin gives the log the call area of a window and moves into it what waits. It reports whether everything fitted.
func (l *callLog) begin(area []trace.Call) bool {
	l.area = area
	l.n = copy(area, l.spill)
	rest := copy(l.spill, l.spill[l.n:])
	l.spill = l.spill[:rest]
	return rest == 0
}

// end takes the area away.
func (l *callLog) end() { l.area, l.n = nil, 0 }

// enter starts an event.
func (l *callLog) enter(event uint64) {
	l.event = event
	l.start = l.n
	l.made, l.wallTicks, l.deviceNs, l.deviceCalls, l.moved = 0, 0, 0, 0, false
}

// add appends a record; Event is filled in.
func (l *callLog) add(c *trace.Call) {
	c.Event = l.event
	l.made++
	if l.n < len(l.area) && len(l.spill) == 0 {
		l.area[l.n] = *c
		l.n++
		return
	}
	l.spill = append(l.spill, *c)
}

// retract moves the records of the current event that lie in the area in front of those that were spilled, so that the
// window ends with whole events. An event that began at the front of the area keeps its part there: it is delivered over
// several windows.
func (l *callLog) retract() {
	if l.start == 0 || l.start == l.n {
		return
	}
	part := l.area[l.start:l.n]
	l.spill = append(l.spill, part...)
	copy(l.spill[len(part):], l.spill)
	copy(l.spill, part)
	l.n = l.start
}

// eventRecords calls f for every record of the current event, in order.
func (l *callLog) eventRecords(f func(c *trace.Call)) {
	for i := l.start; i < l.n; i++ {
		f(&l.area[i])
	}
	spilled := l.made - (l.n - l.start)
	for i := len(l.spill) - spilled; i < len(l.spill); i++ {
		f(&l.spill[i])
	}
}

// Note takes a statement of the strategy. It implements Log.
func (l *callLog) Note(c trace.Call) {
	if c.Kind < trace.CallMove {
		return // a device call is recorded by the device, not claimed by the strategy
	}
	switch c.Kind {
	case trace.CallMove, trace.CallSpill, trace.CallUnspill:
		l.moved = true
	}
	l.add(&c)
}

func saturate32(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }
