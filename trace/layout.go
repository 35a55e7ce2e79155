package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// layout follows the segments that a recording saw, by address.
type layout struct {
	segs []StateSegment // by address, without their blocks
}

// take adds a segment.
func (l *layout) take(s StateSegment) {
	s.Blocks = nil
	at, _ := slices.BinarySearchFunc(l.segs, s.Addr, func(x StateSegment, a uint64) int { return cmp.Compare(x.Addr, a) })
	l.segs = slices.Insert(l.segs, at, s)
}

// smallSegmentBytes is the size by which a segment is known as of PyTorch's small pool (kSmallBuffer, 2 MiB, in
// c10/cuda/CUDACachingAllocator.cpp); segment events do not say it.
const smallSegmentBytes = 2 << 20

// event takes a segment event.
func (l *layout) event(e *SegmentEvent) {
	switch e.Kind {
	case SegmentAlloc:
		l.take(StateSegment{Addr: e.Addr, Bytes: e.Bytes, Stream: e.Stream, Small: e.Bytes == smallSegmentBytes})
	case SegmentMap:
		l.mapPages(e)
	case SegmentFree, SegmentUnmap:
		l.remove(e.Addr, e.Bytes)
	}
}

// mapPages adds pages to an expandable segment: touching ranges of one stream are one segment.
func (l *layout) mapPages(e *SegmentEvent) {
	l.take(StateSegment{Addr: e.Addr, Bytes: e.Bytes, Stream: e.Stream, Expandable: true})
	for i := 0; i+1 < len(l.segs); i++ {
		a, b := &l.segs[i], &l.segs[i+1]
		if a.Expandable && b.Expandable && a.Stream == b.Stream && a.Pool == b.Pool && a.Addr+a.Bytes == b.Addr {
			a.Bytes += b.Bytes
			l.segs = slices.Delete(l.segs, i+1, i+2)
			i--
		}
	}
}

// remove takes away a range; what is left of a segment on either side stays.
func (l *layout) remove(addr, bytes uint64) {
	end := addr + bytes
	var kept []StateSegment
	for _, s := range l.segs {
		send := s.Addr + s.Bytes
		if send <= addr || s.Addr >= end {
			kept = append(kept, s)
			continue
		}
		if s.Addr < addr {
			left := s
			left.Bytes = addr - s.Addr
			kept = append(kept, left)
		}
		if send > end {
			right := s
			right.Addr, right.Bytes = end, send-end
			kept = append(kept, right)
		}
	}
	l.segs = kept
}

// placed is a live block with its stream and pool.
type placed struct {
	StateBlock
	stream, pool uint16
}

// state puts the blocks into the segments, with free blocks between. Blocks outside every segment get segments made up
// round each run of touching blocks of one stream and pool. It returns nil and says why when the blocks overlap.
func (l *layout) state(blocks []placed) (st *State, warning string) {
	slices.SortFunc(blocks, func(a, b placed) int { return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Handle, b.Handle)) })
	for i := 1; i < len(blocks); i++ {
		if a, b := &blocks[i-1], &blocks[i]; a.Addr+a.Bytes > b.Addr {
			return nil, fmt.Sprintf("cut: the recorded blocks h%d and h%d overlap at 0x%x: no start state was made", a.Handle, b.Handle, b.Addr)
		}
	}
	madeUp := 0
	segs := l.segs
	var out []StateSegment
	for len(segs) > 0 || len(blocks) > 0 {
		if len(segs) > 0 && (len(blocks) == 0 || segs[0].Addr+segs[0].Bytes > blocks[0].Addr) && (len(blocks) == 0 || segs[0].Addr <= blocks[0].Addr) {
			seg := segs[0]
			n := inside(&seg, blocks)
			fill(&seg, blocks[:n])
			out, segs, blocks = append(out, seg), segs[1:], blocks[n:]
			continue
		}
		if len(segs) > 0 && (len(blocks) == 0 || segs[0].Addr+segs[0].Bytes <= blocks[0].Addr) {
			seg := segs[0]
			fill(&seg, nil)
			out, segs = append(out, seg), segs[1:]
			continue
		}
		if len(out) > 0 && blocks[0].Addr < out[len(out)-1].Addr+out[len(out)-1].Bytes {
			return nil, fmt.Sprintf("cut: the recorded block h%d passes the end of its segment: no start state was made", blocks[0].Handle)
		}
		n := 1
		limit := uint64(1<<64 - 1)
		if len(segs) > 0 {
			limit = segs[0].Addr
		}
		for n < len(blocks) && blocks[n-1].Addr+blocks[n-1].Bytes == blocks[n].Addr && blocks[n].Addr < limit &&
			blocks[n].stream == blocks[0].stream && blocks[n].pool == blocks[0].pool {
			n++
		}
		seg := StateSegment{Addr: blocks[0].Addr, Bytes: blocks[n-1].Addr + blocks[n-1].Bytes - blocks[0].Addr}
		if seg.Addr+seg.Bytes > limit {
			return nil, fmt.Sprintf("cut: the recorded block h%d passes into the segment at 0x%x: no start state was made", blocks[n-1].Handle, limit)
		}
		fill(&seg, blocks[:n])
		out, blocks = append(out, seg), blocks[n:]
		madeUp++
	}
	if madeUp > 0 {
		warning = fmt.Sprintf("cut: the recording does not show the segments of some blocks: %d were made up round them, without the free memory they held", madeUp)
	}
	return &State{Segments: out}, warning
}

// inside returns how many of the blocks lie in the segment.
func inside(seg *StateSegment, blocks []placed) int {
	n := 0
	for n < len(blocks) && blocks[n].Addr+blocks[n].Bytes <= seg.Addr+seg.Bytes && blocks[n].Addr < seg.Addr+seg.Bytes {
		n++
	}
	return n
}

// fill lists the blocks of a segment with free ones between; the segment is of the stream and pool of its blocks.
func fill(seg *StateSegment, blocks []placed) {
	at := seg.Addr
	for _, b := range blocks {
		if b.Addr > at {
			seg.Blocks = append(seg.Blocks, StateBlock{Addr: at, Bytes: b.Addr - at})
		}
		seg.Blocks = append(seg.Blocks, b.StateBlock)
		seg.Stream, seg.Pool = b.stream, b.pool
		at = b.Addr + b.Bytes
	}
	if end := seg.Addr + seg.Bytes; end > at {
		seg.Blocks = append(seg.Blocks, StateBlock{Addr: at, Bytes: end - at})
	}
}
