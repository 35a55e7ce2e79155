package managed

import "math/bits"

const (
	// PageBytes is a page of the host and the smallest page of the device.
	PageBytes = 4 << 10
	// BlockBytes is the most that one VA block covers (UVM_VA_BLOCK_BITS is 21).
	BlockBytes = 2 << 20
	// BlockPages is the number of pages of a whole block.
	BlockPages = BlockBytes / PageBytes
	// bigPages is the number of pages of a 64 KiB big page.
	bigPages = (64 << 10) / PageBytes

	words = BlockPages / 64
)

// pageSet is a set of pages of one block.
type pageSet [words]uint64

func (s *pageSet) has(i int) bool { return s[i>>6]>>(uint(i)&63)&1 == 1 }
func (s *pageSet) add(i int)      { s[i>>6] |= 1 << (uint(i) & 63) }
func (s *pageSet) drop(i int)     { s[i>>6] &^= 1 << (uint(i) & 63) }

// addRange adds pages lo to hi-1.
func (s *pageSet) addRange(lo, hi int) {
	for w := range s {
		a, b := max(lo-w*64, 0), min(hi-w*64, 64)
		if a < b {
			s[w] |= (^uint64(0) >> uint(64-(b-a))) << uint(a)
		}
	}
}

func (s *pageSet) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// countRange counts the members among pages lo to hi-1.
func (s *pageSet) countRange(lo, hi int) int {
	var r pageSet
	r.addRange(lo, hi)
	r = r.and(*s)
	return r.count()
}

func (s pageSet) and(o pageSet) pageSet {
	for w := range s {
		s[w] &= o[w]
	}
	return s
}

func (s pageSet) or(o pageSet) pageSet {
	for w := range s {
		s[w] |= o[w]
	}
	return s
}

func (s pageSet) without(o pageSet) pageSet {
	for w := range s {
		s[w] &^= o[w]
	}
	return s
}

func (s *pageSet) empty() bool { return *s == pageSet{} }

// next returns the smallest member not below i, or BlockPages.
func (s *pageSet) next(i int) int {
	for w := i >> 6; w < words; w++ {
		v := s[w]
		if w == i>>6 {
			v &= ^uint64(0) << (uint(i) & 63)
		}
		if v != 0 {
			return w<<6 + bits.TrailingZeros64(v)
		}
	}
	return BlockPages
}
