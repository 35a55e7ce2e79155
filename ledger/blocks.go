package ledger

import "github.com/gpubench/gpubench/trace"

// Flags of a block.
const (
	blockLive   uint8 = 1 << iota
	blockHost         // lives in host memory
	blockAstray       // its range was wrong (a violation): counted, but not in the books of its space
)

// block is what the program holds under one slot: 64 bytes, one cache line.
type block struct {
	handle    trace.Handle
	addr      uint64
	requested uint64
	granted   uint64
	shared    uint64 // bytes of it that it shares with a block that was there before
	item      uint32 // its ranges, linked by item.next; noItem = none
	uses      uint32 // uses on other streams that were not complete
	tag       uint32
	stream    uint16
	flags     uint8
	sharedOut bool // another block shares bytes of it
	several   bool // has more than one item
	_         [7]byte
}

// share is a range that sharer uses and owner stands for in the books. When owner goes, the range passes to sharer.
type share struct {
	addr, size    uint64
	owner, sharer uint32
}

// span is an address range.
type span struct{ addr, size uint64 }

// ownRequested and ownGranted are what the block adds to the totals: shared bytes count once.
func (b *block) ownRequested() uint64 { return b.requested - min(b.requested, b.shared) }
func (b *block) ownGranted() uint64   { return b.granted - min(b.granted, b.shared) }

// live returns the live block of a slot if it is the handle's.
func (l *Ledger) live(slot uint32, h trace.Handle) *block {
	if int(slot) >= len(l.blocks) {
		return nil
	}
	b := &l.blocks[slot]
	if b.flags&blockLive == 0 || b.handle != h {
		return nil
	}
	return b
}

// slot returns the entry of a slot, growing the table.
func (l *Ledger) slot(slot uint32) *block {
	for int(slot) >= len(l.blocks) {
		l.blocks = append(l.blocks, block{item: noItem, uses: noItem})
	}
	return &l.blocks[slot]
}

// spaceOf returns the space a block lives in.
func (l *Ledger) spaceOf(b *block) *space {
	if b.flags&blockHost != 0 {
		return &l.host
	}
	return &l.dev
}

// enter makes a block live: it counts, and its ranges go into the books. ranges are its extents, the first first.
func (l *Ledger) enter(slot uint32, nb block, ranges []span, shares []trace.Call) {
	nb.flags |= blockLive
	nb.item = noItem
	b := l.slot(slot)
	*b = nb
	sp := l.spaceOf(b)
	if len(ranges) == 1 && len(shares) == 0 && l.aliased == 0 && sp == &l.dev {
		r := ranges[0]
		if l.shadow.ghosts.len() > 0 {
			l.checkStreams(b, r)
		}
		if id := sp.place(r.addr, r.size, slot, itemBlock, l.n); id != noItem {
			b.item = id
		} else {
			l.misplaced(b, slot, r)
		}
	} else {
		l.enterSlow(slot, ranges, shares)
	}
	l.count(b, 1)
}

// count adds (sign 1) or takes away (−1) a block from the totals.
func (l *Ledger) count(b *block, sign int) {
	l.dirty = true
	req, gr, one := b.ownRequested(), b.ownGranted(), uint64(1)
	if sign < 0 {
		req, gr, one = -req, -gr, -one
	}
	if b.flags&blockHost != 0 {
		l.spilledBytes += req
		l.spilledBlocks += one
		return
	}
	l.liveBytes += req
	l.grantedBytes += gr
	l.liveBlocks += one
}

// leave ends a block: its ranges go back to the gaps, its uses live on as ghosts where keepUses is set.
func (l *Ledger) leave(slot uint32, freer uint16, keepUses bool) {
	b := &l.blocks[slot]
	l.count(b, -1)
	sp := l.spaceOf(b)
	for id := b.item; id != noItem; {
		it := &sp.items[id]
		next := noItem
		if b.several {
			next = sp.meta[id].next
		}
		if keepUses && l.shadow.manual && !l.cfg.IgnoreStreams && b.flags&blockHost == 0 && sp.meta[id].kind == itemBlock {
			l.haunt(b, it.addr, it.size, freer)
		}
		if l.picture != nil {
			l.pictureEnd(sp, id, b)
		}
		sp.remove(id)
		id = next
	}
	b.item = noItem
	if b.uses != noItem {
		l.shadow.dropUses(b.uses)
		b.uses = noItem
	}
	b.flags, b.several = 0, false
	if b.sharedOut || b.shared != 0 {
		l.unshare(slot)
	}
}

// haunt leaves a ghost of the block's uses over a range it gives up.
func (l *Ledger) haunt(b *block, addr, size uint64, freer uint16) {
	now := l.n + 1
	l.shadow.freed(addr, size, ghost{
		own: moment{now, b.stream}, freer: moment{now, freer},
		uses: l.shadow.copyUses(b.uses), handle: b.handle,
	})
}

// checkStreams is check O7 for a range that a block takes over; the ghosts there are laid.
func (l *Ledger) checkStreams(b *block, r span) {
	if r.size == 0 || l.cfg.IgnoreStreams || wraps(r.addr, r.size) {
		return
	}
	if g := l.shadow.hazard(r.addr, r.size, b.stream); g != nil {
		l.streamHazard(b, r, g)
	}
	l.shadow.forget(r.addr, r.size)
}

