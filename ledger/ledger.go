package ledger

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// Ledger reads the outcomes of one trial, in order and window by window. It is not safe for concurrent use.
type Ledger struct {
	cfg Config
	err error // the first malformed window; nothing is read after it

	dev, host space
	blocks    []block // by slot
	shares    []share
	obj       objects
	shadow    shadow
	aliased   int // physical handles mapped more than once
	saved     map[uint32]*layout

	n         uint64 // events completed
	timeNs    int64  // trace time of the event being read
	started   bool   // the start state was entered
	closing   bool   // calls of EventClose were seen
	resetting bool   // the event being read is a reset or restore
	excused   bool   // a device call of this event failed on purpose or for good
	dirty     bool   // the event changed something that metrics read

	extents    []span // of the event being read
	shareCalls []trace.Call
	spans, cut []span
	touched    uint64 // by warm
	loose      uint64 // calls after the last outcome: of an event that never ended

	liveBytes, grantedBytes, liveBlocks uint64
	spilledBytes, spilledBlocks         uint64

	metrics
	timing  *timing
	series  *seriesBuilder
	picture *pictureBuilder

	violations      []Violation
	violationCounts []ViolationCount
	violationsTotal uint64
}

// New returns a ledger for one trial.
func New(cfg Config) *Ledger {
	l := &Ledger{}
	l.Reset(cfg)
	return l
}

// Reset makes the ledger ready for another trial and keeps its memory.
func (l *Ledger) Reset(cfg Config) {
	if cfg.TickNs == 0 {
		cfg.TickNs = 1
	}
	l.cfg, l.err = cfg, nil
	l.dev.reset()
	l.host.reset()
	l.blocks = l.blocks[:0]
	l.shares = l.shares[:0]
	l.obj.reset()
	l.shadow.reset()
	l.aliased = 0
	clear(l.saved)
	l.n, l.timeNs = 0, 0
	l.started, l.closing, l.resetting, l.excused, l.dirty = false, false, false, false, false
	l.loose = 0
	l.liveBytes, l.grantedBytes, l.liveBlocks, l.spilledBytes, l.spilledBlocks = 0, 0, 0, 0, 0
	l.metrics.reset()
	l.violations, l.violationCounts, l.violationsTotal = l.violations[:0], l.violationCounts[:0], 0
	l.timing, l.series, l.picture = l.timing.ready(&cfg), l.series.ready(&cfg), l.picture.ready(&cfg)
}

// Feed reads the next window: events[i] is event first+i of the trace, with its time (timesNs may be nil), and
// outcomes[i] what became of it. There may be fewer outcomes than events (a plugin that died): the rest is ignored. calls
// holds the records of these events in their order; records of EventOpen and EventRestore come before the first event,
// those of EventClose after the last. An error says that the window is malformed: which event, what was expected; the
// ledger then reads nothing further and repeats the error.
func (l *Ledger) Feed(first uint64, events []trace.Event, timesNs []int64, outcomes []trace.Outcome, calls []trace.Call) error {
	if l.err != nil {
		return l.err
	}
	switch {
	case first != l.n:
		return l.fail("window starts at event %d, expected %d", first, l.n)
	case len(outcomes) > len(events):
		return l.fail("window at event %d has %d outcomes for %d events", first, len(outcomes), len(events))
	case timesNs != nil && len(timesNs) < len(outcomes):
		return l.fail("window at event %d has %d times for %d outcomes", first, len(timesNs), len(outcomes))
	}
	next := l.outside(calls, 0)
	if len(outcomes) > 0 {
		l.enterStart()
	}
	for i := range outcomes {
		if i%warmEvents == 0 {
			l.warm(events[i:min(i+warmEvents, len(outcomes))])
		}
		o := &outcomes[i]
		from := next
		if next < len(calls) && calls[next].Event == l.n {
			for next < len(calls) && calls[next].Event == l.n {
				next++
			}
		}
		if k := next - from; k != int(o.Calls) && (o.Calls != 65535 || k < 65535) {
			return l.fail("event %d: the outcome counts %d calls, the call log has %d", l.n, o.Calls, k)
		}
		t := l.timeNs
		if timesNs != nil {
			t = timesNs[i]
			l.timed = true
		}
		l.step(&events[i], o, calls[from:next], t)
		if next < len(calls) && calls[next].Event > l.n {
			next = l.outside(calls, next)
		}
	}
	for ; next < len(calls) && calls[next].Event == l.n; next++ {
		l.loose++
	}
	next = l.closeCalls(calls, next)
	if next < len(calls) {
		return l.fail("call log: a record of event %d where event %d was expected", calls[next].Event, l.n)
	}
	return nil
}

// warmEvents is how many events are looked up ahead at a time: enough for their cache misses to overlap, few enough to be there still
// when the event comes.
const warmEvents = 16

// warm brings what the next events name into the cache: the entry of each slot, and of a block its item and place. One after the other, as the
// events come, these would be waits of their own; together they are one.
func (l *Ledger) warm(events []trace.Event) {
	var ids [warmEvents]uint32
	for i := range events {
		ids[i] = noItem
		if s := events[i].Slot; int(s) < len(l.blocks) {
			ids[i] = l.blocks[s].item
		}
	}
	var touched uint64
	for _, id := range ids[:len(events)] {
		if int(id) < len(l.dev.items) && int(id) < len(l.dev.idx.where) {
			touched += l.dev.items[id].addr + uint64(l.dev.idx.where[id])
		}
	}
	l.touched = touched // so that the loads are not removed
}

