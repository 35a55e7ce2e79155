package fit

import (
	"unsafe"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// UnitBytes is what sizes are rounded up to: the alignment of cudaMalloc.
const UnitBytes = 256

// Rule says which hole serves a request.
type Rule uint8

// The rules; see the package comment.
const (
	First Rule = iota
	Next
	Best
	Worst
)

// Kind returns the family of heaps with the rule, for package arena.
func Kind(rule Rule) arena.Kind {
	return arena.Kind{
		UnitBytes: UnitBytes,
		Need:      func(size, align uint64) uint64 { return roundUp(size) + max(align, UnitBytes) - UnitBytes },
		New:       func(base, bytes uint64) arena.Heap { return New(rule, base, bytes) },
	}
}

// Heap is a heap of one of the fits. Make one with New.
type Heap struct {
	t     *blocks.Table
	rule  Rule
	tree  blocks.AddrTree  // holes, except with Best
	sizes blocks.SizeIndex // holes, with Best
	rover uint64
	base  uint64
	bytes uint64
	first uint32 // lowest block
	free  uint64 // bytes in holes
}

// New returns an empty heap of [base, base+bytes), both multiples of UnitBytes.
func New(rule Rule, base, bytes uint64) *Heap {
	h := &Heap{t: blocks.NewTable(64), rule: rule, base: base, bytes: bytes}
	h.Reset()
	return h
}

// Reset frees everything.
func (h *Heap) Reset() {
	h.t.Reset()
	h.tree, h.sizes = blocks.AddrTree{}, blocks.SizeIndex{}
	h.rover, h.free = h.base, h.bytes
	h.first = h.t.New(h.base, h.bytes)
	h.insert(h.first)
}

// Alloc cuts a block from the hole that the rule names.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := roundUp(size)
	var i uint32
	if align <= UnitBytes {
		i = h.find(n)
	} else {
		i = h.findAligned(n, align)
	}
	if i == blocks.None {
		return 0, 0, 0, false
	}
	if align > UnitBytes {
		i = h.cutGap(i, align)
	}
	if h.rule == Best {
		i = h.cutSized(i, n)
	} else {
		i = h.cutTree(i, n)
	}
	b := &h.t.B[i]
	h.free -= n
	h.rover = b.Addr + n
	return b.Addr, n, h.t.Ref(i), true
}

func (h *Heap) find(n uint64) uint32 {
	switch h.rule {
	case First:
		return h.tree.FirstFit(h.t, n)
	case Next:
		if i := h.tree.FirstFitFrom(h.t, h.rover, n); i != blocks.None {
			return i
		}
		return h.tree.FirstFit(h.t, n)
	case Best:
		return h.sizes.BestFit(h.t, n)
	default:
		return h.tree.WorstFit(h.t, n)
	}
}

// findAligned returns the first hole in the rule's order that holds n bytes behind the gap to an aligned address.
func (h *Heap) findAligned(n, align uint64) uint32 {
	switch h.rule {
	case Best:
		for i := h.sizes.BestFit(h.t, n); i != blocks.None; i = h.sizes.After(h.t, i) {
			if h.fits(i, n, align) {
				return i
			}
		}
		return blocks.None
	case Worst:
		if i := h.tree.WorstFit(h.t, n); h.fits(i, n, align) {
			return i
		}
	case Next:
		if i := h.alignedFrom(h.rover, n, align); i != blocks.None {
			return i
		}
	}
	return h.alignedFrom(0, n, align)
}

func (h *Heap) alignedFrom(from, n, align uint64) uint32 {
	for {
		i := h.tree.FirstFitFrom(h.t, from, n)
		if i == blocks.None || h.fits(i, n, align) {
			return i
		}
		from = h.t.B[i].Addr + 1
	}
}

func (h *Heap) fits(i uint32, n, align uint64) bool {
	b := &h.t.B[i]
	return i != blocks.None && b.Size >= n+gap(b.Addr, align)
}

// cutGap turns the part of hole i below the next aligned address into a hole of its own and returns the rest, a hole too.
func (h *Heap) cutGap(i uint32, align uint64) uint32 {
	n := gap(h.t.B[i].Addr, align)
	if n == 0 {
		return i
	}
	h.remove(i)
	rest := h.t.SplitHigh(i, n)
	h.insert(i)
	h.insert(rest)
	return rest
}

// cutTree makes a block of the low n bytes of hole i, which keeps its place in the tree if anything is left of it.
func (h *Heap) cutTree(i uint32, n uint64) uint32 {
	if h.t.B[i].Size == n {
		h.tree.Remove(h.t, i)
		h.t.B[i].Free = false
		return i
	}
	low := h.t.SplitLow(i, n)
	h.tree.Update(h.t, i)
	if i == h.first {
		h.first = low
	}
	return low
}

// cutSized is cutTree for the index by size, in which what is left may have to move.
func (h *Heap) cutSized(i uint32, n uint64) uint32 {
	old := h.t.B[i].Size
	if old == n {
		h.remove(i)
		return i
	}
	low := h.t.SplitLow(i, n)
	if i == h.first {
		h.first = low
	}
	h.sizes.Resized(h.t, i, old)
	return low
}

// Free joins the block to its free neighbours.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, ref)
	if i == blocks.None {
		return false
	}
	h.free += h.t.B[i].Size
	if h.rule != Best {
		if j := blocks.FreeIntoTree(h.t, &h.tree, i); h.t.B[j].Prev == blocks.None {
			h.first = j
		}
		return true
	}
	h.freeSized(i)
	return true
}

// freeSized joins block i to its free neighbours in the index by size.
func (h *Heap) freeSized(i uint32) {
	b := &h.t.B[i]
	if next := b.Next; h.t.B[next].Free {
		h.sizes.Remove(h.t, next)
		h.t.AbsorbNext(i)
	}
	prev := b.Prev
	if !h.t.B[prev].Free {
		h.insert(i)
		return
	}
	old := h.t.B[prev].Size
	h.t.AbsorbNext(prev)
	h.sizes.Resized(h.t, prev, old)
}

// Live reports whether ref names the live block at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool { return h.live(addr, ref) != blocks.None }

func (h *Heap) live(addr, ref uint64) uint32 {
	i := h.t.Deref(ref)
	if b := &h.t.B[i]; b.Free || b.Addr != addr {
		return blocks.None
	}
	return i
}

// Inspect appends the segment and the census of its holes.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes}
	holes := sdk.FreeList{Name: "holes", Bytes: h.free}
	for i := h.first; i != blocks.None; i = h.t.B[i].Next {
		b := &h.t.B[i]
		state := "live"
		if b.Free {
			state = "free"
			holes.Len++
		}
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
	}
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, holes)
	in.MetaBytes += h.t.MetaBytes() + uint64(unsafe.Sizeof(*h))
}

func (h *Heap) insert(i uint32) {
	h.t.B[i].Free = true
	if h.rule == Best {
		h.sizes.Insert(h.t, i)
	} else {
		h.tree.Insert(h.t, i)
	}
}

func (h *Heap) remove(i uint32) {
	if h.rule == Best {
		h.sizes.Remove(h.t, i)
	} else {
		h.tree.Remove(h.t, i)
	}
	h.t.B[i].Free = false
}

// gap returns the distance from addr up to the next multiple of align, a power of two.
func gap(addr, align uint64) uint64 { return -addr & (align - 1) }

func roundUp(n uint64) uint64 { return (n + UnitBytes - 1) &^ (UnitBytes - 1) }

var _ arena.Heap = (*Heap)(nil)
