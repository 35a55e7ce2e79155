package managed

import (
	"slices"

	"github.com/gpubench/gpubench/pmm"
)

// chooser keeps what the policies need to know about roots, and picks victims.
type chooser struct {
	s      *Space
	last   []uint64 // by root: number of the last touch
	ref    []bool   // by root: touched since the hand passed
	count  uint64   // touches so far
	hand   int
	random uint64
	// uses[b] are the positions at which block b is touched, ascending; pos is how many touches have been.
	uses map[pmm.Block][]int
	pos  int
}

func newChooser(s *Space) chooser {
	n := s.m.Config().Roots
	return chooser{s: s, last: make([]uint64, n), ref: make([]bool, n), random: s.opts.Seed*2654435769 + 0x9e3779b97f4a7c15}
}

// SetFuture tells Belady's policy which blocks will be touched by the device, in order: one entry for every block that every
// later Touch or Prefetch meets.
func (s *Space) SetFuture(blocks []pmm.Block) {
	c := &s.policy
	c.uses, c.pos = map[pmm.Block][]int{}, 0
	for i, b := range blocks {
		c.uses[b] = append(c.uses[b], i)
	}
}

// touched notes that the device touches a block.
func (c *chooser) touched(id pmm.Block) {
	c.pos++
	c.count++
	for _, k := range c.s.blocks[id].chunks {
		c.use(k)
	}
}

// use notes that the root of a chunk is touched.
func (c *chooser) use(k pmm.Chunk) {
	if k != pmm.NoChunk {
		r := c.s.m.Addr(k) / pmm.RootBytes
		c.last[r], c.ref[r] = c.count, true
	}
}

// evictable reports whether a root can be evicted now.
func (c *chooser) evictable(root int) bool {
	_, st := c.s.m.AllocListOf(uint64(root) * pmm.RootBytes)
	return st == pmm.OK
}

// victim picks the root to evict, or -1 when there is none. It looks at every root.
func (c *chooser) victim() int {
	switch c.s.opts.Policy {
	case Clock:
		return c.clock()
	case Random:
		return c.any()
	}
	best, score := -1, 0
	for r := range c.last {
		if !c.evictable(r) {
			continue
		}
		v := -int(c.last[r]) // the older the better
		if c.s.opts.Policy == Belady {
			v = c.nextUse(r)
		}
		if best < 0 || v > score {
			best, score = r, v
		}
	}
	return best
}

// clock passes over roots that were touched since the hand came by, once.
func (c *chooser) clock() int {
	for range 2*len(c.ref) + 1 {
		r := c.hand
		c.hand = (c.hand + 1) % len(c.ref)
		if !c.evictable(r) {
			continue
		}
		if !c.ref[r] {
			return r
		}
		c.ref[r] = false
	}
	return -1
}

func (c *chooser) any() int {
	n := 0
	for r := range c.ref {
		if c.evictable(r) {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	k := int(xorshift(&c.random) % uint64(n))
	for r := range c.ref {
		if c.evictable(r) {
			if k == 0 {
				return r
			}
			k--
		}
	}
	return -1
}

// never is the position of a touch that does not come.
const never = int(^uint(0) >> 1)

// nextUse returns the position of the first later touch of any block with a chunk in a root.
func (c *chooser) nextUse(root int) int {
	next := never
	c.s.m.EachLeaf(c.s.m.RootChunk(root), func(_ pmm.Chunk, in pmm.Info) bool {
		if in.State == pmm.Allocated {
			// pos counts the touch under way, whose own position is pos-1.
			at := c.uses[in.Block]
			if i, _ := slices.BinarySearch(at, c.pos); i < len(at) {
				next = min(next, at[i])
			}
		}
		return true
	})
	return next
}
