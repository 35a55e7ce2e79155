package importers

import (
	"fmt"
	"slices"

	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/pickle"
)

// standInStream names the first of the streams that stand for those a recording does not name: a free that completes late
// was used by another stream, but not which.
const standInStream = 1_000_000

// insideGapUs is the longest time between giving memory back and taking memory inside one allocation: the calls follow
// each other at once, the slowest driver call in between takes less than a millisecond.
const insideGapUs = 1000

// emitter turns the entries of one device into events.
type emitter struct {
	h     *pickle.Heap
	t     *entryTable
	r     *run
	sets  *liveSets
	rules *allocatorRules
	b     *trace.Builder
	f     *findings

	lay      *layout // nil once the blocks cannot be followed any more
	live     addrmap.Map
	pending  map[uint64]int // address -> stand-in stream
	standIns []standIn
	streams  []uint16 // by entryTable number; index in the builder
	pools    []uint16
	tags     []uint32
	handle   trace.Handle
	skipped  map[string]int
	marks    []mark
	markNo   map[string]uint64
	startUs  int64
	lastUs   int64
	back     int  // times that went back
	timed    bool // a time was seen
	segs     bool // segment events wait for the next event
	final    []segment
	reserved uint64 // held from the device now
	capacity uint64 // least bytes of the device, from failed requests
	waited   []int  // stand-ins whose completion the next allocation or trim waits for
	held     int    // end of the run of completions whose release waits anyway
}

type standIn struct {
	stream uint16
	busy   bool
}

// mark is an external annotation.
type mark struct {
	name string
	us   int64
}

const unknownIndex = ^uint16(0)

func (x *emitter) stream(i uint16) uint16 {
	for int(i) >= len(x.streams) {
		x.streams = append(x.streams, unknownIndex)
	}
	if x.streams[i] == unknownIndex {
		x.streams[i] = x.b.Stream(x.t.streams.list[i])
	}
	return x.streams[i]
}

func (x *emitter) pool(i uint16) uint16 {
	for int(i) >= len(x.pools) {
		x.pools = append(x.pools, unknownIndex)
	}
	if x.pools[i] == unknownIndex {
		id := x.t.pools.list[i]
		x.pools[i] = x.b.Pool(fmt.Sprintf("%d:%d", id[0], id[1]))
	}
	return x.pools[i]
}

const unknownTag = ^uint32(0)

func (x *emitter) tag(i uint32) uint32 {
	for int(i) >= len(x.tags) {
		x.tags = append(x.tags, unknownTag)
	}
	if x.tags[i] == unknownTag {
		x.tags[i] = x.b.String(x.t.frames.label(x.h, i))
	}
	return x.tags[i]
}

// skip counts an entry that becomes no event.
func (x *emitter) skip(why string) { x.skipped[why]++ }

// run emits everything. Only an error of the builder ends it.
func (x *emitter) run() error {
	if err := x.begin(); err != nil {
		return err
	}
	for i := 0; i < x.r.n; i++ {
		x.r.done(i)
		e := x.r.at(i)
		x.clock(e)
		if err := x.annotate(e); err != nil {
			return err
		}
		var err error
		switch e.act {
		case actAlloc:
			err = x.alloc(i, e)
		case actOOM:
			err = x.fail(e)
		case actFreeRequested:
			err = x.request(i, e)
			if err == nil && completesAtOnce(x.r, i) {
				i++ // the completion is part of the free
				x.release(i, e.addr)
			}
		case actFreeCompleted:
			err = x.complete(i, e)
		case actSegmentAlloc, actSegmentMap, actSegmentFree, actSegmentUnmap:
			err = x.segment(i, e)
		case actSnapshot, actAnnotate:
			x.skip("snapshot and annotate entries")
		default:
			x.skip("entries of unknown actions")
		}
		if err != nil {
			return err
		}
	}
	return x.finishMarks()
}

// begin makes blocks pending whose free was requested before the recording: used by a stand-in stream, and freed.
func (x *emitter) begin() error {
	if x.sets.deferred > 0 {
		if err := x.b.Events(true); err != nil {
			return err
		}
	}
	for i := range x.sets.initials {
		b := &x.sets.initials[i]
		if b.lost {
			continue
		}
		h := trace.Handle(i + 1)
		if !b.pending {
			x.live.Put(b.addr, uint32(h))
			continue
		}
		if err := x.freeLate(h, b.addr); err != nil {
			return err
		}
	}
	x.handle = trace.Handle(len(x.sets.initials))
	return nil
}

// clock sets the time of the next events.
func (x *emitter) clock(e *entry) {
	if e.flags&entryTimed == 0 {
		return
	}
	if !x.timed {
		x.timed, x.startUs, x.lastUs = true, e.timeUs, e.timeUs
	}
	if e.timeUs < x.lastUs {
		x.back++
		return
	}
	x.lastUs = e.timeUs
	x.b.At((e.timeUs - x.startUs) * 1000)
}

// maxHandles follows from the 32-bit values of the address map.
const maxHandles = 1<<32 - 1

func (x *emitter) nextHandle() (trace.Handle, error) {
	if x.handle >= maxHandles {
		return 0, fmt.Errorf("%w: more than %d allocations", trace.ErrLimit, uint64(maxHandles))
	}
	x.handle++
	return x.handle, nil
}

