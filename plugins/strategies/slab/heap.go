package slab

import (
	"math/bits"
	"unsafe"

	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Heap places blocks in slabs, and large ones in the backing. Make one with New.
type Heap struct {
	base    uint64
	bytes   uint64
	backing *fit.Heap
	slabs   []slab // [0] unused
	spare   [numClasses]uint32
	partial [numClasses]heapByAddr
	at      addrmap.Map // first address of a slab -> its index, for Inspect
}

// slab is a run of blocks of one class.
type slab struct {
	addr, ref uint64 // in the backing; ref 0: not in use
	gen       uint32
	class     uint8
	place     int32 // in the heap of its class, -1: full
	live      uint32
	fresh     uint32   // blocks from here on were never used
	top       uint16   // 1 + the block freed last; 0: none
	next      []uint16 // 1 + the block freed before
	used      []uint64 // bitmap of the live blocks
	spare     uint32
}

// bigRef marks the references of blocks of the backing; its own never have this bit, since generations stay far below 2^31.
const bigRef = 1 << 63

// New returns an empty heap of [base, base+bytes).
func New(base, bytes uint64) *Heap {
	return &Heap{base: base, bytes: bytes, backing: fit.New(fit.Best, base, bytes), slabs: make([]slab, 1)}
}

// Reset frees everything.
func (h *Heap) Reset() {
	for i := 1; i < len(h.slabs); i++ {
		if h.slabs[i].ref != 0 {
			h.retire(uint32(i))
		}
	}
	for c := range h.partial {
		h.partial[c] = h.partial[c][:0]
	}
	h.at.Reset()
	h.backing.Reset()
}

// Alloc takes a block of the class, or of the backing.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	if size <= MaxClassBytes {
		class := classOf(size)
		if bytes := classBytes(class); align <= 1 || align <= fit.UnitBytes && bytes%align == 0 {
			if len(h.partial[class]) != 0 || h.newSlab(class) {
				return h.take(class, bytes)
			}
		}
	}
	addr, granted, ref, ok = h.backing.Alloc(size, align)
	return addr, granted, ref | bigRef, ok
}

// take takes a block of the lowest partial slab of the class, of which there is one.
func (h *Heap) take(class int, bytes uint64) (addr, granted, ref uint64, ok bool) {
	i := h.partial[class][0]
	s := &h.slabs[i]
	var k uint32
	if s.top != 0 {
		k = uint32(s.top - 1)
		s.top = s.next[k]
	} else {
		k = s.fresh
		s.fresh++
	}
	s.used[k/64] |= 1 << (k % 64)
	s.live++
	if s.live == uint32(len(s.next)) {
		h.partial[class].remove(h.slabs, 0)
	}
	return s.addr + uint64(k)*bytes, bytes, uint64(s.gen)<<32 | uint64(i), true
}

// newSlab takes a slab from the backing.
func (h *Heap) newSlab(class int) bool {
	addr, _, ref, ok := h.backing.Alloc(slabBytes(class), fit.UnitBytes)
	if !ok {
		return false
	}
	i := h.spare[class]
	if i != 0 {
		h.spare[class] = h.slabs[i].spare
	} else {
		i = uint32(len(h.slabs))
		blocks := slabBytes(class) / classBytes(class)
		h.slabs = append(h.slabs, slab{gen: 1, class: uint8(class), next: make([]uint16, blocks), used: make([]uint64, (blocks+63)/64)})
	}
	s := &h.slabs[i]
	s.addr, s.ref, s.live, s.fresh, s.top = addr, ref, 0, 0, 0
	h.at.Put(addr, i)
	h.partial[class].push(h.slabs, i)
	return true
}

// retire makes slab i, whose memory and place in a heap are gone, ready for its next life.
func (h *Heap) retire(i uint32) {
	s := &h.slabs[i]
	clear(s.used)
	s.ref = 0
	s.gen = (s.gen + 1) &^ (1 << 31)
	s.spare = h.spare[s.class]
	h.spare[s.class] = i
}

// find returns the slab and the number of a live block.
func (h *Heap) find(addr, ref uint64) (i, k uint32, ok bool) {
	i = uint32(ref)
	if i == 0 || uint64(i) >= uint64(len(h.slabs)) {
		return 0, 0, false
	}
	s := &h.slabs[i]
	if s.ref == 0 || s.gen != uint32(ref>>32) || addr < s.addr {
		return 0, 0, false
	}
	bytes := classBytes(int(s.class))
	at := (addr - s.addr) / bytes
	if at >= uint64(len(s.next)) || addr != s.addr+at*bytes {
		return 0, 0, false
	}
	return i, uint32(at), s.used[at/64]>>(at%64)&1 != 0
}

