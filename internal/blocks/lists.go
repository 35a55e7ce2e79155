package blocks

import "math/bits"

const (
	listWordLog2 = 5
	listWordBits = 1 << listWordLog2
	// ListsMax is the number of lists of Lists.
	ListsMax = 64 * listWordBits
	// NoList is the number of no list.
	NoList = ListsMax
)

// Lists are segregated free lists: stacks of blocks, numbered by size class as the owner sees fit, under a two-level bitmap,
// so that the first non-empty list at or above a number is found by two bit scans. All operations are O(1). The blocks are
// linked by L (towards the bottom) and R (towards the top). The zero Lists are empty; all calls take the same Table.
type Lists struct {
	words uint64     // bit w: bits[w] is not 0
	bits  [64]uint32 // bit b of word w: list w*32+b is not empty
	heads [ListsMax]uint32
	n     int
	bytes uint64
}

// Len returns the number of blocks in all lists.
func (s *Lists) Len() int { return s.n }

// Bytes returns the sum of the sizes of the blocks in all lists.
func (s *Lists) Bytes() uint64 { return s.bytes }

// Head returns the block on top of a list, None when it is empty. Further ones follow by L.
func (s *Lists) Head(list uint32) uint32 { return s.heads[list] }

// Push puts block i, which is in no index, on top of a list.
func (s *Lists) Push(t *Table, list, i uint32) {
	b := &t.B[i]
	head := s.heads[list]
	b.L, b.R = head, None
	t.B[head].R = i // an empty list writes to the sentinel, where nobody reads: cheaper than a branch that depends on the load
	s.heads[list] = i
	w := list >> listWordLog2 & 63
	s.bits[w] |= 1 << (list & (listWordBits - 1))
	s.words |= 1 << w
	s.n++
	s.bytes += b.Size
}

// Remove takes block i, whose size has not changed since, out of its list.
func (s *Lists) Remove(t *Table, list, i uint32) {
	b := &t.B[i]
	t.B[b.L].R = b.R // perhaps the sentinel's
	if b.R != None {
		t.B[b.R].L = b.L
	} else if s.heads[list] = b.L; b.L == None {
		w := list >> listWordLog2
		if s.bits[w] &^= 1 << (list & (listWordBits - 1)); s.bits[w] == 0 {
			s.words &^= 1 << w
		}
	}
	s.n--
	s.bytes -= b.Size
}

// Move puts block i, of list from, whose size was old bytes, on top of list to. A block that lies there already stays.
func (s *Lists) Move(t *Table, from, to, i uint32, old uint64) {
	b := &t.B[i]
	if from == to && b.R == None {
		s.bytes += b.Size - old
		return
	}
	s.bytes += b.Size - old
	s.Remove(t, from, i)
	s.Push(t, to, i)
}

// AtOrAbove returns the first non-empty list at or above a number, or NoList.
func (s *Lists) AtOrAbove(list uint32) uint32 {
	if list >= NoList {
		return NoList
	}
	w := list >> listWordLog2
	if m := s.bits[w] &^ (1<<(list&(listWordBits-1)) - 1); m != 0 {
		return w<<listWordLog2 | uint32(bits.TrailingZeros32(m))
	}
	m := s.words &^ (2<<w - 1)
	if m == 0 {
		return NoList
	}
	w = uint32(bits.TrailingZeros64(m))
	return w<<listWordLog2 | uint32(bits.TrailingZeros32(s.bits[w]))
}
