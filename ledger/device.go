package ledger

import "github.com/gpubench/gpubench/trace"

// phys is physical memory made by Create. It is charged until it is released and no mapping of it is left, as in CUDA.
type phys struct {
	size     uint64
	maps     uint32
	first    uint32 // its mappings, linked by mapping.next
	released bool
}

// mapping is a mapped range.
type mapping struct {
	phys       uint64
	next, prev uint32
	declared   bool // came with a start state: its physical memory is not known
}

// objects is what the strategy holds from the device besides the regions of the spaces.
type objects struct {
	phys     map[uint64]phys
	maps     ranges[mapping]
	reserves ranges[struct{}]
	charged  uint64 // bytes charged to the device
	declared bool   // a start state brought mappings whose physical memory and reservations have no name
	total    uint64 // total bytes as the device told first; 0 = not told
}

func (o *objects) reset() {
	clear(o.phys)
	o.maps.reset()
	o.reserves.reset()
	o.charged, o.declared, o.total = 0, false, 0
}

// charge rounds up to the device's page.
func (l *Ledger) charge(size uint64) uint64 {
	p := l.cfg.DevicePageBytes
	if p <= 1 {
		return size
	}
	if r := size % p; r != 0 {
		return size + (p - r)
	}
	return size
}

// badRange reports a device answer that no device may give: an empty range or one that wraps.
func (l *Ledger) badRange(c *trace.Call) bool {
	if c.Size != 0 && !wraps(c.Addr, c.Size) {
		return false
	}
	l.breach(CheckConservation, CodeDeviceOverlap, 0, "a range of at least one byte below 2^64", callText(c))
	return true
}

// malloc enters what Malloc, managed or host allocation answered.
func (l *Ledger) malloc(c *trace.Call, kind regionKind) {
	if l.badRange(c) {
		return
	}
	sp := &l.dev
	if kind == regionHost {
		sp = &l.host
	}
	if other := sp.hold(c.Addr, c.Size, kind, 0, l.n); other != noItem {
		l.deviceOverlap(c, sp, other)
		return
	}
	l.dirty = true
	if kind == regionMalloc {
		l.obj.charged += l.charge(c.Size)
	}
	l.checkHeld(c)
}

// checkHeld is the check of capacity and limit after memory was taken.
func (l *Ledger) checkHeld(c *trace.Call) {
	if t := l.cfg.DeviceTotalBytes; t != 0 && l.obj.charged > t {
		l.breach(CheckConservation, CodeOverCapacity, 0, "at most the device's "+bytesText(t), bytesText(l.obj.charged)+" charged after "+callText(c))
	}
	if t := l.cfg.LimitBytes; t != 0 && l.dev.held > t {
		l.breach(CheckStatistics, CodeOverLimit, 0, "reserved within the limit of "+bytesText(t), bytesText(l.dev.held)+" after "+callText(c))
	}
}

// free is Free and HostFree.
func (l *Ledger) free(c *trace.Call, host bool) {
	sp := &l.dev
	if host {
		sp = &l.host
	}
	id := sp.region(c.Addr)
	ok := id != noItem && sp.items[id].addr == c.Addr && sp.meta[id].rkind != regionMapped
	switch {
	case c.Status == trace.CallInvalidValue && !ok:
		l.breach(CheckConservation, CodeUnknownFree, 0, "the address of a segment that is held", callText(c)+" of something not held")
		return
	case c.Status != trace.CallOK:
		return
	case !ok:
		l.breach(CheckConservation, CodeUnknownFree, 0, "the address of a segment that is held", callText(c)+" of something not held, accepted by the device")
		return
	}
	m := sp.meta[id]
	if c.Size != 0 && c.Size != m.bytes {
		l.breach(CheckConservation, CodeUnknownFree, 0, "the size of the segment, "+bytesText(m.bytes), callText(c))
	}
	l.giveUp(sp, c.Addr, m.bytes, c)
	if m.rkind == regionMalloc {
		l.obj.charged -= l.charge(m.bytes)
	}
}

// giveUp takes a range out of a space. Blocks in it are a breach, except while the strategy closes.
func (l *Ledger) giveUp(sp *space, addr, size uint64, c *trace.Call) {
	l.dirty = true
	for at := sp.firstIn(addr, size); at.dir >= 0; at = sp.firstIn(addr, size) {
		id := sp.idx.id(at)
		if sp.meta[id].kind == itemBlock && !l.closing {
			l.segmentInUse(&sp.items[id], c)
		}
		l.evict(sp, id)
	}
	if l.picture != nil && sp == &l.dev {
		l.picture.segment(addr, size, sp.meta[sp.region(addr)].born, l.n)
	}
	sp.carve(addr, size)
	if sp == &l.dev && l.shadow.ghosts.len() > 0 {
		l.shadow.forget(addr, size)
	}
}

