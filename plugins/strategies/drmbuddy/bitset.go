package drmbuddy

import "math/bits"

// bitset is a set of numbers below a bound, with the highest member and the next one below in one bit scan a level. Its words are
// made when the first member is added.
type bitset struct {
	bound  uint64
	levels [][]uint64 // levels[0]: a bit for each number; each further level sums up the words of the one before
	n      int
}

func (s *bitset) has(i uint64) bool {
	return s.levels != nil && i < s.bound && s.levels[0][i/64]>>(i%64)&1 != 0
}

// add adds i, which is below the bound and not a member.
func (s *bitset) add(i uint64) {
	if s.levels == nil {
		s.make()
	}
	s.n++
	for l := range s.levels {
		w := &s.levels[l][i/64]
		was := *w
		*w |= 1 << (i % 64)
		if was != 0 {
			return
		}
		i /= 64
	}
}

func (s *bitset) make() {
	for n := s.bound; ; {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, n))
		if n <= 1 {
			return
		}
	}
}

// remove removes the member i.
func (s *bitset) remove(i uint64) {
	s.n--
	for l := range s.levels {
		w := &s.levels[l][i/64]
		if *w &^= 1 << (i % 64); *w != 0 {
			return
		}
		i /= 64
	}
}

// highest returns the highest member.
func (s *bitset) highest() (uint64, bool) {
	if s.n == 0 {
		return 0, false
	}
	return s.descend(len(s.levels), 0), true
}

// descend returns the highest member below word i of a level whose word is not empty.
func (s *bitset) descend(level int, i uint64) uint64 {
	for level > 0 {
		level--
		i = i*64 + 63 - uint64(bits.LeadingZeros64(s.levels[level][i]))
	}
	return i
}

// below returns the highest member below i.
func (s *bitset) below(i uint64) (uint64, bool) {
	if s.n == 0 {
		return 0, false
	}
	for l := range s.levels {
		if w := s.levels[l][i/64] & (1<<(i%64) - 1); w != 0 {
			return s.descend(l, i/64*64+63-uint64(bits.LeadingZeros64(w))), true
		}
		i /= 64
	}
	return 0, false
}

func (s *bitset) reset() {
	for _, l := range s.levels {
		clear(l)
	}
	s.n = 0
}

func (s *bitset) metaBytes() (n uint64) {
	for _, l := range s.levels {
		n += 8 * uint64(len(l))
	}
	return n
}
