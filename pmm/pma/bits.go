package pma

import "math/bits"

// wordBits is the fan-out of one level of a bitTree: one machine word of bits.
const wordBits = 64

// bitTree is a set of small integers that finds its next member in one step a level: level 0 holds one bit an integer,
// each higher level one bit for a word of the level below that is not zero. Three levels cover 262,144 integers, four
// cover more roots than any device has. Every operation touches one word a level and allocates nothing.
type bitTree struct {
	levels [][]uint64
}

// newBitTree returns an empty set of the integers 0..n-1.
func newBitTree(n int) bitTree {
	var t bitTree
	for {
		words := (n + wordBits - 1) / wordBits
		if words == 0 {
			words = 1
		}
		t.levels = append(t.levels, make([]uint64, words))
		if words == 1 {
			return t
		}
		n = words
	}
}

// add puts i into the set.
func (t *bitTree) add(i int) {
	for _, l := range t.levels {
		w := &l[i>>6]
		was := *w
		*w = was | 1<<(uint(i)&63)
		if was != 0 {
			return
		}
		i >>= 6
	}
}

// remove takes i out of the set.
func (t *bitTree) remove(i int) {
	for _, l := range t.levels {
		w := &l[i>>6]
		*w &^= 1 << (uint(i) & 63)
		if *w != 0 {
			return
		}
		i >>= 6
	}
}

// next returns the smallest member that is not below i, or -1.
func (t *bitTree) next(i int) int {
	for level := 0; level < len(t.levels); level++ {
		l := t.levels[level]
		word := i >> 6
		if word >= len(l) {
			return -1
		}
		if w := l[word] >> (uint(i) & 63); w != 0 {
			i += bits.TrailingZeros64(w)
			for level > 0 {
				level--
				i = i<<6 + bits.TrailingZeros64(t.levels[level][i])
			}
			return i
		}
		i = word + 1
	}
	return -1
}

// copyFrom makes t equal to a set of the same capacity.
func (t *bitTree) copyFrom(o *bitTree) {
	for i := range t.levels {
		copy(t.levels[i], o.levels[i])
	}
}