// evict takes one item out of a space and out of its block's list; the block stays counted.
func (l *Ledger) evict(sp *space, id uint32) {
	m := sp.meta[id]
	b := &l.blocks[sp.items[id].slot]
	if m.kind == itemBlock {
		b.flags |= blockAstray
	}
	if b.item == id {
		b.item = m.next
	} else {
		for p := b.item; p != noItem; p = sp.meta[p].next {
			if sp.meta[p].next == id {
				sp.meta[p].next = m.next
				break
			}
		}
	}
	sp.remove(id)
}

// reserve and unreserve keep the virtual ranges.
func (l *Ledger) reserve(c *trace.Call) {
	if l.badRange(c) {
		return
	}
	if id := l.obj.reserves.first(c.Addr, c.Size); id != noItem || l.dev.heldAny(c.Addr, c.Size) != noItem {
		l.breach(CheckConservation, CodeDeviceOverlap, 0, "a virtual range that is not in use", callText(c))
		return
	}
	l.obj.reserves.add(c.Addr, c.Size, struct{}{})
}

func (l *Ledger) unreserve(c *trace.Call) {
	id := l.obj.reserves.holding(c.Addr)
	if id == noItem || l.obj.reserves.recs[id].addr != c.Addr {
		if !l.obj.declared {
			l.breach(CheckConservation, CodeUnknownFree, 0, "the address of a reserved range", callText(c))
		}
		return
	}
	r := l.obj.reserves.recs[id]
	if l.obj.maps.first(r.addr, r.size) != noItem {
		l.breach(CheckConservation, CodeSegmentInUse, 0, "a range without mappings", callText(c))
	}
	l.obj.reserves.remove(id)
}

// create and release keep the physical memory.
func (l *Ledger) create(c *trace.Call) {
	if l.obj.phys == nil {
		l.obj.phys = map[uint64]phys{}
	}
	if p, ok := l.obj.phys[c.Aux]; c.Size == 0 || ok && !p.released {
		l.breach(CheckConservation, CodeDeviceOverlap, 0, "a new physical handle of at least one byte", callText(c))
		return
	}
	l.obj.phys[c.Aux] = phys{size: c.Size, first: noItem}
	l.obj.charged += l.charge(c.Size)
	l.dirty = true
	l.checkHeld(c)
}

func (l *Ledger) release(c *trace.Call) {
	p, ok := l.obj.phys[c.Aux]
	if !ok || p.released {
		if !l.obj.declared {
			l.breach(CheckConservation, CodeUnknownFree, 0, "a physical handle that is held", callText(c))
		}
		return
	}
	p.released = true
	l.settle(c.Aux, p)
}

// settle stores a physical handle, or ends it when it is released and nowhere mapped.
func (l *Ledger) settle(h uint64, p phys) {
	if p.released && p.maps == 0 {
		delete(l.obj.phys, h)
		l.obj.charged -= l.charge(p.size)
		l.dirty = true
		return
	}
	l.obj.phys[h] = p
}

// mapRange enters a mapping. Where its physical memory is mapped elsewhere and in use there, the new range is in use too.
func (l *Ledger) mapRange(c *trace.Call) {
	if l.badRange(c) {
		return
	}
	p, ok := l.obj.phys[c.Aux]
	r := l.obj.reserves.holding(c.Addr)
	switch {
	case !ok:
		l.breach(CheckConservation, CodeMapConflict, 0, "physical memory that is held", callText(c))
		return
	case c.Size > p.size:
		l.breach(CheckConservation, CodeMapConflict, 0, "at most the "+bytesText(p.size)+" of the physical memory", callText(c))
		return
	case r == noItem || l.obj.reserves.recs[r].size-(c.Addr-l.obj.reserves.recs[r].addr) < c.Size:
		if !l.obj.declared {
			l.breach(CheckConservation, CodeMapConflict, 0, "an address inside a reserved range", callText(c))
			return
		}
	}
	if other := l.dev.hold(c.Addr, c.Size, regionMapped, r, l.n); other != noItem {
		l.deviceOverlap(c, &l.dev, other)
		return
	}
	l.dirty = true
	id := l.obj.maps.add(c.Addr, c.Size, mapping{phys: c.Aux, next: p.first, prev: noItem})
	if p.first != noItem {
		l.obj.maps.recs[p.first].val.prev = id
	}
	p.first = id
	p.maps++
	l.obj.phys[c.Aux] = p
	if p.maps > 1 {
		if p.maps == 2 {
			l.aliased++
		}
		l.inheritShadows(id)
	}
	l.checkHeld(c)
}

