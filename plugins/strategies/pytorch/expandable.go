package pytorch

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// expSegment is an ExpandableSegment: one reservation of addresses for one pool and stream, with memory page by page.
type expSegment struct {
	base, size, page uint64
	pages            []backends.PhysID // handles_, as far up as ever mapped; 0 = no memory
	inUse            bool
	adopted          bool // came with a start state: the device does not know it as a reservation
	closed           bool // adopted, and the device cannot map here: no growth
}

// reservationBytes is the size of a reservation: an eighth more than the device has, in whole pages
// (ExpandableSegment's constructor, max_handles_).
func (a *Allocator) reservationBytes(page uint64) uint64 {
	n := a.totalBytes + a.totalBytes/8
	return (n + page - 1) / page * page
}

// allocExpandable is try_allocate_expandable_block: a free block of at least size bytes, grown from what is mapped, out
// of the free set. After a failure what was mapped stays mapped. Only the reservation of a start state can turn out to be
// closed to growth on the way; then the search begins again.
func (a *Allocator) allocExpandable(set *freeSet, size uint64) uint32 {
	for {
		c := a.findRoom(set, size)
		if c == 0 {
			return 0
		}
		sg := a.blocks[c].seg
		if i := a.grow(set, c, size); i != 0 || !a.segments[sg].closed {
			return i
		}
	}
}

// grow maps memory behind candidate i until it has size bytes.
func (a *Allocator) grow(set *freeSet, i uint32, size uint64) uint32 {
	if b := &a.blocks[i]; b.state == blockUnmapped {
		if i = a.mapBlock(i, min(b.size, size)); i == 0 {
			return 0
		}
	}
	for a.blocks[i].size < size {
		n := a.blocks[i].next
		if i = a.mapBlock(n, min(size-a.blocks[i].size, a.blocks[n].size)); i == 0 {
			return 0
		}
	}
	set.remove(a.blocks, i)
	return i
}

// findRoom is find_expandable_block: the first run of free and unmapped blocks with size bytes that contains an unmapped
// one, by address; else a new reservation.
func (a *Allocator) findRoom(set *freeSet, size uint64) uint32 {
	allocatable := func(i uint32) bool {
		return i != 0 && (a.blocks[i].state == blockFree || a.blocks[i].state == blockUnmapped)
	}
	for _, c := range set.unmapped {
		if a.segments[a.blocks[c].seg].closed {
			continue
		}
		if p := a.blocks[c].prev; allocatable(p) {
			c = p
		}
		room := uint64(0)
		for i := c; room < size && allocatable(i); i = a.blocks[i].next {
			room += a.blocks[i].size
		}
		if room >= size {
			return c
		}
	}
	return a.reserve(set)
}

// reserve makes a new segment and returns its one unmapped block, or 0.
func (a *Allocator) reserve(set *freeSet) uint32 {
	page := a.cfg.largeSegmentBytes
	if set.pool.small() {
		page = smallSegment
	}
	n := a.reservationBytes(page)
	base, st := a.vm.Reserve(n)
	if st != trace.CallOK {
		if !st.OutOfMemory() {
			a.deviceFailed("reserve", st)
		}
		return 0
	}
	return a.newSegment(set, base, n, page)
}

// newSegment enters a reservation as one unmapped block.
func (a *Allocator) newSegment(set *freeSet, base, size, page uint64) uint32 {
	k := a.segmentSlot()
	sg := &a.segments[k]
	*sg = expSegment{base: base, size: size, page: page, pages: sg.pages[:0], inUse: true}
	i := a.newBlock()
	a.blocks[i] = block{addr: base, size: size, set: set.index, seg: k, state: blockUnmapped}
	set.insertUnmapped(a.blocks, i)
	return i
}

// segmentSlot returns the index of an unused record.
func (a *Allocator) segmentSlot() uint32 {
	for k := 1; k < len(a.segments); k++ {
		if !a.segments[k].inUse {
			return uint32(k)
		}
	}
	a.segments = append(a.segments, expSegment{})
	return uint32(len(a.segments) - 1)
}

// mapBlock is map_block: memory behind the first want bytes of an unmapped block, in whole pages; the mapped part joins
// its free neighbours and goes to the free set. It returns the joined block, or 0 when the device had no memory.
func (a *Allocator) mapBlock(i uint32, want uint64) uint32 {
	b := &a.blocks[i]
	set := a.sets[b.set]
	n := a.mapPages(&a.segments[b.seg], b.addr, want)
	if n == 0 {
		return 0
	}
	set.removeUnmapped(a.blocks, i)
	b.state = blockFree
	if n < b.size {
		rest := a.insertAfter(i, b.addr+n, b.size-n, blockUnmapped)
		a.blocks[i].size = n
		set.insertUnmapped(a.blocks, rest)
	}
	i, _, _ = a.mergeFree(i)
	a.insertFree(i)
	a.heldBytes += n
	a.st.inc(set.pool.kind, StatReservedBytes, n)
	a.st.counts.DeviceAllocs++
	return i
}

