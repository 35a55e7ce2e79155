package importers

import (
	"fmt"
	"sort"

	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/internal/blocks"
)

// layout plays a recording block by block: it takes the recorded addresses and checks that each is where the allocator,
// under its rules, would have had to put it. Blocks of a segment are a doubly linked list; every block, free or not, is
// found by its address in O(1). It is a check and a source of block sizes, not a policy: it never chooses an address.
type layout struct {
	rules *allocatorRules
	t     *blocks.Table
	at    addrmap.Map // address of a block -> its index
	infos []segmentInfo
	spans []span // live segments in address order

	// slack is asked when an allocation begins d bytes inside a free block, whose neighbour below begins at addr: whether
	// that neighbour may be d bytes longer than assumed. nil = never.
	slack func(addr, d uint64) bool
}

// segmentInfo is what blocks of one segment have in common; Block.User is the index.
type segmentInfo struct {
	stream, pool uint16
	small        bool
	expandable   bool
}

type span struct {
	addr, bytes uint64
	info        uint32
}

func newLayout(rules *allocatorRules, start []segment) (*layout, error) {
	l := &layout{rules: rules, t: blocks.NewTable(1024)}
	for i := range start {
		s := &start[i]
		if err := l.addSegment(s.addr, s.bytes, s.info()); err != nil {
			return nil, err
		}
		rest := l.at.Get(s.addr)
		for j := range s.blocks {
			b := &s.blocks[j]
			if b.bytes == 0 {
				continue
			}
			at := rest
			if b.bytes < l.t.B[rest].Size {
				rest = l.t.SplitHigh(rest, b.bytes)
				l.at.Put(l.t.B[rest].Addr, rest)
			}
			l.t.B[at].Free = b.state == blockFree
		}
	}
	return l, nil
}

func (s *segment) info() segmentInfo {
	return segmentInfo{stream: s.stream, pool: s.pool, small: s.small, expandable: s.expandable}
}

// find returns the position of the span that holds addr, or where it would be inserted.
func (l *layout) find(addr uint64) (int, bool) {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].addr+l.spans[i].bytes > addr })
	return i, i < len(l.spans) && l.spans[i].addr <= addr
}

// infoAt returns what is known of the segment that holds addr.
func (l *layout) infoAt(addr uint64) (segmentInfo, bool) {
	if b := l.at.Get(addr); b != blocks.None {
		return l.infos[l.t.B[b].User], true
	}
	if i, ok := l.find(addr); ok {
		return l.infos[l.spans[i].info], true
	}
	return segmentInfo{}, false
}

// room finds the place for a new span and refuses one that overlaps another.
func (l *layout) room(addr, bytes uint64) (int, error) {
	i, inside := l.find(addr)
	if inside || i < len(l.spans) && l.spans[i].addr < addr+bytes {
		return 0, fmt.Errorf("segment 0x%x of %d bytes overlaps segment 0x%x", addr, bytes, l.spans[i].addr)
	}
	if bytes == 0 || addr+bytes < addr {
		return 0, fmt.Errorf("segment 0x%x of %d bytes", addr, bytes)
	}
	return i, nil
}

// addSegment adds a segment as one free block.
func (l *layout) addSegment(addr, bytes uint64, info segmentInfo) error {
	i, err := l.room(addr, bytes)
	if err != nil {
		return err
	}
	l.insert(i, addr, bytes, info)
	return nil
}

func (l *layout) insert(i int, addr, bytes uint64, info segmentInfo) uint32 {
	l.infos = append(l.infos, info)
	user := uint32(len(l.infos) - 1)
	l.spans = append(l.spans, span{})
	copy(l.spans[i+1:], l.spans[i:])
	l.spans[i] = span{addr: addr, bytes: bytes, info: user}
	b := l.t.New(addr, bytes)
	l.t.B[b].User, l.t.B[b].Free = user, true
	l.at.Put(addr, b)
	return b
}

