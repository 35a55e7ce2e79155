package blocks

import "github.com/gpubench/gpubench/internal/addrmap"

// Space is an address range from which ranges are taken first fit and given back by address: what a device does with its
// address space. Make one with NewSpace.
type Space struct {
	t           *Table
	holes       AddrTree
	taken       addrmap.Map // address of a taken range -> its block
	base, limit uint64
}

// NewSpace returns a Space over [base, limit), all of it free.
func NewSpace(base, limit uint64) *Space {
	s := &Space{t: NewTable(64), base: base, limit: limit}
	s.Reset()
	return s
}

// Reset gives everything back.
func (s *Space) Reset() {
	s.t.Reset()
	s.taken.Reset()
	s.holes = AddrTree{}
	if s.limit > s.base {
		s.holes.Insert(s.t, s.freeBlock(s.t.New(s.base, s.limit-s.base)))
	}
}

func (s *Space) freeBlock(i uint32) uint32 {
	s.t.B[i].Free = true
	return i
}

// Take takes size bytes, more than 0, at the lowest address where they fit; false when they fit nowhere. O(log n).
func (s *Space) Take(size uint64) (addr uint64, ok bool) {
	i := s.holes.FirstFit(s.t, size)
	if i == None {
		return 0, false
	}
	if s.t.B[i].Size == size {
		s.holes.Remove(s.t, i)
		s.t.B[i].Free = false
	} else {
		low := s.t.SplitLow(i, size)
		s.holes.Update(s.t, i)
		i = low
	}
	s.t.B[i].User = 0
	addr = s.t.B[i].Addr
	s.taken.Put(addr, i)
	return addr, true
}

// TakeAt takes [addr, addr+size), size more than 0; false when not all of it is free.
func (s *Space) TakeAt(addr, size uint64) bool {
	i := s.holes.Floor(s.t, addr)
	if i == None || addr-s.t.B[i].Addr > s.t.B[i].Size || size > s.t.B[i].Size-(addr-s.t.B[i].Addr) {
		return false
	}
	s.holes.Remove(s.t, i)
	if gap := addr - s.t.B[i].Addr; gap > 0 {
		rest := s.t.SplitHigh(i, gap)
		s.holes.Insert(s.t, i)
		i = rest
	}
	if s.t.B[i].Size > size {
		s.holes.Insert(s.t, s.freeBlock(s.t.SplitHigh(i, size)))
	}
	s.t.B[i].Free = false
	s.t.B[i].User = 0
	s.taken.Put(addr, i)
	return true
}

// Size returns the size of the range taken at addr; false when none starts there.
func (s *Space) Size(addr uint64) (size uint64, ok bool) {
	i := s.taken.Get(addr)
	return s.t.B[i].Size, i != None
}

// SetUser notes a number of the owner's with the range taken at addr, which must be one. It is 0 at first.
func (s *Space) SetUser(addr uint64, user uint32) { s.t.B[s.taken.Get(addr)].User = user }

// Give gives back the range taken at addr and returns its size and the owner's number; false when none starts there.
func (s *Space) Give(addr uint64) (size uint64, user uint32, ok bool) {
	i := s.taken.Delete(addr)
	if i == None {
		return 0, 0, false
	}
	size, user = s.t.B[i].Size, s.t.B[i].User
	FreeIntoTree(s.t, &s.holes, i)
	return size, user, true
}

// Largest returns the size of the largest free range.
func (s *Space) Largest() uint64 { return s.holes.Largest(s.t) }

// FreeIntoTree makes block i of t free, joins it with free neighbours in its range and keeps the tree of free blocks right.
// It returns the index of the resulting block.
func FreeIntoTree(t *Table, tree *AddrTree, i uint32) uint32 {
	prev, next := t.B[i].Prev, t.B[i].Next
	prevFree := prev != None && t.B[prev].Free
	nextFree := next != None && t.B[next].Free
	switch {
	case prevFree && nextFree:
		tree.Remove(t, next)
		t.Absorb(prev, i)
		t.Absorb(prev, next)
		tree.Update(t, prev)
		return prev
	case prevFree:
		t.Absorb(prev, i)
		tree.Update(t, prev)
		return prev
	case nextFree:
		t.Absorb(next, i)
		tree.Update(t, next)
		return next
	}
	t.B[i].Free = true
	tree.Insert(t, i)
	return i
}
