package importers

import (
	"fmt"
	"sort"
)

// rewindSegments walks the segment entries backwards from the final segments and returns those held when the recording
// began, without blocks, in address order.
func rewindSegments(r *run, final []segment, rules *allocatorRules, f *findings) []segment {
	w := &rewinder{rules: rules, final: final}
	for i := range final {
		s := final[i]
		s.blocks = nil
		w.segs = append(w.segs, s)
	}
	for i := r.n - 1; i >= 0; i-- {
		e := r.at(i)
		var err error
		switch e.act {
		case actSegmentAlloc:
			err = w.undoAlloc(e)
		case actSegmentFree:
			err = w.add(w.segmentOf(e, false))
		case actSegmentMap:
			err = w.undoMap(e)
		case actSegmentUnmap:
			err = w.add(w.segmentOf(e, true))
		}
		if err != nil {
			f.add(segmentHistory, "entry %d: %v", i, err)
		}
	}
	return w.segs
}

type rewinder struct {
	rules *allocatorRules
	final []segment
	segs  []segment // in address order
}

func (w *rewinder) find(addr uint64) (int, bool) {
	i := sort.Search(len(w.segs), func(i int) bool { return w.segs[i].end() > addr })
	return i, i < len(w.segs) && w.segs[i].addr <= addr
}

// segmentOf describes the segment of an entry. Pool and kind are taken from the entry where it tells, else from the final
// segment at that address, else by size: segments of the small pool have 2 MiB, and so do their pages.
func (w *rewinder) segmentOf(e *entry, expandable bool) segment {
	s := segment{addr: e.addr, bytes: e.size(), stream: e.stream, expandable: expandable, small: e.size() == smallSegmentBytes}
	if expandable {
		s.small = e.size()%w.rules.largeSegment != 0
	}
	i := sort.Search(len(w.final), func(i int) bool { return w.final[i].end() > e.addr })
	if i < len(w.final) && w.final[i].addr <= e.addr && w.final[i].expandable == expandable {
		if expandable || w.final[i].bytes == s.bytes {
			s.pool, s.small = w.final[i].pool, w.final[i].small
		}
	}
	if e.flags&entryPooled != 0 {
		s.pool = e.pool()
	}
	return s
}

func (w *rewinder) undoAlloc(e *entry) error {
	i, ok := w.find(e.addr)
	if !ok || w.segs[i].addr != e.addr || w.segs[i].bytes != e.size() || w.segs[i].expandable {
		return fmt.Errorf("segment_alloc of %d bytes at 0x%x, but afterwards there is no such segment", e.size(), e.addr)
	}
	w.segs = append(w.segs[:i], w.segs[i+1:]...)
	return nil
}

// undoMap takes pages out of the range that holds them.
func (w *rewinder) undoMap(e *entry) error {
	i, ok := w.find(e.addr)
	if !ok || !w.segs[i].expandable || e.size() > w.segs[i].end()-e.addr {
		return fmt.Errorf("segment_map of %d bytes at 0x%x, but afterwards they are not mapped", e.size(), e.addr)
	}
	low, high := w.segs[i], w.segs[i]
	low.bytes = e.addr - low.addr
	high.bytes = high.end() - (e.addr + e.size())
	high.addr = e.addr + e.size()
	var parts []segment
	if low.bytes > 0 {
		parts = append(parts, low)
	}
	if high.bytes > 0 {
		parts = append(parts, high)
	}
	w.segs = append(w.segs[:i], append(parts, w.segs[i+1:]...)...)
	return nil
}

// add puts a segment back, or pages into their range.
func (w *rewinder) add(s segment) error {
	if s.bytes == 0 || s.end() < s.addr {
		return fmt.Errorf("a segment of %d bytes at 0x%x", s.bytes, s.addr)
	}
	i, inside := w.find(s.addr)
	if inside || i < len(w.segs) && w.segs[i].addr < s.end() {
		return fmt.Errorf("%d bytes at 0x%x given back that are still held afterwards", s.bytes, s.addr)
	}
	w.segs = append(w.segs, segment{})
	copy(w.segs[i+1:], w.segs[i:])
	w.segs[i] = s
	if i+1 < len(w.segs) && joinable(&w.segs[i], &w.segs[i+1]) {
		w.join(i)
	}
	if i > 0 && joinable(&w.segs[i-1], &w.segs[i]) {
		w.join(i - 1)
	}
	return nil
}

func joinable(a, b *segment) bool { return a.end() == b.addr && a.expandable && a.info() == b.info() }

func (w *rewinder) join(i int) {
	w.segs[i].bytes += w.segs[i+1].bytes
	w.segs = append(w.segs[:i+1], w.segs[i+2:]...)
}

// placeInitials fills the blocks of the start segments: the live ones where they were seen, the gaps free. A block that died
// during the recording left no size: it gets the rounded request, and up to 1 MiB more in a segment of the large pool when
// the rest up to the next boundary is too small to be a free block of its own. A block in no segment gets one of its own.
func placeInitials(segs []segment, initials []initialBlock, rules *allocatorRules, f *findings) []segment {
	segs = coverAll(segs, initials, rules, f)
	next := 0
	for i := range segs {
		s := &segs[i]
		at := s.addr
		for ; next < len(initials) && initials[next].addr < s.end(); next++ {
			b := &initials[next]
			if b.lost {
				continue
			}
			limit := s.end()
			if next+1 < len(initials) {
				limit = min(limit, initials[next+1].addr)
			}
			if b.addr < at || limit < b.addr || sizeOfInitial(b, limit, s, rules) > limit-b.addr {
				f.add(outside, "block 0x%x of %d bytes", b.addr, b.requested)
				b.lost = true
				continue
			}
			if b.addr > at {
				s.blocks = append(s.blocks, block{addr: at, bytes: b.addr - at})
			}
			state := blockLive
			if b.pending {
				state = blockPending
			}
			blk := block{addr: b.addr, bytes: sizeOfInitial(b, limit, s, rules), requested: b.requested, state: state, initial: next + 1}
			s.blocks = append(s.blocks, blk)
			at = b.addr + blk.bytes
		}
		if at < s.end() {
			s.blocks = append(s.blocks, block{addr: at, bytes: s.end() - at})
		}
	}
	return segs
}

// coverAll adds a segment for every block of the start that lies in none.
func coverAll(segs []segment, initials []initialBlock, rules *allocatorRules, f *findings) []segment {
	w := &rewinder{rules: rules, segs: segs}
	for i := range initials {
		b := &initials[i]
		if _, ok := w.find(b.addr); ok {
			continue
		}
		f.add(outside, "block 0x%x of %d bytes", b.addr, b.requested)
		bytes := max(b.bytes, rules.round(b.requested))
		if w.add(segment{addr: b.addr, bytes: bytes, stream: b.stream, small: bytes <= smallBytes}) != nil {
			b.lost = true
		}
	}
	return w.segs
}

func sizeOfInitial(b *initialBlock, limit uint64, s *segment, rules *allocatorRules) uint64 {
	if b.bytes != 0 {
		return b.bytes
	}
	bytes := rules.round(b.requested)
	if limit-b.addr <= bytes {
		return bytes
	}
	if rest := limit - b.addr - bytes; !s.expandable && rest <= smallBytes && !rules.splits(bytes, rest, s.small) {
		bytes += rest
	}
	return bytes
}