func (x *emitter) alloc(i int, e *entry) error {
	if old := x.live.Get(e.addr); old != 0 {
		x.live.Delete(e.addr)
		if err := x.b.Free(trace.Handle(old), trace.FreeArgs{}); err != nil {
			return err
		}
	}
	var granted uint64
	if x.lay != nil {
		var err error
		if granted, err = x.lay.alloc(e.addr, e.size()); err != nil {
			x.lose(i, err)
		}
	}
	args := trace.AllocArgs{Stream: x.stream(e.stream), Pool: x.poolOf(e), Tag: x.tag(e.tag)}
	h, err := x.nextHandle()
	if err != nil {
		return err
	}
	x.b.Saw(e.addr, granted, false)
	if err := x.b.Alloc(h, e.size(), args); err != nil {
		return err
	}
	x.segs = false
	x.live.Put(e.addr, uint32(h))
	return x.caughtUp()
}

// lose gives up following the blocks.
func (x *emitter) lose(i int, err error) {
	x.f.add(layoutBroken, "entry %d: %v", i, err)
	x.lay = nil
}

// poolOf finds the pool of an allocation: the entry's own, else that of the segment at its address.
func (x *emitter) poolOf(e *entry) uint16 {
	if e.flags&entryPooled != 0 {
		return x.pool(e.pool())
	}
	if x.lay != nil {
		if info, ok := x.lay.infoAt(e.addr); ok {
			return x.pool(info.pool)
		}
	}
	return trace.DefaultPool
}

// fail emits a request that failed; its size is the rounded one, which is all that was recorded.
func (x *emitter) fail(e *entry) error {
	if e.addr > 0 {
		x.capacity = max(x.capacity, x.reserved+e.addr)
	}
	h, err := x.nextHandle()
	if err != nil {
		return err
	}
	x.b.Saw(0, 0, true)
	x.segs = false
	args := trace.AllocArgs{Stream: x.stream(e.stream), Tag: x.tag(e.tag)}
	if e.flags&entryPooled != 0 {
		args.Pool = x.pool(e.pool())
	}
	if err := x.b.Alloc(h, e.size(), args); err != nil {
		return err
	}
	return x.caughtUp()
}

func (x *emitter) request(i int, e *entry) error {
	h := x.live.Delete(e.addr)
	if h == 0 {
		x.skip("frees of blocks that are not live")
		return nil
	}
	x.segs = false
	if completesAtOnce(x.r, i) {
		return x.b.Free(trace.Handle(h), trace.FreeArgs{})
	}
	return x.freeLate(trace.Handle(h), e.addr)
}

// freeLate frees a block that stays pending until its stand-in stream completes.
func (x *emitter) freeLate(h trace.Handle, addr uint64) error {
	s := x.takeStandIn()
	x.pending[addr] = s
	if err := x.b.Use(h, x.standIns[s].stream); err != nil {
		return err
	}
	return x.b.Free(h, trace.FreeArgs{})
}

// release gives a block's memory back in the layout.
func (x *emitter) release(i int, addr uint64) {
	if x.lay == nil {
		return
	}
	if err := x.lay.free(addr); err != nil {
		x.lose(i, err)
	}
}

func (x *emitter) complete(i int, e *entry) error {
	if s, ok := x.pending[e.addr]; ok {
		delete(x.pending, e.addr)
		x.release(i, e.addr)
		if x.awaited(i) {
			x.waited = append(x.waited, s)
			return nil
		}
		x.segs = false
		return x.completeStandIn(s)
	}
	h := x.live.Delete(e.addr)
	if h == 0 {
		x.skip("frees of blocks that are not live")
		return nil
	}
	x.release(i, e.addr)
	x.segs = false
	return x.b.Free(trace.Handle(h), trace.FreeArgs{})
}

func (x *emitter) completeStandIn(s int) error {
	x.standIns[s].busy = false
	return x.b.Complete(x.standIns[s].stream)
}

// caughtUp emits the completions that an allocation or a trim has waited for, after it.
func (x *emitter) caughtUp() error {
	for _, s := range x.waited {
		if err := x.completeStandIn(s); err != nil {
			return err
		}
	}
	x.waited = x.waited[:0]
	return nil
}

// awaited says whether the completion at entry i happened because the allocator waited for it while it gave memory back: a
// strategy waits itself then, and an earlier completion would give it the memory too soon.
func (x *emitter) awaited(i int) bool {
	if !x.rules.releasesWaiting() {
		return false
	}
	if i < x.held {
		return true
	}
	j := i
	for j < x.r.n && x.r.at(j).act == actFreeCompleted {
		j++
	}
	if j < x.r.n && (x.r.at(j).act == actSegmentFree || x.r.at(j).act == actSegmentUnmap) {
		x.held = j
		return true
	}
	return false
}

// takeStandIn returns the number of a stand-in stream that no pending block waits for.
func (x *emitter) takeStandIn() int {
	for i := range x.standIns {
		if !x.standIns[i].busy {
			x.standIns[i].busy = true
			return i
		}
	}
	name := uint64(standInStream + len(x.standIns))
	for slices.Contains(x.t.streams.list, name) {
		name += standInStream
	}
	x.standIns = append(x.standIns, standIn{stream: x.b.Stream(name), busy: true})
	return len(x.standIns) - 1
}
