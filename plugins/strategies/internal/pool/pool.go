// Package pool is the best-fit core of the pools that grow by segments and keep several free lists: RMM's coalescing pools, with
// a list for each stream, and TensorFlow's BFC, with one.
//
// Structure: the blocks of every segment lie in one blocks.Table, each segment a range of its own, so that blocks never
// merge across segments even when those touch (RMM's is_head) unless the owner joins the segments. Each free list is a
// blocks.SizeIndex over all segments; a free block is in exactly one, named by Block.User, and merges only with neighbours
// of the same list.
//
// Complexity: O(log n) for every operation; merging two lists costs that for each block of the smaller-to-be. Nothing allocates
// in the steady state.
package pool

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// Segment is memory held from the device.
type Segment struct {
	Addr, Bytes uint64
	First       uint32 // its lowest block
}

// Pool is a set of segments and free lists. Make one with New.
type Pool struct {
	T        *blocks.Table
	Segments []Segment // in the order in which they were made
	lists    []*blocks.SizeIndex
	bytes    uint64
}

// New returns an empty pool.
func New() *Pool { return &Pool{T: blocks.NewTable(1024)} }

// Reset forgets all segments and blocks.
func (p *Pool) Reset() {
	p.T.Reset()
	p.Segments = p.Segments[:0]
	p.bytes = 0
	for _, l := range p.lists {
		*l = blocks.SizeIndex{}
	}
}

// Bytes returns the sum of the segments.
func (p *Pool) Bytes() uint64 { return p.bytes }

// List returns a free list, made at its first use.
func (p *Pool) List(list uint32) *blocks.SizeIndex {
	for int(list) >= len(p.lists) {
		p.lists = append(p.lists, &blocks.SizeIndex{})
	}
	return p.lists[list]
}

// AddSegment adds a segment as one block that is in no list yet, and returns the block.
func (p *Pool) AddSegment(addr, bytes uint64) uint32 {
	i := p.T.New(addr, bytes)
	p.Segments = append(p.Segments, Segment{addr, bytes, i})
	p.bytes += bytes
	return i
}

// ExtendSegment makes the memory behind segment k, which it touches, part of it, as one block in no list behind its last one.
func (p *Pool) ExtendSegment(k int, bytes uint64) uint32 {
	s := &p.Segments[k]
	i := p.T.New(s.Addr+s.Bytes, bytes)
	last := s.First
	for p.T.B[last].Next != blocks.None {
		last = p.T.B[last].Next
	}
	p.T.B[last].Next, p.T.B[i].Prev = i, last
	s.Bytes += bytes
	p.bytes += bytes
	return i
}

// DropSegments forgets the segments for which drop is true; each consists of free blocks.
func (p *Pool) DropSegments(drop func(s *Segment) bool) {
	p.Segments = slices.DeleteFunc(p.Segments, func(s Segment) bool {
		if !drop(&s) {
			return false
		}
		for i := s.First; i != blocks.None; {
			next := p.T.B[i].Next
			p.Remove(i)
			p.T.Release(i)
			i = next
		}
		p.bytes -= s.Bytes
		return true
	})
}

// WhollyFree reports whether all blocks of the segment are free.
func (p *Pool) WhollyFree(s *Segment) bool {
	i := s.First
	for i != blocks.None && p.T.B[i].Free {
		i = p.T.B[i].Next
	}
	return i == blocks.None
}

// Insert puts block i, in no list, into a list without merging.
func (p *Pool) Insert(i, list uint32) {
	b := &p.T.B[i]
	b.Free, b.User = true, list
	p.List(list).Insert(p.T, i)
}

// Remove takes the free block i out of its list.
func (p *Pool) Remove(i uint32) {
	b := &p.T.B[i]
	p.lists[b.User].Remove(p.T, i)
	b.Free = false
}

