package tlsf

import (
	"math/bits"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

const (
	// unitBytes is what sizes are rounded up to: the alignment of cudaMalloc. VMA's virtual block takes any size; its users
	// round.
	unitBytes = 256
	// stepsLog2 is SECOND_LEVEL_INDEX: 32 lists a class.
	stepsLog2 = 5
	steps     = 1 << stepsLog2
	// smallBytes is SMALL_BUFFER_SIZE, the largest size of class 0, whose lists are smallStep apart.
	smallBytes = 256
	smallStep  = smallBytes / steps
	// classShift is MEMORY_CLASS_SHIFT: class 1 begins with sizes whose highest bit is 8.
	classShift = 7
)

// Heap is a TLSF heap of one range. Make one with newHeap.
type Heap struct {
	t     *blocks.Table
	mode  mode
	lists blocks.Lists // list class*32 + step
	null  uint32       // the null block
	first uint32       // lowest block
	base  uint64
	bytes uint64
}

func newHeap(m mode, base, bytes uint64) *Heap {
	h := &Heap{t: blocks.NewTable(64), mode: m, base: base, bytes: bytes}
	h.Reset()
	return h
}

// Reset frees everything: all of the range is the null block again.
func (h *Heap) Reset() {
	h.t.Reset()
	h.lists = blocks.Lists{}
	h.null = h.t.New(h.base, h.bytes)
	h.t.B[h.null].Free = true
	h.first = h.null
}

// listOf returns the list of a size (SizeToMemoryClass, SizeToSecondIndex).
func listOf(size uint64) uint32 {
	if size <= smallBytes {
		return uint32((size - 1) / smallStep)
	}
	msb := uint(bits.Len64(size)) - 1
	return uint32(msb-classShift)<<stepsLog2 | uint32(size>>(msb-stepsLog2))&(steps-1)
}

// nextSize returns the smallest size of the list after that of n, from which on every block is large enough.
func nextSize(n uint64) uint64 {
	switch {
	case n > smallBytes:
		return n + 1<<(bits.Len64(n)-1-stepsLog2)
	case n > smallBytes-smallStep:
		return smallBytes + 1
	}
	return n + smallStep
}

func (h *Heap) insert(i uint32) {
	h.t.B[i].Free = true
	h.lists.Push(h.t, listOf(h.t.B[i].Size), i)
}

func (h *Heap) remove(i uint32) {
	h.lists.Remove(h.t, listOf(h.t.B[i].Size), i)
	h.t.B[i].Free = false
}

// Alloc finds a block in the order of the mode and cuts the request from its low end.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := (size + unitBytes - 1) &^ (unitBytes - 1)
	if n > h.lists.Bytes()+h.t.B[h.null].Size {
		return 0, 0, 0, false
	}
	align = max(align, 1)
	i := h.find(n, align)
	if i == blocks.None {
		return 0, 0, 0, false
	}
	if gap := gapOf(h.t.B[i].Addr, align); gap != 0 {
		i = h.cutAligned(i, gap, n)
	} else {
		i = h.cut(i, n)
	}
	return h.t.B[i].Addr, n, h.t.Ref(i), true
}

// cut makes the low n bytes of free block i a live block, which it returns. What is left goes to the head of its list, or
// stays the null block.
func (h *Heap) cut(i uint32, n uint64) uint32 {
	old := h.t.B[i].Size
	if i != h.null && old == n {
		h.remove(i)
		return i
	}
	low := h.t.SplitLow(i, n)
	if i == h.first {
		h.first = low
	}
	if i != h.null {
		h.lists.Move(h.t, listOf(old), listOf(old-n), i, old)
	}
	return low
}

// cutAligned is cut behind the low gap bytes of block i, which become a free block. The block below i is never free, because
// free neighbours are joined at the free; so VMA's other case, a gap that joins a free block below, does not occur.
func (h *Heap) cutAligned(i uint32, gap, n uint64) uint32 {
	if i != h.null {
		h.remove(i)
	}
	low := h.t.SplitLow(i, gap)
	if i == h.first {
		h.first = low
	}
	h.insert(low)
	if i == h.null {
		return h.cut(i, n)
	}
	if h.t.B[i].Size > n {
		h.insert(h.t.SplitHigh(i, n))
	}
	return i
}

// Free joins the block to its free neighbours and puts the result at the head of its list, or into the null block.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, ref)
	if i == blocks.None {
		return false
	}
	b := &h.t.B[i]
	if b.Next == h.null {
		h.freeIntoNull(i)
		return true
	}
	if next := b.Next; h.t.B[next].Free {
		h.remove(next)
		h.t.AbsorbNext(i)
	}
	prev := b.Prev
	p := &h.t.B[prev]
	if !p.Free {
		h.insert(i)
		return true
	}
	old := p.Size
	h.t.AbsorbNext(prev)
	h.lists.Move(h.t, listOf(old), listOf(p.Size), prev, old)
	return true
}

// freeIntoNull joins block i and a free block below it to the null block above it.
func (h *Heap) freeIntoNull(i uint32) {
	prev := h.t.B[i].Prev
	h.t.AbsorbPrev(h.null)
	if h.t.B[prev].Free {
		h.remove(prev)
		h.t.AbsorbPrev(h.null)
	}
	if b := &h.t.B[h.null]; b.Prev == blocks.None {
		h.first = h.null
	}
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

// gapOf returns the distance from addr up to the next multiple of align, a power of two.
func gapOf(addr, align uint64) uint64 { return -addr & (align - 1) }

var _ arena.Heap = (*Heap)(nil)
