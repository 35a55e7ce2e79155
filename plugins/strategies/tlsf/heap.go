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
	i := h.find(n, max(align, 1))
	if i == blocks.None {
		return 0, 0, 0, false
	}
	if i != h.null {
		h.remove(i)
	}
	if gap := gapOf(h.t.B[i].Addr, max(align, 1)); gap != 0 {
		h.giveGap(i, gap)
	}
	h.cut(i, n)
	return h.t.B[i].Addr, n, h.t.Ref(i), true
}

// giveGap makes the low bytes of block i, which is in no list, a free block. The block below i is never free, because free
// neighbours are joined at the free; so VMA's other case, a gap that joins a free block below, does not occur.
func (h *Heap) giveGap(i uint32, gap uint64) {
	low := h.t.SplitLow(i, gap)
	if h.first == i {
		h.first = low
	}
	h.insert(low)
}

// cut makes block i, which is in no list, a live one of n bytes and gives the rest back.
func (h *Heap) cut(i uint32, n uint64) {
	if i == h.null {
		h.null = h.t.SplitHigh(i, n)
		h.t.B[h.null].Free = true
		h.t.B[i].Free = false
		return
	}
	if h.t.B[i].Size > n {
		h.insert(h.t.SplitHigh(i, n))
	}
}

// Free joins the block to its free neighbours and puts the result at the head of its list, or into the null block.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, ref)
	if i == blocks.None {
		return false
	}
	if prev := h.t.B[i].Prev; h.t.B[prev].Free {
		h.remove(prev)
		h.t.Absorb(prev, i)
		i = prev
	}
	next := h.t.B[i].Next
	switch {
	case next == h.null:
		h.t.Absorb(i, next)
		h.null = i
		h.t.B[i].Free = true
		return true
	case h.t.B[next].Free:
		h.remove(next)
		h.t.Absorb(i, next)
	}
	h.insert(i)
	return true
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