// enterSlow enters blocks of several ranges, in host memory, with shared bytes or over physical memory mapped twice.
func (l *Ledger) enterSlow(slot uint32, ranges []span, shares []trace.Call) {
	b := &l.blocks[slot]
	for i := range shares {
		l.share(slot, &shares[i])
	}
	l.cut = append(l.cut[:0], ranges...)
	for i := range shares {
		l.cut = subtract(l.cut, span{shares[i].Addr, shares[i].Size})
	}
	for _, r := range l.cut {
		l.own(slot, b, r)
	}
}

// own enters one range of a block and its shadows.
func (l *Ledger) own(slot uint32, b *block, r span) {
	if r.size == 0 {
		return
	}
	if b.flags&blockHost != 0 {
		id := l.host.place(r.addr, r.size, slot, itemBlock, l.n)
		if id != noItem {
			l.link(&l.host, b, id)
			return
		}
		// Managed memory lies in the device's address space but may hold spilled blocks.
		if h := l.dev.region(r.addr); h == noItem || l.dev.meta[h].rkind != regionManaged || b.item != noItem {
			l.misplaced(b, slot, r)
			return
		}
		b.flags &^= blockHost
	}
	l.checkStreams(b, r)
	l.take(slot, b, r)
}

// take enters one range of a block on the device without asking who used it before.
func (l *Ledger) take(slot uint32, b *block, r span) {
	id := l.dev.place(r.addr, r.size, slot, itemBlock, l.n)
	if id == noItem {
		l.misplaced(b, slot, r)
		return
	}
	l.link(&l.dev, b, id)
	if l.aliased > 0 {
		l.castShadows(slot, b, r)
	}
}

// link appends an item to a block's list, so that the first extent stays first.
func (l *Ledger) link(sp *space, b *block, id uint32) {
	if b.item == noItem {
		b.item = id
		return
	}
	b.several = true
	last := b.item
	for sp.meta[last].next != noItem {
		last = sp.meta[last].next
	}
	sp.meta[last].next = id
}

// subtract cuts c out of spans.
func subtract(spans []span, c span) []span {
	for i := 0; i < len(spans); i++ {
		s := spans[i]
		lo, hi := max(s.addr, c.addr), min(s.addr+s.size, c.addr+c.size)
		if lo >= hi {
			continue
		}
		spans[i].size = lo - s.addr
		if end := s.addr + s.size; end > hi {
			spans = append(spans, span{hi, end - hi})
		}
	}
	return spans
}

// share enters one declared share of a new block. The bytes stay in the name of the block that has them.
func (l *Ledger) share(slot uint32, c *trace.Call) {
	b := &l.blocks[slot]
	if c.Size == 0 || wraps(c.Addr, c.Size) {
		l.unknownBlock(c, "share")
		return
	}
	owner := l.ownerAt(c.Aux)
	if owner == noItem {
		l.unknownBlock(c, "share")
		l.own(slot, b, span{c.Addr, c.Size})
		return
	}
	at := l.dev.firstIn(c.Addr, c.Size)
	if at.dir < 0 { // nobody has the bytes: they are the block's own
		l.own(slot, b, span{c.Addr, c.Size})
		return
	}
	holder := l.dev.items[l.dev.idx.id(at)].slot
	if holder != owner && l.blocks[holder].addr != c.Aux && !l.sharesWith(owner, holder) { // blocks that share their first bytes have one address
		l.misplaced(b, slot, span{c.Addr, c.Size})
		return
	}
	b.shared += c.Size
	l.blocks[holder].sharedOut = true
	l.shares = append(l.shares, share{c.Addr, c.Size, holder, slot})
}

// ownerAt returns the slot of the live block at an address: in its own name, or sharing the bytes there.
func (l *Ledger) ownerAt(addr uint64) uint32 {
	if id := l.dev.at(addr); id != noItem {
		return l.dev.items[id].slot
	}
	for i := range l.shares {
		if s := &l.shares[i]; l.blocks[s.sharer].addr == addr {
			return s.sharer
		}
	}
	return noItem
}

// sharesWith reports whether a uses bytes that stand in the name of b.
func (l *Ledger) sharesWith(a, b uint32) bool {
	for i := range l.shares {
		if l.shares[i].sharer == a && l.shares[i].owner == b {
			return true
		}
	}
	return false
}

// unshare settles the shares of a block that has gone: those it used end; those of it pass to the next sharer.
func (l *Ledger) unshare(slot uint32) {
	old := append([]share(nil), l.shares...)
	l.shares = l.shares[:0]
	for _, s := range old {
		if s.sharer != slot && s.owner != slot {
			l.shares = append(l.shares, s)
		}
	}
	for _, s := range old {
		if s.owner != slot || s.sharer == slot {
			continue
		}
		b := &l.blocks[s.sharer]
		if at := l.dev.firstIn(s.addr, s.size); at.dir >= 0 {
			s.owner = l.dev.items[l.dev.idx.id(at)].slot
			l.blocks[s.owner].sharedOut = true
			l.shares = append(l.shares, s)
			continue
		}
		l.count(b, -1)
		b.shared -= s.size
		l.count(b, 1)
		l.take(s.sharer, b, span{s.addr, s.size})
	}
}
