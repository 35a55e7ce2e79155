package rmmarena

import (
	"slices"
	"sort"

	"github.com/gpubench/gpubench/internal/blocks"
)

// minSuperblockBytes is superblock::minimum_size, and the size up to which a request is small.
const minSuperblockBytes = 1 << 20

// globalArena is the owner of superblocks that no stream has.
const globalArena = -1

// superblock is a contiguous span of the one segment.
type superblock struct {
	addr, bytes uint64
	free        blocks.AddrTree
	first       uint32 // lowest block
	live        int    // live blocks
	owner       int    // a stream, or globalArena
}

// set is an address-ordered set of superblocks.
type set []uint32

// spans holds all superblocks and their blocks.
type spans struct {
	t     *blocks.Table
	sb    []superblock // [0] unused
	spare []uint32
}

func (s *spans) reset() {
	s.t.Reset()
	s.sb, s.spare = append(s.sb[:0], superblock{}), s.spare[:0]
}

// add makes a superblock of one free block i.
func (s *spans) add(i uint32, owner int) uint32 {
	b := &s.t.B[i]
	var k uint32
	if n := len(s.spare); n > 0 {
		k = s.spare[n-1]
		s.spare = s.spare[:n-1]
	} else {
		k = uint32(len(s.sb))
		s.sb = append(s.sb, superblock{})
	}
	s.sb[k] = superblock{addr: b.Addr, bytes: b.Size, first: i, owner: owner}
	b.Free = true
	s.sb[k].free.Insert(s.t, i)
	return k
}

// fits reports whether a block of the superblock has size bytes.
func (s *spans) fits(k uint32, size uint64) bool { return s.sb[k].free.Largest(s.t) >= size }

// take is superblock::first_fit: the lowest block that fits, of which the low part is used.
func (s *spans) take(k uint32, size uint64) uint32 {
	sb := &s.sb[k]
	i := sb.free.FirstFit(s.t, size)
	if s.t.B[i].Size == size {
		sb.free.Remove(s.t, i)
		s.t.B[i].Free = false
	} else {
		low := s.t.SplitLow(i, size)
		sb.free.Update(s.t, i)
		if sb.first == i {
			sb.first = low
		}
		i = low
	}
	s.t.B[i].User = k
	sb.live++
	return i
}

// give frees block i into its superblock and returns that.
func (s *spans) give(i uint32) uint32 {
	k := s.t.B[i].User
	sb := &s.sb[k]
	if j := blocks.FreeIntoTree(s.t, &sb.free, i); s.t.B[j].Prev == blocks.None {
		sb.first = j
	}
	sb.live--
	return k
}

// split cuts the empty superblock k after head bytes and returns a new one for the rest.
func (s *spans) split(k uint32, head uint64) uint32 {
	sb := &s.sb[k]
	i := sb.first
	sb.free.Remove(s.t, i)
	rest := s.t.SplitHigh(i, head)
	s.t.B[i].Next, s.t.B[rest].Prev = blocks.None, blocks.None
	sb.bytes = head
	sb.free.Insert(s.t, i)
	return s.add(rest, sb.owner)
}

// join makes the empty superblock k, which touches it from above, part of the empty superblock into.
func (s *spans) join(into, k uint32) {
	a, b := &s.sb[into], &s.sb[k]
	a.free.Remove(s.t, a.first)
	b.free.Remove(s.t, b.first)
	s.t.B[a.first].Next, s.t.B[b.first].Prev = b.first, a.first
	s.t.Absorb(a.first, b.first)
	a.bytes += b.bytes
	a.free.Insert(s.t, a.first)
	*b = superblock{}
	s.spare = append(s.spare, k)
}

// position returns where a superblock at addr is or would be in the set.
func (s *spans) position(in set, addr uint64) int {
	return sort.Search(len(in), func(i int) bool { return s.sb[in[i]].addr >= addr })
}

func (s *spans) insert(in *set, k uint32) { *in = slices.Insert(*in, s.position(*in, s.sb[k].addr), k) }

func (s *spans) remove(in *set, k uint32) {
	at := s.position(*in, s.sb[k].addr)
	*in = slices.Delete(*in, at, at+1)
}

// firstFit returns the first superblock of the set in which a block has size bytes; false when there is none.
func (s *spans) firstFit(in set, size uint64) (uint32, bool) {
	for _, k := range in {
		if s.fits(k, size) {
			return k, true
		}
	}
	return 0, false
}

// coalesce joins superblock k of the global set, if it is empty, with empty neighbours that it touches.
func (s *spans) coalesce(global *set, k uint32) {
	if s.sb[k].live != 0 {
		return
	}
	at := s.position(*global, s.sb[k].addr)
	if at+1 < len(*global) {
		if next := (*global)[at+1]; s.sb[next].live == 0 && s.sb[k].addr+s.sb[k].bytes == s.sb[next].addr {
			*global = slices.Delete(*global, at+1, at+2)
			s.join(k, next)
		}
	}
	if at > 0 {
		if prev := (*global)[at-1]; s.sb[prev].live == 0 && s.sb[prev].addr+s.sb[prev].bytes == s.sb[k].addr {
			*global = slices.Delete(*global, at, at+1)
			s.join(prev, k)
		}
	}
}
