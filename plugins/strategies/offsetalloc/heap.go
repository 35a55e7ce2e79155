package offsetalloc

import (
	"math/bits"
	"unsafe"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

const (
	// unitBytes is the unit of sizes and offsets.
	unitBytes = 256
	// maxUnits is the largest range: the original counts in 32 bits.
	maxUnits = 1<<32 - 1
	// mantissaLog2 is MANTISSA_BITS: 8 bins a doubling.
	mantissaLog2 = 3
)

// binDown is SmallFloat::uintToFloatRoundDown of a number of units: below 8 the number itself; from there on, with the mantissa
// of four bits that its shift by m leaves, of which the highest is 1, the number 8*m + mantissa. No branch depends on the size.
func binDown(units uint64) uint32 {
	m := uint(bits.Len64(units|1<<mantissaLog2)) - 1 - mantissaLog2
	return uint32(m<<mantissaLog2) + uint32(units>>(m&63))
}

// binUp is SmallFloat::uintToFloatRoundUp of a number of units above 0: the bin after that of all smaller numbers.
func binUp(units uint64) uint32 { return binDown(units-1) + 1 }

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
	if n := units * unitBytes; h.t.B[i].Size > n {
		i = h.cut(i, bin, n)
	} else {
		h.bins.Remove(h.t, bin, i)
		h.t.B[i].Free = false
	}
	b := &h.t.B[i]
	addr = b.Addr
	if slack > 0 {
		addr += -addr & (align - 1)
	}
	return addr, b.Addr + b.Size - addr, h.t.Ref(i), true
}

// cut cuts the low n bytes off free node i, the head of its bin, as a live node, which it returns. What is left goes to the
// head of its own bin; when that is the same bin, there it lies already.
func (h *Heap) cut(i, bin uint32, n uint64) uint32 {
	old := h.t.B[i].Size
	low := h.t.SplitLow(i, n)
	if i == h.first {
		h.first = low
	}
	h.bins.Move(h.t, bin, binDown((old-n)/unitBytes), i, old)
	return low
}

// Free is Allocator::free. The neighbours leave their bins, and the whole goes to the head of its bin.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, granted, ref)
	if i == blocks.None {
		return false
	}
	b := &h.t.B[i]
	if n := &h.t.B[b.Next]; n.Free {
		h.bins.Remove(h.t, binDown(n.Size/unitBytes), b.Next)
		h.t.AbsorbNext(i)
	}
	prev := b.Prev
	p := &h.t.B[prev]
	if !p.Free {
		b.Free = true
		h.bins.Push(h.t, binDown(b.Size/unitBytes), i)
		return true
	}
	old := p.Size
	h.t.AbsorbNext(prev)
	h.bins.Move(h.t, binDown(old/unitBytes), binDown(p.Size/unitBytes), prev, old)
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
	in.MetaBytes += h.t.MetaBytes() + uint64(unsafe.Sizeof(*h))
}

var _ arena.Heap = (*Heap)(nil)
