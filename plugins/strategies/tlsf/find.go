package tlsf

import (
	"fmt"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// mode is the order in which the places are searched; see the package comment.
type mode uint8

const (
	modeDefault mode = iota
	modeMinTime
	modeMinMemory
	modeMinOffset
)

var modeNames = map[string]mode{
	"default": modeDefault, "min-time": modeMinTime, "min-memory": modeMinMemory, "min-offset": modeMinOffset,
}

// find returns the free block that serves n bytes at the alignment, in no list or the null block, or None
// (VmaBlockMetadata_TLSF::CreateAllocationRequest).
func (h *Heap) find(n, align uint64) uint32 {
	if h.lists.Len() == 0 {
		return h.tryNull(n, align)
	}
	next := h.lists.AtOrAbove(listOf(nextSize(n)))
	if next != blocks.NoList && align == 1 && h.mode != modeMinMemory {
		return h.lists.Head(next) // every block of the list is large enough
	}
	i := blocks.None
	switch h.mode {
	case modeDefault:
		if i = h.walk(next, n, align); i == blocks.None {
			if i = h.tryNull(n, align); i == blocks.None {
				i = h.walk(h.lists.AtOrAbove(listOf(n)), n, align)
			}
		}
	case modeMinTime:
		if i = h.tryHead(next, n, align); i == blocks.None {
			if i = h.tryNull(n, align); i == blocks.None {
				if i = h.walk(next, n, align); i == blocks.None {
					i = h.walk(h.lists.AtOrAbove(listOf(n)), n, align)
				}
			}
		}
	case modeMinMemory:
		if i = h.walk(h.lists.AtOrAbove(listOf(n)), n, align); i == blocks.None {
			if i = h.tryNull(n, align); i == blocks.None {
				i = h.walk(next, n, align)
			}
		}
	}
	for next != blocks.NoList && i == blocks.None {
		if next = h.lists.AtOrAbove(next + 1); next != blocks.NoList {
			i = h.walk(next, n, align)
		}
	}
	return i
}

// walk returns the first block of the list that fits.
func (h *Heap) walk(list uint32, n, align uint64) uint32 {
	if list == blocks.NoList {
		return blocks.None
	}
	for i := h.lists.Head(list); i != blocks.None; i = h.t.B[i].L {
		if h.fits(i, n, align) {
			return i
		}
	}
	return blocks.None
}

func (h *Heap) tryHead(list uint32, n, align uint64) uint32 {
	if list != blocks.NoList && h.fits(h.lists.Head(list), n, align) {
		return h.lists.Head(list)
	}
	return blocks.None
}

func (h *Heap) tryNull(n, align uint64) uint32 {
	if h.fits(h.null, n, align) {
		return h.null
	}
	return blocks.None
}

// fits is CheckBlock.
func (h *Heap) fits(i uint32, n, align uint64) bool {
	b := &h.t.B[i]
	return b.Size >= n+gapOf(b.Addr, align)
}

// Inspect appends the segment and its lists. A null block of no bytes is not shown.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes}
	for i := h.first; i != blocks.None; i = h.t.B[i].Next {
		b := &h.t.B[i]
		if b.Size == 0 {
			continue
		}
		state := "live"
		if b.Free {
			state = "free"
		}
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
	}
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "null", Len: 1, Bytes: h.t.B[h.null].Size})
	for list := h.lists.AtOrAbove(0); list != blocks.NoList; list = h.lists.AtOrAbove(list + 1) {
		f := sdk.FreeList{Name: fmt.Sprintf("class %d step %d", list>>stepsLog2, list&(steps-1))}
		for i := h.lists.Head(list); i != blocks.None; i = h.t.B[i].L {
			f.Len++
			f.Bytes += h.t.B[i].Size
		}
		in.FreeLists = append(in.FreeLists, f)
	}
	in.MetaBytes += h.t.MetaBytes() + metaBytes
}
