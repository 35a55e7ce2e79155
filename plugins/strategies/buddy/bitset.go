package buddy

import "math/bits"

const (
	leafWords = 64
	leafBits  = leafWords * 64
)

// leaf is 4096 bits with a summary of its non-zero words.
type leaf struct {
	summary uint64
	words   [leafWords]uint64
}

// bitset is a set of numbers below a bound, with the lowest member in O(log64). Leaves are made at their first use and kept.
type bitset struct {
	index  []uint32   // leaf number -> position in leaves, 0 = not made yet
	leaves []leaf     // [0] unused, always empty
	levels [][]uint64 // levels[0]: one bit for each leaf that is not empty; each further level sums up the one before
	n      int
}

func newBitset(bound uint64) *bitset {
	n := (bound + leafBits - 1) / leafBits
	s := &bitset{index: make([]uint32, n), leaves: make([]leaf, 1)}
	for {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, n))
		if n <= 1 {
			return s
		}
	}
}

func (s *bitset) reset() {
	for i := range s.leaves {
		s.leaves[i] = leaf{}
	}
	for _, l := range s.levels {
		clear(l)
	}
	s.n = 0
}

func (s *bitset) has(i uint64) bool {
	if i/leafBits >= uint64(len(s.index)) {
		return false
	}
	l := &s.leaves[s.index[i/leafBits]]
	return l.words[i/64%leafWords]>>(i%64)&1 != 0
}

// add adds i, which is not a member.
func (s *bitset) add(i uint64) {
	at := i / leafBits
	k := s.index[at]
	if k == 0 {
		k = uint32(len(s.leaves))
		s.leaves = append(s.leaves, leaf{})
		s.index[at] = k
	}
	l := &s.leaves[k]
	w := i / 64 % leafWords
	l.words[w] |= 1 << (i % 64)
	s.n++
	if l.summary == 0 {
		for level := range s.levels {
			word := &s.levels[level][at/64]
			was := *word
			*word |= 1 << (at % 64)
			if was != 0 {
				break
			}
			at /= 64
		}
	}
	l.summary |= 1 << w
}

// remove removes the member i.
func (s *bitset) remove(i uint64) {
	at := i / leafBits
	l := &s.leaves[s.index[at]]
	w := i / 64 % leafWords
	s.n--
	if l.words[w] &^= 1 << (i % 64); l.words[w] != 0 {
		return
	}
	if l.summary &^= 1 << w; l.summary != 0 {
		return
	}
	for level := range s.levels {
		word := &s.levels[level][at/64]
		if *word &^= 1 << (at % 64); *word != 0 {
			return
		}
		at /= 64
	}
}

// lowest returns the lowest member of a set that is not empty.
func (s *bitset) lowest() uint64 {
	at := uint64(0)
	for level := len(s.levels) - 1; level >= 0; level-- {
		at = at*64 + uint64(bits.TrailingZeros64(s.levels[level][at]))
	}
	l := &s.leaves[s.index[at]]
	w := bits.TrailingZeros64(l.summary)
	return at*leafBits + uint64(w)*64 + uint64(bits.TrailingZeros64(l.words[w]))
}

// each calls f for every member in ascending order.
func (s *bitset) each(f func(i uint64)) {
	for at, k := range s.index {
		for w, word := range s.leaves[k].words {
			for ; word != 0; word &= word - 1 {
				f(uint64(at)*leafBits + uint64(w)*64 + uint64(bits.TrailingZeros64(word)))
			}
		}
	}
}

func (s *bitset) metaBytes() uint64 {
	n := uint64(len(s.index))*4 + uint64(cap(s.leaves))*8*(leafWords+1)
	for _, l := range s.levels {
		n += uint64(len(l)) * 8
	}
	return n
}
