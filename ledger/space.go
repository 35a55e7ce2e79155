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

// item is one entry of a space: what every event touches, 32 bytes. Every byte of a region lies either in one block or
// shadow, or in the gap behind exactly one item; so a block fits where it was put if and only if it lies inside the gap of
// the item below it.
type item struct {
	addr uint64
	size uint64 // 0 for a head: it owns no bytes
	gap  uint64 // free bytes between the end of this item and the next item or the end of the region
	pos  uint32 // place of the gap in its bin
	slot uint32 // block, shadow: the owner
}

// itemMeta is the rest of an item.
type itemMeta struct {
	bytes uint64 // head: bytes of the region
	born  uint64 // event, for the picture
	next  uint32 // further extents of the same block; noItem ends the list
	key   uint32 // head: the reservation (mapped)
	kind  itemKind
	rkind regionKind
}

// end returns the first address behind the bytes the item owns.
func (it *item) end() uint64 { return it.addr + it.size }

// space is one address space: regions held, the items in them, and the gaps.
type space struct {
	items   []item
	meta    []itemMeta
	spare   []uint32
	idx     index // all items
	regions index // heads only
	gaps    gapSet
	now     uint64 // number of states counted so far: clock of the gap sums
	held    uint64 // bytes in regions
	whole   uint64 // bytes of malloc and managed regions without a block
}

func (s *space) reset() {
	s.items, s.meta, s.spare = s.items[:0], s.meta[:0], s.spare[:0]
	s.idx.reset()
	s.regions.reset()
	s.gaps.reset()
	s.now, s.held, s.whole = 0, 0, 0
}

func (s *space) newItem(it item, m itemMeta) uint32 {
	if k := len(s.spare); k > 0 {
		id := s.spare[k-1]
		s.spare = s.spare[:k-1]
		s.items[id], s.meta[id] = it, m
		return id
	}
	s.items, s.meta = append(s.items, it), append(s.meta, m)
	return uint32(len(s.items) - 1)
}

func (s *space) freeItem(id uint32) {
	s.meta[id].kind = itemFree
	s.items[id].gap = 0
	s.spare = append(s.spare, id)
}

// setGap changes the gap behind an item.
func (s *space) setGap(id uint32, size uint64) {
	it := &s.items[id]
	old := it.gap
	if old == size {
		return
	}
	if it.size == 0 {
		if m := &s.meta[id]; m.rkind < regionMapped {
			if old == m.bytes {
				s.whole -= old
			}
			if size == m.bytes {
				s.whole += size
			}
		}
	}
	s.gaps.account(old, size, s.now)
	if old != 0 {
		if moved := s.gaps.take(old, it.pos, id); moved != id {
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
	if addr-s.items[id].addr >= s.meta[id].bytes {
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
	if s.items[id].addr+(s.meta[id].bytes-1) < addr {
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
			if h, m := s.items[id], s.meta[id]; h.addr == addr+size && m.rkind == kind && m.key == key {
				tail = m.bytes
				gap += h.gap
				s.dropHead(id)
			}
		}
		if addr > 0 {
			if id := s.region(addr - 1); id != noItem {
				h := &s.meta[id]
				if h.rkind == kind && h.key == key {
					h.bytes += size + tail
					last := s.idx.id(s.idx.below(addr))
					s.setGap(last, s.items[last].gap+gap)
					return noItem
				}
			}
		}
	}
	s.addHead(addr, itemMeta{bytes: size + tail, kind: itemHead, rkind: kind, key: key, next: noItem, born: event}, gap)
	return noItem
}

// addHead enters a head before any block at its address.
func (s *space) addHead(addr uint64, m itemMeta, gap uint64) {
	id := s.newItem(item{addr: addr}, m)
	s.idx.insertAfter(s.idx.below(addr), addr, id)
	s.regions.insertAfter(s.regions.below(addr), addr, id)
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
	start, m := s.items[rid].addr, s.meta[rid]
	below := rid
	if addr > start {
		below = s.idx.id(s.idx.below(addr))
	}
	b := &s.items[below]
	bEnd, bGap := b.end(), b.gap
	s.held -= size
	right := start + m.bytes - (addr + size)
	rightGap := bEnd + bGap - (addr + size)
	s.setGap(below, addr-bEnd)
	if addr == start {
		s.dropHead(rid)
	} else {
		s.meta[rid].bytes = addr - start
	}
	if right > 0 {
		m.bytes = right
		s.addHead(addr+size, m, rightGap)
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
	id := s.newItem(item{addr: addr, size: size, slot: slot}, itemMeta{next: noItem, kind: kind, born: event})
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
		if it.size != 0 {
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
	if it := &s.items[id]; it.addr != addr || s.meta[id].kind != itemBlock {
		return noItem
	}
	return id
}

// largest returns the size of the largest gap; 0 when nothing is free.
func (s *space) largest() uint64 {
	if s.gaps.tracked == 0 && s.gaps.total > 0 {
		s.track()
	}
	return s.gaps.largest()
}

// track enters the largest gaps in their bins: at least trackMin, or all there are.
func (s *space) track() {
	var perBin [numBins]int
	for i := range s.items {
		if g := s.items[i].gap; g != 0 {
			perBin[binOf(g)]++
		}
	}
	low, n := numBins, 0
	for low > 0 && n < trackMin {
		low--
		n += perBin[low]
	}
	s.gaps.low, s.gaps.raiseAt = low, max(trackMax, 2*n)
	for i := range s.items {
		if g := s.items[i].gap; g != 0 && binOf(g) >= low {
			s.items[i].pos = s.gaps.put(g, uint32(i))
		}
	}
}

// wraps reports whether [addr, addr+size) runs past the end of the address space.
func wraps(addr, size uint64) bool {
	_, c := bits.Add64(addr, size, 0)
	return c != 0
}
