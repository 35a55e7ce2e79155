package offsetalloc

import (
	"math/bits"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

const (
	// unitBytes is the unit of sizes and offsets.
	unitBytes = 256
	// maxUnits is the largest range: the original counts in 32 bits.
	maxUnits = 1<<32 - 1
	// mantissaLog2 is MANTISSA_BITS.
	mantissaLog2 = 3
	mantissaMask = 1<<mantissaLog2 - 1
)

// binDown is SmallFloat::uintToFloatRoundDown of a number of units.
func binDown(units uint64) uint32 {
	if units <= mantissaMask {
		return uint32(units)
	}
	m := uint(bits.Len64(units)) - 1 - mantissaLog2
	return uint32(m+1)<<mantissaLog2 | uint32(units>>m)&mantissaMask
}

// binUp is SmallFloat::uintToFloatRoundUp; the carry into the exponent is right.
func binUp(units uint64) uint32 {
	bin := binDown(units)
	if units > mantissaMask && units&(1<<(bits.Len64(units)-1-mantissaLog2)-1) != 0 {
		bin++
	}
	return bin
}

// Heap is a heap of one range. Make one with newHeap.
type Heap struct {
	t        *blocks.Table
	bins     blocks.Lists
	maxNodes int
	first    uint32
	base     uint64
	bytes    uint64
}

func newHeap(maxNodes int, base, bytes uint64) *Heap {
	h := &Heap{t: blocks.NewTable(64), maxNodes: maxNodes, base: base, bytes: bytes}
	h.Reset()
	return h
}

// Reset frees everything.
func (h *Heap) Reset() {
	h.t.Reset()
	h.bins = blocks.Lists{}
	h.first = h.t.New(h.base, h.bytes)
	h.insert(h.first)
}

func (h *Heap) insert(i uint32) {
	h.t.B[i].Free = true
	h.bins.Push(h.t, binDown(h.t.B[i].Size/unitBytes), i)
}

func (h *Heap) remove(i uint32) {
	h.bins.Remove(h.t, binDown(h.t.B[i].Size/unitBytes), i)
	h.t.B[i].Free = false
}

// Alloc is Allocator::allocate. The last node is never used: the original tests for it before it takes one.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	slack := max(align, unitBytes) - unitBytes
	units := (size + slack + unitBytes - 1) / unitBytes
	if units > maxUnits || h.t.Len() >= h.maxNodes-1 {
		return 0, 0, 0, false
	}
	bin := h.bins.AtOrAbove(binUp(units))
	if bin == blocks.NoList {
		return 0, 0, 0, false
	}
	i := h.bins.Head(bin)
	h.remove(i)
	if n := units * unitBytes; h.t.B[i].Size > n {
		h.insert(h.t.SplitHigh(i, n))
	}
	b := &h.t.B[i]
	addr = b.Addr
	if slack > 0 {
		addr += -addr & (align - 1)
	}
	return addr, b.Addr + b.Size - addr, h.t.Ref(i), true
}

// Free is Allocator::free.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, granted, ref)
	if i == blocks.None {
		return false
	}
	if prev := h.t.B[i].Prev; h.t.B[prev].Free {
		h.remove(prev)
		h.t.Absorb(prev, i)
		i = prev
	}
	if next := h.t.B[i].Next; h.t.B[next].Free {
		h.remove(next)
		h.t.Absorb(i, next)
	}
	h.insert(i)
	return true
}

// Live reports whether ref names the live block that ends at addr+granted.
func (h *Heap) Live(addr, granted, ref uint64) bool { return h.live(addr, granted, ref) != blocks.None }

func (h *Heap) live(addr, granted, ref uint64) uint32 {
	i := h.t.Deref(ref)
	if b := &h.t.B[i]; b.Free || addr < b.Addr || b.Addr+b.Size != addr+granted {
		return blocks.None
	}
	return i
}

// Inspect appends the segment and the census of its bins. A live block is shown with the gap in front that an alignment costs.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes}
	for i := h.first; i != blocks.None; i = h.t.B[i].Next {
		b := &h.t.B[i]
		state := "live"
		if b.Free {
			state = "free"
		}
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
	}
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "all", Len: uint64(h.bins.Len()), Bytes: h.bins.Bytes()})
	in.MetaBytes += h.t.MetaBytes()
}

var _ arena.Heap = (*Heap)(nil)
