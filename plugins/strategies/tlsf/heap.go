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
	classes    = 64 - classShift
	noList     = classes * steps
)

// Heap is a TLSF heap of one range. Make one with newHeap.
type Heap struct {
	t       *blocks.Table
	mode    mode
	classes uint64          // bit c: steps[c] is not 0
	steps   [classes]uint32 // bit s: list c*32+s is not empty
	heads   [noList]uint32
	listed  int    // blocks in lists
	free    uint64 // bytes in lists and in the null block
	null    uint32 // the null block
	first   uint32 // lowest block
	base    uint64
	bytes   uint64
}

func newHeap(m mode, base, bytes uint64) *Heap {
	h := &Heap{t: blocks.NewTable(64), mode: m, base: base, bytes: bytes}
	h.Reset()
	return h
}

// Reset frees everything: all of the range is the null block again.
func (h *Heap) Reset() {
	h.t.Reset()
	h.classes, h.steps, h.heads = 0, [classes]uint32{}, [noList]uint32{}
	h.listed, h.free = 0, h.bytes
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

// firstList returns the first non-empty list at or above that of the size, or noList.
func (h *Heap) firstList(size uint64) uint32 {
	return h.listAtOrAbove(listOf(size))
}

func (h *Heap) listAtOrAbove(list uint32) uint32 {
	if list >= noList {
		return noList
	}
	c := list >> stepsLog2
	if m := h.steps[c] &^ (1<<(list&(steps-1)) - 1); m != 0 {
		return c<<stepsLog2 | uint32(bits.TrailingZeros32(m))
	}
	m := h.classes &^ (2<<c - 1)
	if m == 0 {
		return noList
	}
	c = uint32(bits.TrailingZeros64(m))
	return c<<stepsLog2 | uint32(bits.TrailingZeros32(h.steps[c]))
}

func (h *Heap) insert(i uint32) {
	b := &h.t.B[i]
	list := listOf(b.Size)
	head := h.heads[list]
	b.Free, b.L, b.R = true, head, blocks.None
	if head != blocks.None {
		h.t.B[head].R = i
	} else {
		h.steps[list>>stepsLog2] |= 1 << (list & (steps - 1))
		h.classes |= 1 << (list >> stepsLog2)
	}
	h.heads[list] = i
	h.listed++
	h.free += b.Size
}

func (h *Heap) remove(i uint32) {
	b := &h.t.B[i]
	if b.L != blocks.None {
		h.t.B[b.L].R = b.R
	}
	if b.R != blocks.None {
		h.t.B[b.R].L = b.L
	} else {
		list := listOf(b.Size)
		if h.heads[list] = b.L; b.L == blocks.None {
			c := list >> stepsLog2
			if h.steps[c] &^= 1 << (list & (steps - 1)); h.steps[c] == 0 {
				h.classes &^= 1 << c
			}
		}
	}
	b.Free = false
	h.listed--
	h.free -= b.Size
}

// Alloc finds a block in the order of the mode and cuts the request from its low end.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := (size + unitBytes - 1) &^ (unitBytes - 1)
	if n > h.free {
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
	if i == h.null {
		h.free -= gap // counted already, as bytes of the null block
	}
}

// cut makes block i, which is in no list, a live one of n bytes and gives the rest back.
func (h *Heap) cut(i uint32, n uint64) {
	if i == h.null {
		h.null = h.t.SplitHigh(i, n)
		h.t.B[h.null].Free = true
		h.t.B[i].Free = false
		h.free -= n
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
		h.free += h.t.B[i].Size
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
