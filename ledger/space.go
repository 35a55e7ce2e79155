package ledger

import "math/bits"

// regionKind says how a region of a space is held.
type regionKind uint8

const (
	regionMalloc  regionKind = iota // from Malloc: freed whole
	regionManaged                   // managed memory: freed whole, not charged to the device
	regionMapped                    // mapped ranges of one reservation: grows, shrinks, joins
	regionHost                      // pinned host memory
)

// itemKind tells the entries of a space apart.
type itemKind uint8

const (
	itemFree   itemKind = iota // not in use
	itemHead                   // start of a region: owns no bytes, only the gap before the first block
	itemBlock                  // a block or one extent of it
	itemShadow                 // the bytes lie under another address whose physical memory a live block uses
)

const noItem = ^uint32(0)

// item is one entry of a space. Every byte of a region lies either in one block or shadow, or in the gap behind exactly
// one item; so a block fits where it was put if and only if it lies inside the gap of the item below it.
type item struct {
	addr  uint64
	size  uint64 // head: bytes of the region; else bytes of the item
	gap   uint64 // free bytes between the end of this item and the next item or the end of the region
	pos   uint32 // place of the gap in its bin
	slot  uint32 // block, shadow: the owner
	next  uint32 // further extents of the same block; noItem ends the list
	key   uint32 // head: the reservation (mapped)
	born  uint64 // event, for the picture
	kind  itemKind
	rkind regionKind
}

// end returns the first address behind the bytes the item owns.
func (it *item) end() uint64 {
	if it.kind == itemHead {
		return it.addr
	}
	return it.addr + it.size
}

// space is one address space: regions held, the items in them, and the gaps.
type space struct {
	items   []item
	spare   []uint32
	idx     index // all items
	regions index // heads only
	gaps    gapSet
	now     uint64 // number of states counted so far: clock of the gap sums
	held    uint64 // bytes in regions
	whole   uint64 // bytes of malloc and managed regions without a block
}

func (s *space) reset() {
	s.items, s.spare = s.items[:0], s.spare[:0]
	s.idx.reset()
	s.regions.reset()
	s.gaps.reset()
	s.now, s.held, s.whole = 0, 0, 0
}

func (s *space) newItem(it item) uint32 {
	if k := len(s.spare); k > 0 {
		id := s.spare[k-1]
		s.spare = s.spare[:k-1]
		s.items[id] = it
		return id
	}
	s.items = append(s.items, it)
	return uint32(len(s.items) - 1)
}

func (s *space) freeItem(id uint32) {
	s.items[id].kind = itemFree
	s.spare = append(s.spare, id)
}

// setGap changes the gap behind an item.
func (s *space) setGap(id uint32, size uint64) {
	it := &s.items[id]
	old := it.gap
	if old == size {
		return
	}
	if it.kind == itemHead && it.rkind < regionMapped {
		if old == it.size {
			s.whole -= it.size
		}
		if size == it.size {
			s.whole += it.size
		}
	}
	s.gaps.account(old, size, s.now)
	if old != 0 {
		if moved := s.gaps.take(old, it.pos); moved != id {
			s.items[moved].pos = it.pos
		}
	}
	it.gap = size
	if size != 0 {
		it.pos = s.gaps.put(size, id)
	}
}

// region returns the head of the region that holds addr, or noItem.
func (s *space) region(addr uint64) uint32 {
	c := s.regions.floor(addr)
	if c.dir < 0 {
		return noItem
	}
	id := s.regions.id(c)
	if h := &s.items[id]; addr-h.addr >= h.size {
		return noItem
	}
	return id
}

// heldAny returns the head of a region that has bytes in [addr, addr+size), or noItem.
func (s *space) heldAny(addr, size uint64) uint32 {
	c := s.regions.floor(addr + size - 1)
	if c.dir < 0 {
		return noItem
	}
	id := s.regions.id(c)
	if h := &s.items[id]; h.addr+(h.size-1) < addr {
		return noItem
	}
	return id
}

