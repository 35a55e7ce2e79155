package pytorch

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// ErrLayout marks a start state that the allocator cannot be in.
var ErrLayout = errors.New("start state")

// adoptedPage stands in expSegment.pages for memory that came with a start state: it is unmapped like any other, but has no
// handle to release.
const adoptedPage backends.PhysID = 1<<64 - 1

// restorer builds the layout of a start state, segment by segment in address order.
type restorer struct {
	a     *Allocator
	place func(slot uint32, b sdk.Block)
	open  map[uint32]*openSegment // by free set: the reservation that may go on
}

type openSegment struct {
	seg  uint32
	last uint32 // its last block
	end  uint64 // where that ends
}

// RestoreLayout takes over an exact layout before the first event. A start state names the mapped ranges of expandable
// segments but not the reservations around them: ranges of one pool and stream are taken to lie in one reservation, which
// begins with the lowest of them, as long as they fit into one. Ages for garbage collection begin at 0.
func (a *Allocator) RestoreLayout(st *trace.State, place func(slot uint32, b sdk.Block)) error {
	if a.heldBytes != 0 || len(a.blocks) > 1 {
		return fmt.Errorf("%w: the allocator holds memory already", ErrLayout)
	}
	r := &restorer{a: a, place: place, open: map[uint32]*openSegment{}}
	for k := range st.Segments {
		seg := &st.Segments[k]
		if seg.Bytes == 0 {
			return fmt.Errorf("%w: segment 0x%x has no bytes", ErrLayout, seg.Addr)
		}
		var err error
		if seg.Expandable {
			err = r.mapped(seg)
		} else {
			_, err = r.blocks(seg, r.set(seg), 0, 0)
		}
		if err != nil {
			return err
		}
		r.count(seg)
	}
	r.closeAll(st)
	return a.opErr
}

// set returns the free set that a segment belongs to.
func (r *restorer) set(seg *trace.StateSegment) *freeSet {
	p := &r.a.large
	if seg.Small {
		p = &r.a.small
	}
	if seg.Pool != trace.DefaultPool {
		pp := r.a.privateAt(seg.Pool)
		if pp == nil {
			pp = r.a.newPrivate(seg.Pool)
		}
		p = pp.half(seg.Small)
	}
	return r.a.setOf(p, seg.Stream)
}

// mapped enters a mapped range of an expandable segment.
func (r *restorer) mapped(seg *trace.StateSegment) error {
	a := r.a
	if a.vm == nil {
		return fmt.Errorf("%w: segment 0x%x: %w", ErrLayout, seg.Addr, ErrNoVirtualMemory)
	}
	page := a.cfg.largeSegmentBytes
	if seg.Small {
		page = smallSegment
	}
	if seg.Bytes%page != 0 {
		return fmt.Errorf("%w: expandable segment 0x%x of %d bytes is not whole pages of %d", ErrLayout, seg.Addr, seg.Bytes, page)
	}
	set := r.set(seg)
	o := r.open[set.index]
	if o != nil {
		sg := &a.segments[o.seg]
		if seg.Addr == o.end || (seg.Addr-sg.base)%page != 0 || seg.Addr+seg.Bytes > sg.base+sg.size {
			r.close(o, seg.Addr)
			o = nil
		}
	}
	if o == nil {
		o = &openSegment{seg: a.segmentSlot(), end: seg.Addr}
		sg := &a.segments[o.seg]
		*sg = expSegment{base: seg.Addr, size: a.reservationBytes(page), page: page, pages: sg.pages[:0], inUse: true, adopted: true}
		r.open[set.index] = o
	} else {
		o.last = r.push(o.last, block{addr: o.end, size: seg.Addr - o.end, set: set.index, seg: o.seg, state: blockUnmapped})
		set.insertUnmapped(a.blocks, o.last)
	}
	sg := &a.segments[o.seg]
	first, n := int((seg.Addr-sg.base)/page), int(seg.Bytes/page)
	for len(sg.pages) < first {
		sg.pages = append(sg.pages, 0)
	}
	for range n {
		sg.pages = append(sg.pages, adoptedPage)
	}
	last, err := r.blocks(seg, set, o.seg, o.last)
	o.last, o.end = last, seg.Addr+seg.Bytes
	return err
}

// close ends a reservation below limit and enters what is left of it as unmapped.
func (r *restorer) close(o *openSegment, limit uint64) {
	a := r.a
	sg := &a.segments[o.seg]
	if sg.base+sg.size > limit {
		sg.size = (limit - sg.base) / sg.page * sg.page
	}
	if rest := sg.base + sg.size - o.end; rest > 0 {
		set := a.sets[a.blocks[o.last].set]
		i := r.push(o.last, block{addr: o.end, size: rest, set: set.index, seg: o.seg, state: blockUnmapped})
		set.insertUnmapped(a.blocks, i)
	}
}