// removeSegment takes away a segment, which must be one free block.
func (l *layout) removeSegment(addr, bytes uint64) error {
	i, ok := l.find(addr)
	b := l.at.Get(addr)
	if !ok || l.spans[i].addr != addr || b == blocks.None {
		return fmt.Errorf("there is no segment at 0x%x to free", addr)
	}
	if blk := &l.t.B[b]; !blk.Free || blk.Size != l.spans[i].bytes || blk.Size != bytes {
		return fmt.Errorf("segment 0x%x of %d bytes is freed with %d bytes while it is not one free block", addr, l.spans[i].bytes, bytes)
	}
	l.at.Delete(addr)
	l.t.Release(b)
	l.spans = append(l.spans[:i], l.spans[i+1:]...)
	return nil
}

// mapRange adds pages of an expandable segment, and joins them to neighbouring pages of the same one.
func (l *layout) mapRange(addr, bytes uint64, info segmentInfo) error {
	i, err := l.room(addr, bytes)
	if err != nil {
		return err
	}
	b := l.insert(i, addr, bytes, info)
	if i+1 < len(l.spans) && l.joins(i, i+1) {
		l.link(b, l.at.Get(l.spans[i+1].addr))
		l.spans[i].bytes += l.spans[i+1].bytes
		l.spans = append(l.spans[:i+1], l.spans[i+2:]...)
	}
	if i > 0 && l.joins(i-1, i) {
		tail := l.at.Get(l.spans[i-1].addr)
		for l.t.B[tail].Next != blocks.None {
			tail = l.t.B[tail].Next
		}
		l.link(tail, b)
		l.spans[i-1].bytes += l.spans[i].bytes
		l.spans = append(l.spans[:i], l.spans[i+1:]...)
	}
	l.merge(b)
	return nil
}

func (l *layout) joins(i, j int) bool {
	a, b := &l.spans[i], &l.spans[j]
	return a.addr+a.bytes == b.addr && l.infos[a.info] == l.infos[b.info] && l.infos[a.info].expandable
}

func (l *layout) link(a, b uint32) { l.t.B[a].Next, l.t.B[b].Prev = b, a }

// unmapRange takes pages out of the middle of a free block.
func (l *layout) unmapRange(addr, bytes uint64) error {
	i, ok := l.find(addr)
	if !ok {
		return fmt.Errorf("no memory is mapped at 0x%x to unmap", addr)
	}
	b := l.holding(i, addr)
	blk := l.t.B[b]
	if !blk.Free || bytes == 0 || bytes > blk.Addr+blk.Size-addr {
		return fmt.Errorf("%d bytes at 0x%x are unmapped while not all free", bytes, addr)
	}
	if low := addr - blk.Addr; low > 0 {
		b = l.t.SplitHigh(b, low)
		l.t.B[b].Free = true
	}
	if l.t.B[b].Size > bytes {
		high := l.t.SplitHigh(b, bytes)
		l.t.B[high].Free = true
		l.at.Put(l.t.B[high].Addr, high)
	}
	prev, next := l.t.B[b].Prev, l.t.B[b].Next
	if prev != blocks.None {
		l.t.B[prev].Next = blocks.None
	}
	if next != blocks.None {
		l.t.B[next].Prev = blocks.None
	}
	if l.at.Get(addr) == b {
		l.at.Delete(addr)
	}
	l.t.Release(b)
	l.cut(i, addr, bytes)
	return nil
}

// cut takes [addr, addr+bytes) out of span i.
func (l *layout) cut(i int, addr, bytes uint64) {
	s := l.spans[i]
	var parts []span
	if addr > s.addr {
		parts = append(parts, span{addr: s.addr, bytes: addr - s.addr, info: s.info})
	}
	if end := addr + bytes; end < s.addr+s.bytes {
		parts = append(parts, span{addr: end, bytes: s.addr + s.bytes - end, info: s.info})
	}
	l.spans = append(l.spans[:i], append(parts, l.spans[i+1:]...)...)
}

// holding returns the block of span i that holds addr. It walks the span.
func (l *layout) holding(i int, addr uint64) uint32 {
	b := l.at.Get(l.spans[i].addr)
	for l.t.B[b].Addr+l.t.B[b].Size <= addr {
		b = l.t.B[b].Next
	}
	return b
}

