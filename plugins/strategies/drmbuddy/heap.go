package drmbuddy

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/trace"
)

// Heap answers requests from a buddy system over [base, base+bytes). Make one with New.
type Heap struct {
	base, bytes uint64
	opt         Options
	log         sdk.Log
	b           *buddies
	allocs      []alloc // [0] unused
	spare       uint32
	pieces      []piece // [0] unused
	sparePiece  uint32
	got         []node // pieces of the request in hand
	live        uint64
}

// alloc is an allocation: a list of pieces.
type alloc struct {
	addr   uint64
	first  uint32 // 0: not live, then next is the spare list
	next   uint32
	gen    uint32
	pieces uint32
}

type piece struct {
	n    node
	next uint32
}

// New returns an empty heap of [base, base+bytes); log, which may be nil, hears of extents.
func New(base, bytes uint64, opt Options, log sdk.Log) *Heap {
	return &Heap{base: base, bytes: bytes, opt: opt, log: log, b: newBuddies(bytes / opt.ChunkBytes),
		allocs: make([]alloc, 1), pieces: make([]piece, 1)}
}

// Reset frees everything; what was free stays known by its generation.
func (h *Heap) Reset() {
	h.b.reset()
	for i := 1; i < len(h.allocs); i++ {
		if h.allocs[i].first != 0 {
			h.drop(uint32(i))
		}
	}
}

// drop forgets allocation i and recycles its pieces.
func (h *Heap) drop(i uint32) {
	a := &h.allocs[i]
	last := a.first
	for h.pieces[last].next != 0 {
		last = h.pieces[last].next
	}
	h.pieces[last].next = h.sparePiece
	h.sparePiece = a.first
	h.live--
	*a = alloc{gen: a.gen + 1, next: h.spare}
	h.spare = i
}

// Alloc answers a request with one block or, unless contiguous is set, several.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	if size > h.bytes {
		return 0, 0, 0, false
	}
	chunk := h.opt.ChunkBytes
	chunks := (size + chunk - 1) / chunk
	least := max(h.opt.MinBlockBytes, align, chunk) / chunk
	h.got = h.got[:0]
	if h.opt.Contiguous {
		ok = h.contiguous(chunks, least)
	} else {
		ok = h.scattered(chunks, (chunks+least-1)/least*least, least)
	}
	if ok && align > chunk && h.addr(h.got[0])%align != 0 { // the range itself is not aligned so far
		ok = false
	}
	if !ok {
		h.giveBack()
		return 0, 0, 0, false
	}
	return h.enter()
}

func (h *Heap) addr(n node) uint64 { return h.base + n.start()*h.opt.ChunkBytes }

func (h *Heap) giveBack() {
	for _, n := range h.got {
		h.b.give(n)
	}
	h.got = h.got[:0]
}

// scattered takes blocks of falling order that add up to total chunks, none smaller than least, and trims the last one so that
// wanted chunks are left.
func (h *Heap) scattered(wanted, total, least uint64) bool {
	if total > h.b.chunks {
		return false
	}
	order, minOrder := bits.Len64(total)-1, bits.Len64(least)-1
	for left := total; left != 0; {
		order = min(order, bits.Len64(left)-1)
		n, ok := h.oneOf(&order, minOrder)
		if !ok {
			return false
		}
		h.got = append(h.got, n)
		left -= n.size()
	}
	if total != wanted && !h.opt.NoTrim {
		last := len(h.got) - 1
		h.trim(last, h.got[last].size()-(total-wanted))
	}
	return true
}

// oneOf takes a block of the order, or of a lower one down to minOrder, at last by a forced merge; order follows.
func (h *Heap) oneOf(order *int, minOrder int) (node, bool) {
	for ; *order >= minOrder; *order-- {
		if n, ok := h.b.take(*order, h.opt.ClearRequests, h.opt.Topdown); ok {
			return n, true
		}
	}
	if h.b.clear != 0 && h.b.forceMerge(minOrder) {
		*order = minOrder
		return h.b.take(minOrder, h.opt.ClearRequests, h.opt.Topdown)
	}
	return node{}, false
}

// contiguous takes one block of the next power of two and trims it, or tries harder.
func (h *Heap) contiguous(wanted, least uint64) bool {
	order := bits.Len64(wanted - 1)
	order = max(order, bits.Len64(least)-1)
	if o := order; o <= h.b.maxOrder {
		if n, ok := h.oneOf(&o, order); ok {
			h.got = append(h.got, n)
			if n.size() != wanted && !h.opt.NoTrim {
				h.trim(0, wanted)
			}
			return true
		}
	}
	return h.tryHarder(wanted, least)
}

// trim gives back all but the first chunks of piece k, which becomes several pieces.
func (h *Heap) trim(k int, chunks uint64) {
	n := h.got[k]
	h.got = h.got[:k]
	h.b.used[n.order].remove(n.i)
	h.b.putFree(n) // not merged: its halves are taken again at once
	h.got, _, _ = h.b.takeRange([]node{n}, n.start(), chunks, h.got)
}

// tryHarder extends a free block of the next lower power of two to the right, and completes it on the left.
func (h *Heap) tryHarder(wanted, least uint64) bool {
	order := bits.Len64(wanted) - 1
	if order == 0 || order > h.b.maxOrder {
		return false
	}
	for tree := range h.b.free {
		set := &h.b.free[tree][order]
		for i, ok := set.highest(); ok; i, ok = set.below(i) {
			if h.around(i<<order, wanted, least) {
				return true
			}
		}
	}
	return false
}

