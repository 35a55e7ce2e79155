package pytorch

import "math/bits"

// The size classes of a free set. Sizes are counted in units of 512 bytes: below 64 units a class holds one size, above
// it each power of two is cut into 32 classes.
const (
	unitLog2     = 9
	exactClasses = 64
	exactLog2    = 6
	stepsLog2    = 5
	// classCount: the exact ones, and 32 for each power of two from 2^6 up to 2^54 units (sizes below 2^64 bytes).
	classCount = exactClasses + (64-unitLog2-exactLog2)<<stepsLog2
	classWords = (classCount + 63) / 64
)

// freeSet holds the free blocks of one pool and one stream in the order (size, address), PyTorch's BlockComparatorSize:
// an array of treaps, one a size class, with a bitmap of the classes in use. The treaps hang in the blocks themselves.
// Beside it lies the ordered set of unmapped blocks (BlockComparatorAddress).
type freeSet struct {
	root     [classCount]uint32
	words    [classWords]uint64
	summary  uint64 // bit w: words[w] is not 0
	count    uint64
	bytes    uint64
	pool     *pool
	stream   uint16
	index    uint32   // of this set in Allocator.sets
	unmapped []uint32 // unmapped blocks by address
}

// classOf returns the size class.
func classOf(size uint64) int {
	u := size >> unitLog2
	if u < exactClasses {
		return int(u)
	}
	e := bits.Len64(u) - 1
	return exactClasses + (e-exactLog2)<<stepsLog2 + int(u>>(e-stepsLog2))&(1<<stepsLog2-1)
}

// priority makes the treaps balanced whatever the order of insertions: a fixed mix of the index (Knuth's multiplicative
// hash by 2^32 divided by the golden ratio), so that equal programs build equal trees.
func priority(i uint32) uint32 { return i * 2654435769 }

// before reports whether block i comes before the key (size, addr).
func before(b *block, size, addr uint64) bool {
	return b.size < size || b.size == size && b.addr < addr
}

func (s *freeSet) insert(bl []block, n uint32) {
	b := &bl[n]
	b.left, b.right = 0, 0
	s.count++
	s.bytes += b.size
	k := classOf(b.size)
	link := &s.root[k]
	if *link == 0 {
		*link = n
		s.words[k>>6] |= 1 << (k & 63)
		s.summary |= 1 << (k >> 6)
		return
	}
	p := priority(n)
	for *link != 0 && priority(*link) >= p {
		c := &bl[*link]
		if before(c, b.size, b.addr) {
			link = &c.right
		} else {
			link = &c.left
		}
	}
	c := *link
	*link = n
	l, r := &b.left, &b.right
	for c != 0 { // split the subtree at the new key
		cb := &bl[c]
		if before(cb, b.size, b.addr) {
			*l, l, c = c, &cb.right, cb.right
		} else {
			*r, r, c = c, &cb.left, cb.left
		}
	}
	*l, *r = 0, 0
}

func (s *freeSet) remove(bl []block, n uint32) {
	b := &bl[n]
	s.count--
	s.bytes -= b.size
	k := classOf(b.size)
	link := &s.root[k]
	for *link != n {
		c := &bl[*link]
		if before(c, b.size, b.addr) {
			link = &c.right
		} else {
			link = &c.left
		}
	}
	l, r := b.left, b.right
	for l != 0 && r != 0 { // join the two subtrees
		if priority(l) >= priority(r) {
			*link, link, l = l, &bl[l].right, bl[l].right
		} else {
			*link, link, r = r, &bl[r].left, bl[r].left
		}
	}
	*link = l | r
	if s.root[k] == 0 {
		s.words[k>>6] &^= 1 << (k & 63)
		if s.words[k>>6] == 0 {
			s.summary &^= 1 << (k >> 6)
		}
	}
}

// lowerBound returns the first block with size ≥ size, or 0.
func (s *freeSet) lowerBound(bl []block, size uint64) uint32 {
	return s.from(bl, size, 0)
}

// from returns the first block whose key is not before (size, addr), or 0.
func (s *freeSet) from(bl []block, size, addr uint64) uint32 {
	k := classOf(size)
	best := uint32(0)
	for c := s.root[k]; c != 0; {
		b := &bl[c]
		if before(b, size, addr) {
			c = b.right
		} else {
			best, c = c, b.left
		}
	}
	if best != 0 {
		return best
	}
	k = s.classFrom(k + 1)
	if k < 0 {
		return 0
	}
	c := s.root[k]
	for bl[c].left != 0 {
		c = bl[c].left
	}
	return c
}

// until returns the last block whose key is before (size, addr), or 0.
func (s *freeSet) until(bl []block, size, addr uint64) uint32 {
	k := classOf(size)
	best := uint32(0)
	for c := s.root[k]; c != 0; {
		b := &bl[c]
		if before(b, size, addr) {
			best, c = c, b.right
		} else {
			c = b.left
		}
	}
	if best != 0 {
		return best
	}
	k = s.classBefore(k)
	if k < 0 {
		return 0
	}
	c := s.root[k]
	for bl[c].right != 0 {
		c = bl[c].right
	}
	return c
}

// after returns the block that follows block i, or 0.
func (s *freeSet) after(bl []block, i uint32) uint32 {
	return s.from(bl, bl[i].size, bl[i].addr+1)
}

// classFrom returns the first class in use from k on, or -1.
func (s *freeSet) classFrom(k int) int {
	w := k >> 6
	if w >= classWords {
		return -1
	}
	if m := s.words[w] >> (k & 63); m != 0 {
		return k + bits.TrailingZeros64(m)
	}
	m := s.summary &^ (2<<w - 1)
	if m == 0 {
		return -1
	}
	w = bits.TrailingZeros64(m)
	return w<<6 + bits.TrailingZeros64(s.words[w])
}

// classBefore returns the last class in use below k, or -1.
func (s *freeSet) classBefore(k int) int {
	w := k >> 6
	if m := s.words[w] & (1<<(k&63) - 1); m != 0 {
		return w<<6 + bits.Len64(m) - 1
	}
	m := s.summary & (1<<w - 1)
	if m == 0 {
		return -1
	}
	w = bits.Len64(m) - 1
	return w<<6 + bits.Len64(s.words[w]) - 1
}

// unmappedAt returns the position of the first unmapped block at or above addr.
func (s *freeSet) unmappedAt(bl []block, addr uint64) int {
	lo, hi := 0, len(s.unmapped)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bl[s.unmapped[mid]].addr < addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (s *freeSet) insertUnmapped(bl []block, n uint32) {
	at := s.unmappedAt(bl, bl[n].addr)
	s.unmapped = append(s.unmapped, 0)
	copy(s.unmapped[at+1:], s.unmapped[at:])
	s.unmapped[at] = n
}

func (s *freeSet) removeUnmapped(bl []block, n uint32) {
	at := s.unmappedAt(bl, bl[n].addr)
	s.unmapped = append(s.unmapped[:at], s.unmapped[at+1:]...)
}