// hold enters a region. Mapped ranges join the regions of the same reservation that they touch. It returns noItem, or the
// head of a region that is in the way, and then changes nothing. The range is not empty and does not wrap.
func (s *space) hold(addr, size uint64, kind regionKind, key uint32, event uint64) (conflict uint32) {
	if c := s.heldAny(addr, size); c != noItem {
		return c
	}
	s.held += size
	tail := uint64(0) // bytes of a region behind, taken over
	gap := size
	if kind == regionMapped {
		if id := s.region(addr + size); id != noItem && addr+size != 0 {
			if h := s.items[id]; h.addr == addr+size && h.kind == itemHead && h.rkind == kind && h.key == key {
				tail = h.size
				gap += h.gap
				s.dropHead(id)
			}
		}
		if addr > 0 {
			if id := s.region(addr - 1); id != noItem {
				h := &s.items[id]
				if h.rkind == kind && h.key == key {
					h.size += size + tail
					last := s.idx.id(s.idx.below(addr))
					s.setGap(last, s.items[last].gap+gap)
					return noItem
				}
			}
		}
	}
	s.addHead(item{addr: addr, size: size + tail, kind: itemHead, rkind: kind, key: key, next: noItem, born: event}, gap)
	return noItem
}

// addHead enters a head before any block at its address.
func (s *space) addHead(it item, gap uint64) {
	id := s.newItem(it)
	s.idx.insertAfter(s.idx.below(it.addr), it.addr, id)
	s.regions.insertAfter(s.regions.below(it.addr), it.addr, id)
	s.setGap(id, gap)
}

func (s *space) dropHead(id uint32) {
	addr := s.items[id].addr
	s.setGap(id, 0)
	s.idx.remove(s.idx.find(addr, id))
	// The two indexes remember leaves by id separately.
	s.regions.remove(s.regions.find(addr, id))
	s.freeItem(id)
}

// carve takes [addr, addr+size) out of the region that holds it. No item may be left in the range.
func (s *space) carve(addr, size uint64) {
	rid := s.region(addr)
	r := &s.items[rid]
	head := *r
	below := rid
	if addr > head.addr {
		below = s.idx.id(s.idx.below(addr))
	}
	b := &s.items[below]
	bEnd, bGap := b.end(), b.gap
	s.held -= size
	right := head.addr + head.size - (addr + size)
	rightGap := bEnd + bGap - (addr + size)
	s.setGap(below, addr-bEnd)
	if addr == head.addr {
		s.dropHead(rid)
	} else {
		s.items[rid].size = addr - head.addr
	}
	if right > 0 {
		head.addr, head.size, head.gap = addr+size, right, 0
		s.addHead(head, rightGap)
	}
}

// place enters a block's range. below is the place floor gave. It returns the new item, or noItem when the range is not
// wholly free, and then changes nothing.
func (s *space) place(addr, size uint64, slot uint32, kind itemKind, event uint64) uint32 {
	c := s.idx.floor(addr)
	if c.dir < 0 {
		return noItem
	}
	below := s.idx.id(c)
	b := &s.items[below]
	end := b.end()
	off := addr - end
	if addr < end || off > b.gap || size > b.gap-off {
		return noItem
	}
	rest := b.gap - off - size
	id := s.newItem(item{addr: addr, size: size, slot: slot, next: noItem, kind: kind, born: event})
	s.setGap(below, off)
	s.idx.insertAfter(c, addr, id)
	s.setGap(id, rest)
	return id
}

// remove takes a block's range out; its bytes join the gap below.
func (s *space) remove(id uint32) {
	it := &s.items[id]
	c := s.idx.find(it.addr, id)
	below := s.idx.id(s.idx.prev(c))
	gap := it.size + it.gap
	s.setGap(id, 0)
	s.idx.remove(c)
	s.setGap(below, s.items[below].gap+gap)
	s.freeItem(id)
}

// firstIn returns the place of the first block or shadow with bytes in [addr, addr+size), or noCursor.
func (s *space) firstIn(addr, size uint64) cursor {
	c := s.idx.below(addr)
	if c.dir >= 0 {
		if it := &s.items[s.idx.id(c)]; it.end() > addr {
			return c
		}
	}
	for c = s.idx.next(c); c.dir >= 0; c = s.idx.next(c) {
		it := &s.items[s.idx.id(c)]
		if it.addr-addr >= size {
			return noCursor
		}
		if it.kind != itemHead {
			return c
		}
	}
	return noCursor
}

// at returns the block that starts at addr, or noItem.
func (s *space) at(addr uint64) uint32 {
	c := s.idx.floor(addr)
	if c.dir < 0 {
		return noItem
	}
	id := s.idx.id(c)
	if it := &s.items[id]; it.addr != addr || it.kind != itemBlock {
		return noItem
	}
	return id
}

// wraps reports whether [addr, addr+size) runs past the end of the address space.
func wraps(addr, size uint64) bool {
	_, c := bits.Add64(addr, size, 0)
	return c != 0
}