// alloc places a block for a request at its recorded address and returns how large it is.
func (l *layout) alloc(addr, requested uint64) (granted uint64, err error) {
	b := l.at.Get(addr)
	if b == blocks.None {
		if b, err = l.shift(addr); err != nil {
			return 0, err
		}
	}
	blk := &l.t.B[b]
	want := l.rules.round(requested)
	if !blk.Free {
		return 0, fmt.Errorf("an alloc at 0x%x, where a block is still in use", addr)
	}
	if blk.Size < want {
		return 0, fmt.Errorf("an alloc of %d bytes at 0x%x, where only %d are free", requested, addr, blk.Size)
	}
	if rest := blk.Size - want; rest > 0 && l.rules.splits(want, rest, l.infos[blk.User].small) {
		high := l.t.SplitHigh(b, want)
		l.t.B[high].Free = true
		l.at.Put(l.t.B[high].Addr, high)
	}
	l.t.B[b].Free = false
	return l.t.B[b].Size, nil
}

// shift is alloc's answer to an address inside a free block: hidden slack of the block below, or a contradiction.
func (l *layout) shift(addr uint64) (uint32, error) {
	i, ok := l.find(addr)
	if !ok {
		return 0, fmt.Errorf("an alloc at 0x%x, which lies in no segment", addr)
	}
	b := l.holding(i, addr)
	blk := l.t.B[b]
	if !blk.Free {
		return 0, fmt.Errorf("an alloc at 0x%x, inside the block at 0x%x that is still in use", addr, blk.Addr)
	}
	d := addr - blk.Addr
	info := l.infos[blk.User]
	if d > smallBytes || info.small || info.expandable || blk.Prev == blocks.None || l.slack == nil || !l.slack(l.t.B[blk.Prev].Addr, d) {
		return 0, fmt.Errorf("an alloc at 0x%x, %d bytes inside the free block at 0x%x: free blocks are used from their start", addr, d, blk.Addr)
	}
	high := l.t.SplitHigh(b, d)
	l.t.B[high].Free = true
	l.at.Delete(blk.Addr)
	l.at.Put(addr, high)
	l.t.Absorb(blk.Prev, b)
	return high, nil
}

// free gives the block at addr back and merges it with free neighbours.
func (l *layout) free(addr uint64) error {
	b := l.at.Get(addr)
	if b == blocks.None || l.t.B[b].Free {
		return fmt.Errorf("a free at 0x%x, where no block is in use", addr)
	}
	l.t.B[b].Free = true
	l.merge(b)
	return nil
}

// merge joins free block b with its free neighbours.
func (l *layout) merge(b uint32) {
	if next := l.t.B[b].Next; next != blocks.None && l.t.B[next].Free {
		l.at.Delete(l.t.B[next].Addr)
		l.t.Absorb(b, next)
	}
	if prev := l.t.B[b].Prev; prev != blocks.None && l.t.B[prev].Free {
		l.at.Delete(l.t.B[b].Addr)
		l.t.Absorb(prev, b)
	}
}

// compare says where the layout differs from the recorded final one.
func (l *layout) compare(final []segment) error {
	if len(l.spans) != len(final) {
		return fmt.Errorf("%d segments at the end, %d recorded", len(l.spans), len(final))
	}
	for i := range final {
		f := &final[i]
		if l.spans[i].addr != f.addr || l.spans[i].bytes != f.bytes {
			return fmt.Errorf("segment 0x%x of %d bytes at the end, recorded is 0x%x of %d", l.spans[i].addr, l.spans[i].bytes, f.addr, f.bytes)
		}
		b := l.at.Get(f.addr)
		for j := range f.blocks {
			want := &f.blocks[j]
			if want.bytes == 0 {
				continue
			}
			if b == blocks.None {
				return fmt.Errorf("segment 0x%x: fewer blocks at the end than recorded", f.addr)
			}
			got := &l.t.B[b]
			if got.Addr != want.addr || got.Size != want.bytes || got.Free != (want.state == blockFree) {
				return fmt.Errorf("at the end block 0x%x of %d bytes (free: %t), recorded is 0x%x of %d (free: %t)",
					got.Addr, got.Size, got.Free, want.addr, want.bytes, want.state == blockFree)
			}
			b = got.Next
		}
		if b != blocks.None {
			return fmt.Errorf("segment 0x%x: more blocks at the end than recorded", f.addr)
		}
	}
	return nil
}