// Best returns the smallest block of the list with at least size bytes, the lowest among equals, or blocks.None.
func (p *Pool) Best(list uint32, size uint64) uint32 { return p.List(list).BestFit(p.T, size) }

// BestAligned is Best among the blocks that hold size bytes behind the gap to an aligned address.
func (p *Pool) BestAligned(list uint32, size, align uint64) uint32 {
	l := p.List(list)
	i := l.BestFit(p.T, size)
	for i != blocks.None && p.T.B[i].Size < size+Gap(p.T.B[i].Addr, align) {
		i = l.After(p.T, i)
	}
	return i
}

// Cut cuts size bytes behind the low gap bytes out of the free block i; the gap and what lies above stay in the same list. It
// returns the block of size bytes, in no list. A size of 0 keeps all above the gap.
func (p *Pool) Cut(i uint32, gap, size uint64) uint32 {
	list := p.T.B[i].User
	if gap > 0 {
		p.Remove(i)
		rest := p.T.SplitHigh(i, gap)
		p.Insert(i, list)
		if size > 0 && p.T.B[rest].Size > size {
			p.Insert(p.T.SplitHigh(rest, size), list)
		}
		return rest
	}
	old := p.T.B[i].Size
	if size == 0 || old == size {
		p.Remove(i)
		return i
	}
	low := p.T.SplitLow(i, size)
	if p.T.B[low].Prev == blocks.None {
		p.startsAt(i, low)
	}
	p.lists[list].Resized(p.T, i, old)
	return low
}

// startsAt makes block low the first of the segment whose first block was i.
func (p *Pool) startsAt(i, low uint32) {
	for k := range p.Segments {
		if p.Segments[k].First == i {
			p.Segments[k].First = low
		}
	}
}

// Give frees block i into a list, joined with its free neighbours of that list.
func (p *Pool) Give(i, list uint32) {
	b := &p.T.B[i]
	if next := b.Next; p.mergeable(next, list) {
		p.Remove(next)
		p.T.AbsorbNext(i)
	}
	prev := b.Prev
	if !p.mergeable(prev, list) {
		p.Insert(i, list)
		return
	}
	old := p.T.B[prev].Size
	p.T.AbsorbNext(prev)
	p.lists[list].Resized(p.T, prev, old)
}

func (p *Pool) mergeable(i, list uint32) bool {
	b := &p.T.B[i]
	return b.Free && b.User == list
}

// MergeList moves all blocks of one list into another, where they join their neighbours.
func (p *Pool) MergeList(from, to uint32) {
	l := p.List(from)
	for i := l.BestFit(p.T, 0); i != blocks.None; i = l.BestFit(p.T, 0) {
		p.Remove(i)
		p.Give(i, to)
	}
}

// Inspect appends the segments in address order and the census of the lists.
func (p *Pool) Inspect(in *sdk.Inspection, listName func(list int) string) {
	segments := slices.Clone(p.Segments)
	slices.SortFunc(segments, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	for _, s := range segments {
		seg := sdk.InspectedSegment{Addr: s.Addr, Bytes: s.Bytes}
		for i := s.First; i != blocks.None; i = p.T.B[i].Next {
			b := &p.T.B[i]
			state := "live"
			if b.Free {
				state = "free"
			}
			seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
		}
		in.Segments = append(in.Segments, seg)
	}
	for k, l := range p.lists {
		if l.Len() > 0 {
			in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: listName(k), Len: uint64(l.Len()), Bytes: l.Bytes()})
		}
	}
	in.MetaBytes += p.T.MetaBytes() + uint64(len(p.lists))*uint64(unsafe.Sizeof(blocks.SizeIndex{})) + uint64(cap(p.Segments))*uint64(unsafe.Sizeof(Segment{}))
}

// Gap returns the distance from addr up to the next multiple of align, a power of two (0 and 1: none demanded).
func Gap(addr, align uint64) uint64 {
	if align <= 1 {
		return 0
	}
	return -addr & (align - 1)
}