func (l *Ledger) fail(format string, args ...any) error {
	l.err = fmt.Errorf("ledger: "+format, args...)
	return l.err
}

// outside enters the calls of open and restore from place i on and returns the place of the first that is neither.
func (l *Ledger) outside(calls []trace.Call, i int) int {
	l.dev.now = l.n
	for ; i < len(calls) && calls[i].Event >= trace.EventRestore; i++ {
		l.outsideEvent = int64(calls[i].Event)
		l.call(&calls[i])
		l.outsideEvent = 0
	}
	return i
}

// closeCalls enters the calls of close from place i on; they come after the last event.
func (l *Ledger) closeCalls(calls []trace.Call, i int) int {
	for ; i < len(calls) && calls[i].Event == trace.EventClose; i++ {
		l.enterStart()
		l.closing, l.outsideEvent = true, closeEvent
		l.dev.now = l.n
		l.call(&calls[i])
		l.outsideEvent = 0
	}
	return i
}

// step reads one event.
func (l *Ledger) step(ev *trace.Event, o *trace.Outcome, calls []trace.Call, t int64) {
	if l.n == 0 {
		l.timeNs, l.changedTime, l.timeStart = t, t, t
		l.refresh()
		l.peaks(-1)
	}
	if t > l.timeNs {
		l.timeNs = t
	}
	l.dev.now = l.n
	l.statuses[min(int(o.Status), len(l.statuses)-1)]++
	l.excused = false
	switch ev.Kind {
	case trace.KindAlloc:
		l.alloc(ev, o, calls)
	case trace.KindFree:
		l.freeEvent(ev, o, calls)
	case trace.KindRealloc:
		l.realloc(ev, o, calls)
	default:
		l.other(ev, o, calls)
	}
	if len(l.extents)+len(l.shareCalls) > 0 {
		l.strayExtents(ev)
	}
	if l.dirty {
		l.changed()
	}
	l.n++
	if l.series != nil {
		l.series.add(l)
	}
	if l.timing != nil {
		l.timing.add(ev.Kind, o)
	}
}

// enterStart enters the start state once, before the first event.
func (l *Ledger) enterStart() {
	if l.started {
		return
	}
	l.started = true
	if l.cfg.Start == nil {
		return
	}
	for i := range l.cfg.Start.Segments {
		l.enterSegment(&l.cfg.Start.Segments[i])
	}
}

// enterSegment enters one segment of the start state and its live blocks. What the calls of the restore already
// established is left as it is.
func (l *Ledger) enterSegment(s *trace.StateSegment) {
	if s.Bytes == 0 || wraps(s.Addr, s.Bytes) {
		return
	}
	if l.dev.heldAny(s.Addr, s.Bytes) == noItem {
		l.dirty = true
		if s.Expandable {
			l.obj.declared = true
			l.dev.hold(s.Addr, s.Bytes, regionMapped, noItem, 0)
			l.obj.maps.add(s.Addr, s.Bytes, mapping{declared: true, next: noItem, prev: noItem})
			l.obj.charged += s.Bytes
		} else {
			l.dev.hold(s.Addr, s.Bytes, regionMalloc, 0, 0)
			l.obj.charged += l.charge(s.Bytes)
		}
	}
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if b.Handle == 0 {
			continue
		}
		l.spans = append(l.spans[:0], span{b.Addr, b.Bytes})
		l.enter(b.Slot, block{handle: b.Handle, addr: b.Addr, requested: b.RequestedBytes, granted: b.Bytes,
			uses: noItem, stream: s.Stream}, l.spans, nil)
	}
}

// Closed says that the strategy has been closed and its last calls were fed: what is still held is a leak (check O13).
func (l *Ledger) Closed() {
	l.closing = true
	l.outsideEvent = closeEvent
	defer func() { l.outsideEvent = 0 }()
	leak := func(bytes uint64, what string) {
		l.breach(CheckReclaim, CodeLeak, 0, "nothing held after close", bytesText(bytes)+" of "+what)
	}
	if l.dev.held > 0 {
		leak(l.dev.held, fmt.Sprintf("device memory in %d segments", l.dev.regions.n))
	}
	var unmapped, handles uint64
	for _, p := range l.obj.phys {
		if p.maps == 0 {
			unmapped, handles = unmapped+p.size, handles+1
		}
	}
	if handles > 0 {
		leak(unmapped, fmt.Sprintf("physical memory, mapped nowhere, under %d handles", handles))
	}
	if k := l.obj.reserves.len(); k > 0 {
		var sum uint64
		for c := l.obj.reserves.idx.next(noCursor); c.dir >= 0; c = l.obj.reserves.idx.next(c) {
			sum += l.obj.reserves.recs[l.obj.reserves.idx.id(c)].size
		}
		leak(sum, fmt.Sprintf("virtual address space in %d ranges", k))
	}
	if l.host.held > 0 {
		leak(l.host.held, fmt.Sprintf("host memory in %d pieces", l.host.regions.n))
	}
}