// unmapRange ends whole mappings.
func (l *Ledger) unmapRange(c *trace.Call) {
	if l.badRange(c) {
		return
	}
	end := c.Addr + c.Size
	for at := c.Addr; at < end; {
		id := l.obj.maps.holding(at)
		if id == noItem {
			l.breach(CheckConservation, CodeUnknownFree, 0, "mapped memory", callText(c))
			return
		}
		m := l.obj.maps.recs[id]
		if m.addr < c.Addr || m.addr+m.size > end {
			if !m.val.declared {
				l.breach(CheckConservation, CodeMapConflict, 0, "whole mappings", callText(c))
				return
			}
			l.trimDeclared(id, at, min(end, m.addr+m.size))
		} else {
			l.dropMapping(id)
		}
		stop := min(end, m.addr+m.size)
		l.giveUp(&l.dev, at, stop-at, c)
		at = stop
	}
}

// trimDeclared unmaps [from, to) of a mapping whose pieces are not known.
func (l *Ledger) trimDeclared(id uint32, from, to uint64) {
	m := l.obj.maps.recs[id]
	l.obj.maps.remove(id)
	if m.addr < from {
		l.obj.maps.add(m.addr, from-m.addr, m.val)
	}
	if end := m.addr + m.size; to < end {
		l.obj.maps.add(to, end-to, m.val)
	}
	l.obj.charged -= to - from
}

func (l *Ledger) dropMapping(id uint32) {
	m := l.obj.maps.recs[id]
	l.obj.maps.remove(id)
	if m.val.declared {
		l.obj.charged -= m.size
		return
	}
	if m.val.next != noItem {
		l.obj.maps.recs[m.val.next].val.prev = m.val.prev
	}
	p := l.obj.phys[m.val.phys]
	if m.val.prev != noItem {
		l.obj.maps.recs[m.val.prev].val.next = m.val.next
	} else {
		p.first = m.val.next
	}
	p.maps--
	if p.maps == 1 {
		l.aliased--
	}
	l.settle(m.val.phys, p)
}

// castShadows marks the other addresses of the physical memory under a block's range as in use.
func (l *Ledger) castShadows(slot uint32, b *block, r span) {
	end := r.addr + r.size
	for at := r.addr; at < end; {
		id := l.obj.maps.holding(at)
		if id == noItem {
			return // not mapped memory: a segment has one address only
		}
		m := l.obj.maps.recs[id]
		stop := min(end, m.addr+m.size)
		if !m.val.declared {
			for o := l.obj.phys[m.val.phys].first; o != noItem; o = l.obj.maps.recs[o].val.next {
				if o != id {
					l.castShadow(slot, b, span{l.obj.maps.recs[o].addr + (at - m.addr), stop - at}, o)
				}
			}
		}
		at = stop
	}
}

// castShadow marks one other address of a block's bytes; what is there already must be the block's own or shared with it.
func (l *Ledger) castShadow(slot uint32, b *block, s span, onto uint32) {
	m := &l.obj.maps.recs[onto]
	if s.addr-m.addr >= m.size { // mapped shorter there
		return
	}
	s.size = min(s.size, m.size-(s.addr-m.addr))
	if id := l.dev.place(s.addr, s.size, slot, itemShadow, l.n); id != noItem {
		l.link(&l.dev, b, id)
		return
	}
	at := l.dev.firstIn(s.addr, s.size)
	if at.dir < 0 {
		return
	}
	if owner := l.dev.items[l.dev.idx.id(at)].slot; owner != slot && !l.sharesWith(slot, owner) {
		l.misplaced(b, slot, s)
	}
}

// inheritShadows marks a new mapping as in use where its physical memory is in use under another address.
func (l *Ledger) inheritShadows(id uint32) {
	m := l.obj.maps.recs[id]
	o := m.val.next // the mapping before it: all others have the same shadows or blocks
	from := l.obj.maps.recs[o]
	for at := l.dev.firstIn(from.addr, from.size); at.dir >= 0; at = l.dev.idx.next(at) {
		it := l.dev.items[l.dev.idx.id(at)]
		if it.addr >= from.addr+from.size {
			return
		}
		if it.size == 0 {
			continue
		}
		lo, hi := max(it.addr, from.addr), min(it.end(), from.addr+from.size)
		l.castShadow(it.slot, &l.blocks[it.slot], span{m.addr + (lo - from.addr), hi - lo}, id)
		at = l.dev.idx.floor(it.addr) // the index may have moved; a head lies before the block at its address
	}
}