// Free puts a block on the stack of its slab; an empty slab goes back.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	if ref&bigRef != 0 {
		return h.backing.Free(addr, granted, ref&^bigRef)
	}
	i, k, ok := h.find(addr, ref)
	if !ok {
		return false
	}
	s := &h.slabs[i]
	s.used[k/64] &^= 1 << (k % 64)
	s.next[k] = s.top
	s.top = uint16(k + 1)
	partial := &h.partial[s.class]
	if s.live == uint32(len(s.next)) {
		partial.push(h.slabs, i)
	}
	if s.live--; s.live == 0 {
		partial.remove(h.slabs, int(s.place))
		h.at.Delete(s.addr)
		h.backing.Free(s.addr, 0, s.ref)
		h.retire(i)
	}
	return true
}

// Live reports whether ref names the live block at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool {
	if ref&bigRef != 0 {
		return h.backing.Live(addr, granted, ref&^bigRef)
	}
	_, _, ok := h.find(addr, ref)
	return ok
}

// Inspect appends the segment: the blocks of the backing, with slabs replaced by their blocks.
func (h *Heap) Inspect(in *sdk.Inspection) {
	var back sdk.Inspection
	h.backing.Inspect(&back)
	seg := back.Segments[0]
	blocks := make([]sdk.InspectedBlock, 0, len(seg.Blocks))
	for _, b := range seg.Blocks {
		if i := h.at.Get(b.Addr); i != 0 && b.State == "live" {
			blocks = h.slabs[i].inspect(blocks, b.Bytes)
			continue
		}
		blocks = append(blocks, b)
	}
	seg.Blocks = blocks
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, back.FreeLists...)
	in.MetaBytes += back.MetaBytes + uint64(cap(h.slabs))*uint64(unsafe.Sizeof(slab{}))
	for i := range h.slabs {
		in.MetaBytes += uint64(len(h.slabs[i].next))*2 + uint64(len(h.slabs[i].used))*8
	}
}

// inspect appends the blocks of the slab, free neighbours joined.
func (s *slab) inspect(out []sdk.InspectedBlock, total uint64) []sdk.InspectedBlock {
	bytes := classBytes(int(s.class))
	at := s.addr
	for w, word := range s.used {
		for ; word != 0; word &= word - 1 {
			addr := s.addr + uint64(w*64+bits.TrailingZeros64(word))*bytes
			if addr > at {
				out = append(out, sdk.InspectedBlock{Addr: at, Bytes: addr - at, State: "free"})
			}
			out = append(out, sdk.InspectedBlock{Addr: addr, Bytes: bytes, State: "live"})
			at = addr + bytes
		}
	}
	if end := s.addr + total; at < end {
		out = append(out, sdk.InspectedBlock{Addr: at, Bytes: end - at, State: "free"})
	}
	return out
}

// heapByAddr is a binary heap of slabs with the lowest address on top.
type heapByAddr []uint32

func (q heapByAddr) swap(slabs []slab, a, b int) {
	q[a], q[b] = q[b], q[a]
	slabs[q[a]].place, slabs[q[b]].place = int32(a), int32(b)
}

func (q *heapByAddr) push(slabs []slab, i uint32) {
	*q = append(*q, i)
	slabs[i].place = int32(len(*q) - 1)
	q.up(slabs, len(*q)-1)
}

func (q *heapByAddr) remove(slabs []slab, at int) {
	last := len(*q) - 1
	q.swap(slabs, at, last)
	slabs[(*q)[last]].place = -1
	*q = (*q)[:last]
	if at < last {
		q.up(slabs, q.down(slabs, at))
	}
}

func (q heapByAddr) up(slabs []slab, at int) {
	for at > 0 && slabs[q[at]].addr < slabs[q[(at-1)/2]].addr {
		q.swap(slabs, at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (q heapByAddr) down(slabs []slab, at int) int {
	for {
		child := 2*at + 1
		if child >= len(q) {
			return at
		}
		if child+1 < len(q) && slabs[q[child+1]].addr < slabs[q[child]].addr {
			child++
		}
		if slabs[q[at]].addr <= slabs[q[child]].addr {
			return at
		}
		q.swap(slabs, at, child)
		at = child
	}
}

var _ arena.Heap = (*Heap)(nil)