// mapPages is ExpandableSegment::map: all pages are created first, then each is mapped, then access is set for the whole
// run. It returns the bytes mapped; 0 means that a page was refused and the pages of this call were given back.
func (a *Allocator) mapPages(sg *expSegment, addr, want uint64) uint64 {
	first := int((addr - sg.base) / sg.page)
	last := int((addr + want - sg.base + sg.page - 1) / sg.page)
	for len(sg.pages) < last {
		sg.pages = append(sg.pages, 0)
	}
	for k := first; k < last; k++ {
		id, st := a.vm.Create(sg.page)
		if st != trace.CallOK {
			a.giveBackPages(sg, first, k, first, "create", st)
			return 0
		}
		sg.pages[k] = id
	}
	for k := first; k < last; k++ {
		if st := a.vm.Map(sg.base+uint64(k)*sg.page, sg.page, sg.pages[k]); st != trace.CallOK {
			a.giveBackPages(sg, first, last, k, "map", st)
			return 0
		}
	}
	start, n := sg.base+uint64(first)*sg.page, uint64(last-first)*sg.page
	if st := a.vm.SetAccess(start, n); st != trace.CallOK {
		a.giveBackPages(sg, first, last, last, "set access", st)
		return 0
	}
	return n
}

// giveBackPages undoes a failed mapPages: pages [first, created) exist, [first, mapped) are mapped. A shortage of memory
// is the caller's to handle, anything else breaks the operation off.
func (a *Allocator) giveBackPages(sg *expSegment, first, created, mapped int, what string, st trace.CallStatus) {
	for k := first; k < mapped; k++ {
		a.check("unmap", a.vm.Unmap(sg.base+uint64(k)*sg.page, sg.page))
	}
	for k := first; k < created; k++ {
		a.check("release", a.vm.Release(sg.pages[k]))
		sg.pages[k] = 0
	}
	switch {
	case st.OutOfMemory():
	case sg.adopted && what == "map" && st == trace.CallInvalidValue:
		sg.closed = true
	default:
		a.deviceFailed(what, st)
	}
}

// unmapBlock is unmap_block: the whole pages inside a free block lose their memory, what is left over before and behind
// stays free. It returns the block that holds the unmapped range; without a whole page, i unchanged.
func (a *Allocator) unmapBlock(i uint32) uint32 {
	b := &a.blocks[i]
	set := a.sets[b.set]
	sg := &a.segments[b.seg]
	first := (b.addr - sg.base + sg.page - 1) / sg.page
	last := (b.addr + b.size - sg.base) / sg.page
	if first >= last {
		return i
	}
	if a.ev != nil {
		a.ev.SyncStream(set.stream)
	}
	for k := first; k < last; k++ {
		a.dropPage(sg, int(k))
	}
	if a.opErr != nil {
		return i
	}
	set.remove(a.blocks, i)
	start, n := sg.base+first*sg.page, (last-first)*sg.page
	if front := start - b.addr; front > 0 { // the front keeps the record
		rest := a.insertAfter(i, start, b.size-front, blockUnmapped)
		a.blocks[i].size = front
		a.insertFree(i)
		i = rest
	}
	if tail := a.blocks[i].size - n; tail > 0 {
		rest := a.insertAfter(i, start+n, tail, blockFree)
		a.blocks[i].size = n
		a.insertFree(rest)
	}
	i = a.mergeUnmapped(i, set)
	a.heldBytes -= n
	a.st.dec(set.pool.kind, StatReservedBytes, n)
	if pp := set.pool.private; pp != nil {
		if pp.segments == 0 {
			a.opErr = ErrPoolCount
			return i
		}
		pp.segments--
	}
	a.st.counts.DeviceFrees++
	return i
}

// mergeUnmapped makes block i unmapped, joins it with unmapped neighbours and enters it in the unmapped set.
func (a *Allocator) mergeUnmapped(i uint32, set *freeSet) uint32 {
	a.blocks[i].state = blockUnmapped
	if n := a.blocks[i].next; n != 0 && a.blocks[n].state == blockUnmapped {
		set.removeUnmapped(a.blocks, n)
		a.absorbNext(i)
	}
	if p := a.blocks[i].prev; p != 0 && a.blocks[p].state == blockUnmapped {
		a.absorbNext(p) // p is in the set already, its address stays
		return p
	}
	set.insertUnmapped(a.blocks, i)
	return i
}

// dropSegment is release_expandable_segment: block i is the whole of an empty reservation, which goes back. A block
// without neighbours that is still mapped stays: an eighth of a reservation more than the device can never be mapped.
func (a *Allocator) dropSegment(i uint32) {
	b := &a.blocks[i]
	if b.state != blockUnmapped {
		return
	}
	a.sets[b.set].removeUnmapped(a.blocks, i)
	a.unreserve(&a.segments[b.seg])
	a.dropBlock(i)
}

// dropPage takes the memory from behind page k (ExpandableSegment::unmapHandles).
func (a *Allocator) dropPage(sg *expSegment, k int) {
	a.check("unmap", a.vm.Unmap(sg.base+uint64(k)*sg.page, sg.page))
	if sg.pages[k] != adoptedPage {
		a.check("release", a.vm.Release(sg.pages[k]))
	}
	sg.pages[k] = 0
}

// unreserve gives the addresses of a segment back (the destructor of ExpandableSegment).
func (a *Allocator) unreserve(sg *expSegment) {
	if !sg.adopted {
		a.check("unreserve", a.vm.Unreserve(sg.base, sg.size))
	}
	sg.inUse = false
}
