package pytorch

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// request is AllocParams: one allocation while it looks for memory.
type request struct {
	set     *freeSet
	size    uint64 // rounded
	segment uint64 // what would be asked of the driver
	routed  bool   // captures_underway is not empty
}

// Alloc is DeviceCachingAllocator::malloc.
func (a *Allocator) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	n := r.Size
	if n == 0 { // the null pointer: nothing is counted
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if n >= maxRequestBytes || r.Align > minBlockBytes {
		return trace.StatusRefused
	}
	routed := len(a.routing) > 0 || r.Pool != 0
	if a.waiting != 0 && !routed {
		a.processEvents()
	}
	size := a.cfg.roundSize(n)
	var p *pool
	switch {
	case routed:
		if p = a.route(size <= smallBytes, r.Pool); p == nil {
			a.lastErr = ErrPoolUnknown
			return trace.StatusError
		}
	case size <= smallBytes:
		p = &a.small
	default:
		p = &a.large
	}
	set := a.setOf(p, r.Stream)
	st := trace.StatusOK
	i := a.findFree(set, size)
	if i == 0 {
		i, st = a.allocSlow(&request{set: set, size: size, segment: a.cfg.segmentSize(size), routed: routed})
		if i == 0 {
			return st
		}
	}
	a.handOut(i, set, size, n)
	bl := &a.blocks[i]
	b.Addr, b.Size, b.Ref = bl.addr, bl.size, uint64(i)
	return st
}

// findFree is get_free_block: best fit, and out of the free set. 0 is a miss.
func (a *Allocator) findFree(set *freeSet, size uint64) uint32 {
	if a.gcArmed {
		set.pool.searches++
	}
	i := set.lowerBound(a.blocks, size)
	if i == 0 {
		return 0
	}
	if a.blocks[i].seg != 0 {
		if i = a.findExpandable(set, i); i == 0 {
			return 0
		}
	}
	if found := a.blocks[i].size; size < a.cfg.maxSplitBytes {
		if found >= a.cfg.maxSplitBytes {
			return 0
		}
	} else if found >= size+a.cfg.nonSplitRoundingBytes {
		return 0
	}
	set.remove(a.blocks, i)
	return i
}

// findExpandable continues a search that met a block of an expandable segment. With expandable segments in use a block at
// the growing end counts with what it may grow to, so a later one that cannot grow is preferred; only neighbours in the
// order are compared. With the setting switched off such blocks are passed over.
func (a *Allocator) findExpandable(set *freeSet, i uint32) uint32 {
	if !a.cfg.expandable {
		for {
			if i = set.after(a.blocks, i); i == 0 || a.blocks[i].seg == 0 {
				return i
			}
		}
	}
	reach := a.reach(i)
	for a.blocks[i].seg != 0 {
		if reach == a.blocks[i].size { // cannot grow: nothing later is smaller
			return i
		}
		next := set.after(a.blocks, i)
		if next == 0 {
			return i
		}
		r := a.reach(next)
		if r >= reach {
			return i
		}
		i, reach = next, r
	}
	return i
}

// reach is the size a free block can grow to.
func (a *Allocator) reach(i uint32) uint64 {
	b := &a.blocks[i]
	if b.next != 0 && a.blocks[b.next].state == blockUnmapped && !a.segments[b.seg].closed {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

// handOut splits block i, which is in no set, if the rest is worth it (should_split) and gives the low end away
// (alloc_found_block).
func (a *Allocator) handOut(i uint32, set *freeSet, size, requested uint64) {
	b := &a.blocks[i]
	kind := set.pool.kind
	wasSplit := b.isSplit()
	rest := b.size - size
	split := size < a.cfg.maxSplitBytes && rest > smallBytes
	if kind == PoolSmall || a.cfg.expandable {
		split = rest >= minBlockBytes
	}
	if split {
		n := a.insertAfter(i, b.addr+size, rest, blockFree)
		b = &a.blocks[i]
		b.size = size
		a.insertFree(n)
	}
	if b.seg == 0 {
		switch {
		case split && wasSplit:
			a.st.dec(kind, StatInactiveSplitBytes, size)
		case split:
			a.st.inc(kind, StatInactiveSplitBytes, rest)
			a.st.inc(kind, StatInactiveSplit, 1)
		case wasSplit:
			a.st.dec(kind, StatInactiveSplitBytes, b.size)
			a.st.dec(kind, StatInactiveSplit, 1)
		}
	}
	b.state = blockLive
	b.note = requested
	if pp := set.pool.private; pp != nil {
		pp.active++
	}
	a.st.inc(kind, StatAllocation, 1)
	a.st.inc(kind, StatAllocatedBytes, b.size)
	a.st.inc(kind, StatActive, 1)
	a.st.inc(kind, StatActiveBytes, b.size)
	a.st.inc(kind, StatRequestedBytes, requested)
	if b.size >= a.cfg.maxSplitBytes {
		a.st.oversizeAllocations.inc(1)
	}
}

// allocSlow is what malloc does when no cached block fits: collect garbage, ask the driver, give memory back and ask
// again. It returns a block in no set, or 0 and why.
func (a *Allocator) allocSlow(r *request) (uint32, trace.Status) {
	a.opErr = nil
	if a.gcArmed {
		a.collectGarbage()
	}
	i := uint32(0)
	st := trace.StatusOK
	if a.opErr == nil {
		i = a.allocBlock(r, false)
	}
	if i == 0 && a.opErr == nil && a.releaseAvailable(r) {
		st = trace.StatusRecovered
		i = a.allocBlock(r, false)
	}
	if i == 0 && a.opErr == nil && !r.routed {
		a.releaseCached()
		if a.opErr == nil {
			st = trace.StatusRecovered
			i = a.allocBlock(r, true)
		}
	}
	switch {
	case a.opErr != nil:
		a.lastErr = a.opErr
		return 0, trace.StatusError
	case i == 0:
		a.outOfMemory(r)
		return 0, trace.StatusFailed
	}
	return i, st
}

// allocBlock is alloc_block: memory from the driver, or 0.
func (a *Allocator) allocBlock(r *request, retry bool) uint32 {
	if retry {
		a.st.counts.AllocRetries++
	}
	if a.overLimit(r) {
		return 0
	}
	pp := r.set.pool.private
	if a.cfg.expandable {
		i := a.allocExpandable(r.set, r.size)
		if i != 0 && pp != nil {
			pp.segments++
		}
		return i
	}
	addr, st := a.dev.Malloc(r.segment)
	if st != trace.CallOK {
		if !st.OutOfMemory() {
			a.deviceFailed("malloc", st)
		}
		return 0
	}
	if pp != nil {
		pp.segments++
	}
	a.heldBytes += r.segment
	i := a.newBlock()
	a.blocks[i] = block{addr: addr, size: r.segment, set: r.set.index}
	kind := r.set.pool.kind
	a.st.inc(kind, StatSegment, 1)
	a.st.inc(kind, StatReservedBytes, r.segment)
	if r.segment >= a.cfg.maxSplitBytes {
		a.st.oversizeSegment.inc(1)
	}
	a.st.counts.DeviceAllocs++
	return i
}

// overLimit reports whether the memory fraction forbids the segment of the request. Expandable segments are held to it too,
// although they may map less.
func (a *Allocator) overLimit(r *request) bool {
	return a.hasLimit && a.heldBytes+r.segment > a.limitBytes
}
