package mattconte

import (
	"math/bits"
	"unsafe"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// The constants of tlsf.c on a 64-bit machine.
const (
	unitBytes   = 256 // what the caller rounds sizes up to
	wordBytes   = 8   // ALIGN_SIZE
	headerBytes = 8   // block_header_overhead
	minBytes    = 24  // block_size_min: sizeof(block_header_t) less one pointer
	splitBytes  = 32  // sizeof(block_header_t): what must be left, and the least gap in front of an aligned block
	smallBytes  = 256 // SMALL_BLOCK_SIZE: below it the lists are smallStep apart
	stepsLog2   = 5   // SL_INDEX_COUNT_LOG2
	smallStep   = smallBytes >> stepsLog2
	indexShift  = 8 // FL_INDEX_SHIFT
	poolBytes   = 2 * headerBytes
)

// Heap is a heap of one range. Its blocks in the table include their header. Make one with newHeap.
type Heap struct {
	t     *blocks.Table
	lists blocks.Lists // of payload sizes
	align uint64
	first uint32
	base  uint64
	bytes uint64
}

// newHeap returns an empty heap. The range has room for a pool's overhead and one block at least.
func newHeap(align, base, bytes uint64) *Heap {
	h := &Heap{t: blocks.NewTable(64), align: align, base: base, bytes: bytes}
	h.Reset()
	return h
}

// Reset frees everything.
func (h *Heap) Reset() {
	h.t.Reset()
	h.lists = blocks.Lists{}
	h.first = h.t.New(h.base, h.bytes&^(wordBytes-1)-headerBytes)
	h.insert(h.first)
}

// mapping is mapping_insert: the list of a payload size.
func mapping(size uint64) uint32 {
	if size < smallBytes {
		return uint32(size / smallStep)
	}
	msb := uint(bits.Len64(size)) - 1
	return uint32(msb-indexShift+1)<<stepsLog2 | uint32(size>>(msb-stepsLog2))&(1<<stepsLog2-1)
}

// searchList is mapping_search: the first list in which every block has at least size bytes.
func searchList(size uint64) uint32 {
	if size >= smallBytes {
		size += 1<<(bits.Len64(size)-1-stepsLog2) - 1
	}
	return mapping(size)
}

func (h *Heap) payload(i uint32) uint64 { return h.t.B[i].Size - headerBytes }

func (h *Heap) insert(i uint32) {
	h.t.B[i].Free = true
	h.lists.Push(h.t, mapping(h.payload(i)), i)
}

func (h *Heap) remove(i uint32) {
	h.lists.Remove(h.t, mapping(h.payload(i)), i)
	h.t.B[i].Free = false
}

// adjust is adjust_request_size for a size that is no power-of-two problem: rounded up to the alignment, minBytes at least.
func adjust(size, align uint64) uint64 { return max((size+align-1)&^(align-1), minBytes) }

// Alloc is tlsf_malloc, or tlsf_memalign for an alignment above a word.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := adjust((size+unitBytes-1)&^(unitBytes-1), wordBytes)
	align = max(align, h.align)
	search := n
	if align > wordBytes {
		search = adjust(n+align+splitBytes, align)
	}
	list := h.lists.AtOrAbove(searchList(search))
	if list == blocks.NoList {
		return 0, 0, 0, false
	}
	i := h.lists.Head(list)
	if align > wordBytes {
		h.lists.Remove(h.t, list, i)
		h.t.B[i].Free = false
		i = h.trimLeading(i, align)
		if h.payload(i) >= n+splitBytes {
			h.insert(h.t.SplitHigh(i, n+headerBytes))
		}
	} else {
		i = h.cut(i, list, n)
	}
	return h.t.B[i].Addr + headerBytes, h.payload(i), h.t.Ref(i), true
}

// cut makes the low part of free block i, the head of its list, a live block of n bytes, or all of it when too little would
// be left, and returns the live block. What is left goes to the head of its own list; when that is the same list, there it
// lies already.
func (h *Heap) cut(i, list uint32, n uint64) uint32 {
	old := h.t.B[i].Size
	if old-headerBytes < n+splitBytes {
		h.lists.Remove(h.t, list, i)
		h.t.B[i].Free = false
		return i
	}
	low := h.t.SplitLow(i, n+headerBytes)
	if i == h.first {
		h.first = low
	}
	h.lists.Move(h.t, list, mapping(h.payload(i)), i, old)
	return low
}

// trimLeading cuts the gap in front of the aligned payload off block i as a free block and returns the rest. A gap too small
// for a block is widened by the alignment.
func (h *Heap) trimLeading(i uint32, align uint64) uint32 {
	ptr := h.t.B[i].Addr + headerBytes
	aligned := (ptr + align - 1) &^ (align - 1)
	if gap := aligned - ptr; gap != 0 && gap < splitBytes {
		aligned = (aligned + max(splitBytes-gap, align) + align - 1) &^ (align - 1)
	}
	if aligned == ptr {
		return i
	}
	rest := h.t.SplitHigh(i, aligned-ptr)
	h.insert(i)
	return rest
}

// Free is tlsf_free.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	i := h.live(addr, ref)
	if i == blocks.None {
		return false
	}
	b := &h.t.B[i]
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
	h.lists.Move(h.t, mapping(old-headerBytes), mapping(p.Size-headerBytes), prev, old)
	return true
}

// Live reports whether ref names the live block at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool { return h.live(addr, ref) != blocks.None }

func (h *Heap) live(addr, ref uint64) uint32 {
	i := h.t.Deref(ref)
	if b := &h.t.B[i]; b.Free || b.Addr+headerBytes != addr {
		return blocks.None
	}
	return i
}

// Inspect appends the segment. A block is shown from its payload to the payload of the next one, so with the header in
// between; the first header is shown as "unmapped", since no block can have it.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes, Blocks: []sdk.InspectedBlock{{Addr: h.base, Bytes: headerBytes, State: "unmapped"}}}
	end := h.base + h.bytes
	for i := h.first; i != blocks.None; i = h.t.B[i].Next {
		b := &h.t.B[i]
		state := "live"
		if b.Free {
			state = "free"
		}
		n := b.Size
		if b.Next == blocks.None {
			n = end - b.Addr - headerBytes
		}
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr + headerBytes, Bytes: n, State: state})
	}
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "all", Len: uint64(h.lists.Len()), Bytes: h.lists.Bytes()})
	in.MetaBytes += h.t.MetaBytes() + uint64(unsafe.Sizeof(*h))
}

var _ arena.Heap = (*Heap)(nil)