// around allocates wanted chunks of which as many as possible begin at start; the rest, rounded to least, lies before it.
func (h *Heap) around(start, wanted, least uint64) bool {
	var filled uint64
	var ok bool
	if h.got, filled, ok = h.b.takeRange(h.b.roots, start, wanted, h.got); ok {
		return true
	}
	left := max(wanted-filled, least)
	left = (left + least - 1) / least * least
	if left <= start {
		if h.got, _, ok = h.b.takeRange(h.b.roots, start-left, left, h.got); ok {
			slices.SortFunc(h.got, func(a, b node) int { return int(int64(a.start()) - int64(b.start())) })
			return true
		}
	}
	h.giveBack()
	return false
}

// enter makes an allocation of the pieces in hand and notes the extents beyond the first.
func (h *Heap) enter() (addr, granted, ref uint64, ok bool) {
	i := h.spare
	if i != 0 {
		h.spare = h.allocs[i].next
	} else {
		i = uint32(len(h.allocs))
		h.allocs = append(h.allocs, alloc{gen: 1})
	}
	a := &h.allocs[i]
	*a = alloc{addr: h.addr(h.got[0]), gen: a.gen, pieces: uint32(len(h.got))}
	var chunks uint64
	for k := len(h.got) - 1; k >= 0; k-- {
		a.first = h.piece(h.got[k], a.first)
		chunks += h.got[k].size()
	}
	h.noteExtents()
	h.live++
	return a.addr, chunks * h.opt.ChunkBytes, uint64(a.gen)<<32 | uint64(i), true
}

// noteExtents says where the block lies beyond its first run of adjacent pieces.
func (h *Heap) noteExtents() {
	if h.log == nil {
		return
	}
	chunk := h.opt.ChunkBytes
	start, end := h.got[0].start(), h.got[0].end()
	first := true
	for _, n := range h.got[1:] {
		if n.start() == end {
			end = n.end()
			continue
		}
		if !first {
			h.log.Note(trace.Call{Kind: trace.CallExtent, Addr: h.base + start*chunk, Size: (end - start) * chunk})
		}
		first, start, end = false, n.start(), n.end()
	}
	if !first {
		h.log.Note(trace.Call{Kind: trace.CallExtent, Addr: h.base + start*chunk, Size: (end - start) * chunk})
	}
}

func (h *Heap) piece(n node, next uint32) uint32 {
	p := h.sparePiece
	if p != 0 {
		h.sparePiece = h.pieces[p].next
	} else {
		p = uint32(len(h.pieces))
		h.pieces = append(h.pieces, piece{})
	}
	h.pieces[p] = piece{n, next}
	return p
}

// Free gives all pieces back, as clear memory if the option says that frees clear.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	if !h.Live(addr, granted, ref) {
		return false
	}
	i := uint32(ref)
	for p := h.allocs[i].first; p != 0; p = h.pieces[p].next {
		n := h.pieces[p].n
		n.clean = h.opt.ClearFrees
		h.b.give(n)
	}
	h.drop(i)
	return true
}

// Live reports whether ref names a live allocation that begins at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool {
	i := uint32(ref)
	if i == 0 || uint64(i) >= uint64(len(h.allocs)) {
		return false
	}
	a := &h.allocs[i]
	return a.first != 0 && a.gen == uint32(ref>>32) && a.addr == addr
}

// Inspect appends the segment, one block for each run of adjacent pieces of one allocation, and the free blocks by order.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes}
	chunk := h.opt.ChunkBytes
	for i := range h.allocs {
		var run *sdk.InspectedBlock
		for p := h.allocs[i].first; p != 0; p = h.pieces[p].next {
			n := h.pieces[p].n
			if run != nil && h.addr(n) == run.Addr+run.Bytes {
				run.Bytes += n.size() * chunk
				continue
			}
			seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: h.addr(n), Bytes: n.size() * chunk, State: "live"})
			run = &seg.Blocks[len(seg.Blocks)-1]
		}
	}
	for order := range h.b.used {
		for tree, name := range [...]string{"dirty-", "clear-"} {
			set := &h.b.free[tree][order]
			if set.n == 0 {
				continue
			}
			for j, ok := set.highest(); ok; j, ok = set.below(j) {
				n := node{i: j, order: order}
				seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: h.addr(n), Bytes: n.size() * chunk, State: "free"})
			}
			in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: name + itoa(order), Len: uint64(set.n), Bytes: uint64(set.n) << order * chunk})
		}
	}
	slices.SortFunc(seg.Blocks, func(a, b sdk.InspectedBlock) int { return int(int64(a.Addr) - int64(b.Addr)) })
	if rest := h.bytes % chunk; rest != 0 {
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: h.base + h.bytes - rest, Bytes: rest, State: "unmapped"})
	}
	in.Segments = append(in.Segments, seg)
	in.MetaBytes += h.b.metaBytes() + uint64(cap(h.allocs))*uint64(unsafe.Sizeof(alloc{})) + uint64(cap(h.pieces))*uint64(unsafe.Sizeof(piece{}))
}

var _ arena.Heap = (*Heap)(nil)
