package buddy

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

const (
	// UnitBytes is the size of a block of order 0: the alignment of cudaMalloc.
	UnitBytes = 256
	unitLog2  = 8
)

// Heap is a buddy heap of one range. Make one with New.
type Heap struct {
	orders uint64 // bit k: free[k] is not empty
	free   []*bitset
	live   []*bitset // both indexed by order; a block of order k at unit u is member u>>k
	base   uint64
	units  uint64
}

// New returns an empty heap of [base, base+bytes), bytes a multiple of UnitBytes.
func New(base, bytes uint64) *Heap {
	h := &Heap{base: base, units: bytes / UnitBytes}
	for k := 0; k < bits.Len64(h.units); k++ {
		h.free = append(h.free, newBitset(h.units>>k+1))
		h.live = append(h.live, newBitset(h.units>>k+1))
	}
	h.Reset()
	return h
}

// Reset frees everything: the free blocks are the roots.
func (h *Heap) Reset() {
	h.orders = 0
	for k := range h.free {
		h.free[k].reset()
		h.live[k].reset()
	}
	at := uint64(0)
	for k := len(h.free) - 1; k >= 0; k-- {
		if h.units>>k&1 != 0 {
			h.put(k, at>>k)
			at += 1 << k
		}
	}
}

func (h *Heap) put(k int, i uint64) {
	h.free[k].add(i)
	h.orders |= 1 << k
}

func (h *Heap) take(k int, i uint64) {
	h.free[k].remove(i)
	if h.free[k].n == 0 {
		h.orders &^= 1 << k
	}
}

// orderOf returns the order of the smallest block that holds size > 0 bytes.
func orderOf(size uint64) int { return bits.Len64((size - 1) >> unitLog2) }

// Alloc takes the lowest free block of the smallest order that serves, halved as far as needed. An alignment above the
// block's own size raises the order; one that the range itself does not have fails.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	k := orderOf(size)
	if align > UnitBytes {
		k = max(k, orderOf(align))
		if h.base&(align-1) != 0 {
			return 0, 0, 0, false
		}
	}
	larger := h.orders >> k
	if larger == 0 || k >= len(h.free) {
		return 0, 0, 0, false
	}
	from := k + bits.TrailingZeros64(larger)
	i := h.free[from].lowest()
	h.take(from, i)
	for from > k {
		from--
		i *= 2
		h.put(from, i+1)
	}
	h.live[k].add(i)
	return h.base + i<<(k+unitLog2), UnitBytes << k, 0, true
}

// Free merges the block with its buddies.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	if !h.Live(addr, granted, ref) {
		return false
	}
	k := orderOf(granted)
	i := (addr - h.base) >> (k + unitLog2)
	h.live[k].remove(i)
	for k+1 < len(h.free) && h.free[k].has(i^1) {
		h.take(k, i^1)
		i /= 2
		k++
	}
	h.put(k, i)
	return true
}

// Live reports whether a block of granted bytes is live at addr. The next tenant of the same block cannot be told apart.
func (h *Heap) Live(addr, granted, ref uint64) bool {
	k := orderOf(granted)
	at := addr - h.base
	return k < len(h.live) && at&(UnitBytes<<k-1) == 0 && h.live[k].has(at>>(k+unitLog2))
}

// Inspect appends the segment and the census of each order.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.units * UnitBytes}
	for k := range h.free {
		bytes := uint64(UnitBytes) << k
		for _, of := range []struct {
			set   *bitset
			state string
		}{{h.free[k], "free"}, {h.live[k], "live"}} {
			of.set.each(func(i uint64) {
				seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: h.base + i*bytes, Bytes: bytes, State: of.state})
			})
			in.MetaBytes += of.set.metaBytes()
		}
		if n := uint64(h.free[k].n); n > 0 {
			in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: fmt.Sprintf("order %d", k), Len: n, Bytes: n * bytes})
		}
	}
	slices.SortFunc(seg.Blocks, func(a, b sdk.InspectedBlock) int { return cmp.Compare(a.Addr, b.Addr) })
	in.Segments = append(in.Segments, seg)
}

var _ arena.Heap = (*Heap)(nil)