// closeAll ends the reservations that are still open, each below the next segment of the state.
func (r *restorer) closeAll(st *trace.State) {
	for k := range r.a.sets {
		o := r.open[uint32(k)]
		if o == nil {
			continue
		}
		limit := ^uint64(0)
		for j := range st.Segments {
			if at := st.Segments[j].Addr; at >= o.end {
				limit = at
				break
			}
		}
		r.close(o, limit)
	}
}

// push appends a block behind prev (0 = the first of its segment).
func (r *restorer) push(prev uint32, b block) uint32 {
	i := r.a.newBlock()
	b.prev = prev
	r.a.blocks[i] = b
	if prev != 0 {
		r.a.blocks[prev].next = i
	}
	return i
}

// blocks enters the blocks of a segment behind prev and returns the last.
func (r *restorer) blocks(seg *trace.StateSegment, set *freeSet, exp, prev uint32) (uint32, error) {
	a := r.a
	end := seg.Addr
	for k := range seg.Blocks {
		sb := &seg.Blocks[k]
		if sb.Addr != end || sb.Bytes == 0 {
			return prev, fmt.Errorf("%w: segment 0x%x: the block at 0x%x leaves a gap or is empty", ErrLayout, seg.Addr, sb.Addr)
		}
		if sb.Addr%minBlockBytes != 0 || sb.Bytes%minBlockBytes != 0 {
			return prev, fmt.Errorf("%w: segment 0x%x: the block at 0x%x of %d bytes is not in units of %d", ErrLayout, seg.Addr, sb.Addr, sb.Bytes, minBlockBytes)
		}
		end += sb.Bytes
		i := r.push(prev, block{addr: sb.Addr, size: sb.Bytes, set: set.index, seg: exp, note: sb.RequestedBytes})
		if sb.RequestedBytes == 0 {
			a.blocks[i].note = sb.Bytes
		}
		switch {
		case sb.Pending:
			r.pend(i, set)
		case sb.Handle != 0:
			a.blocks[i].state = blockLive
			r.place(sb.Slot, sdk.Block{Addr: sb.Addr, Size: sb.Bytes, Ref: uint64(i)})
		case prev != 0 && a.blocks[prev].state == blockFree:
			return prev, fmt.Errorf("%w: segment 0x%x: two free blocks side by side at 0x%x", ErrLayout, seg.Addr, sb.Addr)
		default:
			a.insertFree(i)
		}
		prev = i
	}
	if end != seg.Addr+seg.Bytes {
		return prev, fmt.Errorf("%w: segment 0x%x: its blocks end at 0x%x, it ends at 0x%x", ErrLayout, seg.Addr, end, seg.Addr+seg.Bytes)
	}
	return prev, nil
}

// pend makes block i wait for another stream; which one is not known, so it is the default stream, or stream 1 for blocks of
// the default stream.
func (r *restorer) pend(i uint32, set *freeSet) {
	other := sdk.Stream(0)
	if set.stream == 0 {
		other = 1
	}
	r.a.blocks[i].state = blockLive
	r.a.addUse(i, other)
	r.a.insertEvents(i)
}

// count enters a segment in the statistics.
func (r *restorer) count(seg *trace.StateSegment) {
	a := r.a
	p := r.set(seg).pool
	kind := p.kind
	a.heldBytes += seg.Bytes
	a.st.inc(kind, StatReservedBytes, seg.Bytes)
	if p.private != nil {
		p.private.segments++
	}
	if !seg.Expandable {
		a.st.inc(kind, StatSegment, 1)
		if seg.Bytes >= a.cfg.maxSplitBytes {
			a.st.oversizeSegment.inc(1)
		}
	}
	for k := range seg.Blocks {
		sb := &seg.Blocks[k]
		if sb.Handle == 0 && !sb.Pending {
			if !seg.Expandable && len(seg.Blocks) > 1 {
				a.st.inc(kind, StatInactiveSplit, 1)
				a.st.inc(kind, StatInactiveSplitBytes, sb.Bytes)
			}
			continue
		}
		if p.private != nil {
			p.private.active++
		}
		requested := sb.RequestedBytes
		if requested == 0 {
			requested = sb.Bytes
		}
		a.st.inc(kind, StatActive, 1)
		a.st.inc(kind, StatActiveBytes, sb.Bytes)
		a.st.inc(kind, StatRequestedBytes, requested)
		if !sb.Pending {
			a.st.inc(kind, StatAllocation, 1)
			a.st.inc(kind, StatAllocatedBytes, sb.Bytes)
			if sb.Bytes >= a.cfg.maxSplitBytes {
				a.st.oversizeAllocations.inc(1)
			}
		}
	}
}
