package importers

import "github.com/gpubench/gpubench/trace"

var segmentKinds = map[action]trace.SegmentEventKind{
	actSegmentAlloc: trace.SegmentAlloc, actSegmentFree: trace.SegmentFree,
	actSegmentMap: trace.SegmentMap, actSegmentUnmap: trace.SegmentUnmap,
}

// segment takes what happened between the allocator and the driver. Memory given back outside an allocation is an explicit
// empty_cache, which is an event: trim.
func (x *emitter) segment(i int, e *entry) error {
	if x.lay != nil {
		if err := x.playSegment(e); err != nil {
			x.lose(i, err)
		}
	}
	kind := segmentKinds[e.act]
	if kind == trace.SegmentAlloc || kind == trace.SegmentMap {
		x.reserved += e.size()
	} else {
		x.reserved -= min(x.reserved, e.size())
	}
	if err := x.b.SawSegment(kind, e.addr, e.size(), x.stream(e.stream)); err != nil {
		return err
	}
	x.segs = true
	if !releases(e) || i+1 < x.r.n && releases(x.r.at(i+1)) || x.insideAllocation(i) {
		return nil
	}
	x.segs = false
	if err := x.b.Trim(); err != nil {
		return err
	}
	return x.caughtUp()
}

func releases(e *entry) bool { return e.act == actSegmentFree || e.act == actSegmentUnmap }

// paused says whether so much time lies between two entries that they cannot belong to one allocation.
func (x *emitter) paused(a, b *entry) bool {
	return a.flags&b.flags&entryTimed != 0 && b.timeUs-a.timeUs > insideGapUs
}

// insideAllocation says whether the run of releases that ends at entry i belongs to an allocation: it is followed at once by
// memory being taken, or by the failure.
func (x *emitter) insideAllocation(i int) bool {
	if i+1 >= x.r.n {
		return false
	}
	next := x.r.at(i + 1)
	switch next.act {
	case actSegmentAlloc, actSegmentMap, actOOM:
		return !x.paused(x.r.at(i), next)
	}
	return false
}

func (x *emitter) playSegment(e *entry) error {
	switch e.act {
	case actSegmentAlloc:
		return x.lay.addSegment(e.addr, e.size(), x.segmentInfo(e, false))
	case actSegmentFree:
		return x.lay.removeSegment(e.addr, e.size())
	case actSegmentMap:
		return x.lay.mapRange(e.addr, e.size(), x.segmentInfo(e, true))
	}
	return x.lay.unmapRange(e.addr, e.size())
}

func (x *emitter) segmentInfo(e *entry, expandable bool) segmentInfo {
	w := rewinder{rules: x.rules, final: x.final}
	s := w.segmentOf(e, expandable)
	return s.info()
}

// annotate emits the marks due before entry e. They wait while segment events wait for their allocation.
func (x *emitter) annotate(e *entry) error {
	for len(x.marks) > 0 && !x.segs && e.flags&entryTimed != 0 && x.marks[0].us <= e.timeUs {
		if err := x.mark(); err != nil {
			return err
		}
	}
	return nil
}

func (x *emitter) finishMarks() error {
	for len(x.marks) > 0 && x.b.Len() > 0 && !x.segs {
		if err := x.mark(); err != nil {
			return err
		}
	}
	return nil
}

func (x *emitter) mark() error {
	m := x.marks[0]
	x.marks = x.marks[1:]
	x.markNo[m.name]++
	return x.b.Mark(m.name, x.markNo[m.name])
}
