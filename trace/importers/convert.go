package importers

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// conversion turns the entries and the final state of one device into a trace:
//
//  1. walk forward: which blocks were live at the start, do entries and final state agree;
//  2. rewind the segments from the end to the start, and place those blocks in them;
//  3. when sizes of such blocks are uncertain, play the recording once to find their hidden slack;
//  4. emit the events while the recording is played block by block, and compare the end with the recorded one.
type conversion struct {
	*snapshot
	device   int
	r        *run
	all      int // entries of the device, also of a file whose entries say nothing
	final    []segment
	b        *trace.Builder
	title    string
	findings findings
	warnings []string
}

// stateOnly says whether the entries hold no history: enabled="state" keeps one entry, whatever it happens to be.
func (c *conversion) stateOnly() bool {
	for i := range c.r.n {
		switch c.r.at(i).act {
		case actAlloc, actFreeRequested, actOOM, actSegmentAlloc, actSegmentFree, actSegmentMap, actSegmentUnmap:
			return false
		}
	}
	return c.r.n <= 1
}

func (c *conversion) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

func (c *conversion) run() (Imported, error) {
	sets := walk(c.r, c.final, &c.findings)
	start := rewindSegments(c.r, c.final, &c.rules, &c.findings)
	if !sets.hasState {
		sets.facts.Unproven = "the file has no segments"
		start = coverAll(nil, sets.initials, &c.rules, &findings{})
	}
	start = placeInitials(start, sets.initials, &c.rules, &c.findings)
	x := &emitter{
		h: c.h, t: c.t, r: c.r, sets: sets, rules: &c.rules, b: c.b, f: &c.findings, final: c.final,
		pending: map[uint64]int{}, skipped: map[string]int{}, marks: c.marks[c.device], markNo: map[string]uint64{},
	}
	if c.r.n < c.all {
		x.skipped["entries of a file without history"] = c.all
	}
	if sets.hasState {
		if err := c.settle(start, sets); err != nil {
			c.findings.add(layoutBroken, "start: %v", err)
		} else if x.lay, err = newLayout(&c.rules, start); err != nil {
			c.findings.add(layoutBroken, "start: %v", err)
		}
	}
	if err := c.emit(x, start, sets); err != nil {
		return Imported{}, err
	}
	return c.finish(x, sets)
}

// settle finds hidden slack: the recording shows an allocation up to 1 MiB inside what looks like one free block, so the
// block of the start below it is that much longer. The correction is made in place, since nothing before that allocation
// can have depended on it.
func (c *conversion) settle(start []segment, sets *liveSets) error {
	uncertain := map[uint64]*block{}
	segOf := map[uint64]*segment{}
	for i := range start {
		for j := range start[i].blocks {
			b := &start[i].blocks[j]
			if b.initial > 0 && sets.initials[b.initial-1].bytes == 0 {
				uncertain[b.addr], segOf[b.addr] = b, &start[i]
			}
		}
	}
	if len(uncertain) == 0 {
		return nil
	}
	lay, err := newLayout(&c.rules, start)
	if err != nil {
		return err
	}
	corrections := 0
	lay.slack = func(addr, d uint64) bool {
		b := uncertain[addr]
		if b == nil {
			return false
		}
		corrections++
		extend(segOf[addr], b, d)
		return true
	}
	playAll(lay, c, uncertain)
	if corrections > 0 {
		c.warn("%d blocks of the start were larger than their requests; the recording shows by how much", corrections)
	}
	return nil
}

// extend gives d bytes of the free block behind b to b.
func extend(s *segment, b *block, d uint64) {
	for j := range s.blocks {
		if &s.blocks[j] != b || j+1 == len(s.blocks) {
			continue
		}
		next := &s.blocks[j+1]
		if next.state == blockFree && next.bytes >= d {
			b.bytes += d
			next.addr += d
			next.bytes -= d
		}
	}
}

// playAll plays the recording until its end or the first contradiction, which the second time finds again and reports. A
// block of the start that is freed is no longer uncertain: its address may come back as another block's.
func playAll(lay *layout, c *conversion, uncertain map[uint64]*block) {
	x := &emitter{lay: lay, rules: &c.rules, final: c.final}
	for i := range c.r.n {
		e := c.r.at(i)
		var err error
		switch e.act {
		case actAlloc:
			_, err = lay.alloc(e.addr, e.size())
		case actFreeCompleted:
			delete(uncertain, e.addr)
			err = lay.free(e.addr)
		case actSegmentAlloc, actSegmentFree, actSegmentMap, actSegmentUnmap:
			err = x.playSegment(e)
		}
		if err != nil {
			return
		}
	}
}

// emit gives the builder the start state and the events.
func (c *conversion) emit(x *emitter, start []segment, sets *liveSets) error {
	for i := range start {
		x.reserved += start[i].bytes
	}
	if len(start) > 0 {
		if err := c.b.Start(c.state(x, start)); err != nil {
			return err
		}
	}
	if c.r.n == 0 {
		return nil
	}
	c.b.Reserve(sets.events(), c.r.at(0).flags&entryTimed != 0, true)
	return x.run()
}

// state makes the start state. Its blocks have the handles 1, 2, … in address order. Where events follow, blocks whose free
// is pending are still live in it: the first events free them, so that it is said which stream they wait for.
func (c *conversion) state(x *emitter, start []segment) *trace.State {
	st := &trace.State{}
	for i := range start {
		s := &start[i]
		seg := trace.StateSegment{Addr: s.addr, Bytes: s.bytes, Stream: x.stream(s.stream), Pool: x.pool(s.pool),
			Small: s.small, Expandable: s.expandable}
		for j := range s.blocks {
			b := &s.blocks[j]
			if b.bytes == 0 {
				continue
			}
			blk := trace.StateBlock{Addr: b.addr, Bytes: b.bytes}
			if b.initial > 0 {
				blk.RequestedBytes = b.requested
				blk.Handle = trace.Handle(b.initial)
				blk.Pending = b.state == blockPending && c.r.n == 0
			}
			seg.Blocks = append(seg.Blocks, blk)
		}
		st.Segments = append(st.Segments, seg)
	}
	return st
}

// finish closes the trace and states the facts.
func (c *conversion) finish(x *emitter, sets *liveSets) (Imported, error) {
	facts := &sets.facts
	facts.Device = c.device
	facts.Records = uint64(c.all)
	facts.CapacityBytesMin = x.capacity
	c.finalFacts(facts)
	if x.lay != nil {
		if err := x.lay.compare(c.final); err != nil {
			c.findings.add(layoutEnd, "%v", err)
		}
	}
	facts.Inconsistent = c.findings.list
	facts.Proven = x.lay != nil && len(c.findings.list) == 0
	if !facts.Proven && facts.Unproven == "" {
		facts.Unproven = c.findings.verdict()
	}
	meta := trace.Meta{Source: SourceSnapshot, Device: c.device, CoversPercent: facts.CoversPercent, Settings: c.settings, Title: c.title}
	if n := c.hostEntries; n > 0 {
		x.skipped["entries of pinned host memory"] = n
		c.hostEntries = 0 // named with the first device only
	}
	for _, n := range x.skipped {
		meta.Skipped += uint64(n)
	}
	c.explain(x, sets)
	meta.Warnings = c.warnings
	t, err := c.b.Finish(meta)
	if err != nil {
		return Imported{}, err
	}
	return Imported{Trace: t, Facts: *facts}, nil
}

// explain writes the warnings.
func (c *conversion) explain(x *emitter, sets *liveSets) {
	for _, f := range c.findings.list {
		c.warn("inconsistent: %s", f)
	}
	if sets.facts.Unproven != "" && len(c.findings.list) == 0 {
		c.warn("not proven: %s", sets.facts.Unproven)
	}
	if n := sets.facts.LiveAtStart; n > 0 && c.r.n > 0 {
		c.warn("the recording began with %d blocks (%d bytes requested) already live", n, sets.facts.LiveAtStartBytes)
	}
	if sets.deferred > 0 {
		c.warn("%d blocks were freed while another stream used them; the file does not say which: streams from %d on stand for it",
			sets.deferred, standInStream)
	}
	if sets.facts.FailedAllocs > 0 {
		c.warn("%d requests failed; of those the file has the rounded size", sets.facts.FailedAllocs)
	}
	if x.capacity > 0 {
		c.warn("the device had at least %d bytes (held plus free at a failed request)", x.capacity)
	}
	if x.back > 0 {
		c.warn("%d times go back; those events have the time of the one before", x.back)
	}
	for _, why := range sortedKeys(x.skipped) {
		c.warn("skipped: %d %s", x.skipped[why], why)
	}
	for _, name := range sortedKeys(c.r.unknown) {
		c.warn("unknown action %q: %d entries", clip(name), c.r.unknown[name])
	}
}

// finalFacts counts the final state.
func (c *conversion) finalFacts(f *Facts) {
	pools := map[uint16]bool{}
	f.Segments = len(c.final)
	for i := range c.final {
		s := &c.final[i]
		pools[s.pool] = true
		f.ReservedBytes += s.bytes
		f.Blocks += len(s.blocks)
		for j := range s.blocks {
			switch b := &s.blocks[j]; b.state {
			case blockLive:
				f.AllocatedBytes += b.bytes
			case blockPending:
				f.PendingBytes += b.bytes
			}
		}
	}
	f.Pools = len(pools)
}
