package pmm

import (
	"fmt"
	"math/bits"
)

// checker collects violations of one pass over a model.
type checker struct {
	m      *Model
	out    []Violation
	onList [listsMax]int32 // nodes that claim to be on each list
	pinned int32           // TEMP_PINNED leaves below the root at hand
	bytes  uint64          // covered by its leaves
	roots  int32           // pinned roots
	evict  int32           // roots in eviction
}

// Check verifies every invariant that can be seen at rest, and reports what an audit has found inside calls. It visits
// every chunk; nil means that all hold.
func (m *Model) Check() []Violation { return m.check(true) }

// CheckInFlight is Check for a moment at which an eviction is under way, such as inside an Evictor.
func (m *Model) CheckInFlight() []Violation { return m.check(false) }

func (m *Model) check(atRest bool) []Violation {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.lk.lockList()
	defer m.lk.unlockList()
	c := checker{m: m}
	if m.audit != nil {
		c.out = append(c.out, m.audit.breaches...)
	}
	c.sizes()
	m.audit.saw(29)
	for i := range m.cfg.Roots {
		c.root(i, atRest)
	}
	if c.roots != m.pinnedRoots {
		c.bad(8, "%d roots are pinned, the counter says %d", c.roots, m.pinnedRoots)
	}
	if c.evict != m.inEviction {
		c.bad(8, "%d roots are in eviction, the counter says %d", c.evict, m.inEviction)
	}
	if atRest && m.inEviction != 0 {
		c.bad(8, "%d roots are in eviction at rest", m.inEviction)
	}
	c.lists()
	if err := m.frames.Check(); err != nil {
		c.bad(21, "%v", err)
	}
	return c.out
}

// CheckEmpty verifies that everything has been given back (the checks of uvm_pmm_gpu_deinit).
func (m *Model) CheckEmpty() []Violation {
	out := m.Check()
	m.audit.saw(25)
	c := checker{m: m}
	for i := 1; i <= m.cfg.Roots; i++ {
		if s := m.nodes[i].state; s != PMAOwned {
			c.bad(25, "root %d is %s", i-1, s)
		}
	}
	for id, l := range m.lists {
		if l.n != 0 {
			c.bad(25, "%s has %d entries", m.listName(listID(id)), l.n)
		}
	}
	cached := 0
	for level, first := range m.cache {
		for ; first != 0; first = m.nodes[first].next {
			cached += 1 << level
		}
	}
	if used := len(m.nodes) - m.cfg.Roots - 1; cached != used {
		c.bad(25, "%d of %d chunk descriptors are in the cache", cached, used)
	}
	return append(out, c.out...)
}

func (c *checker) bad(rule int, format string, args ...any) {
	if len(c.out) < breachesMax {
		c.out = append(c.out, Violation{rule, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) sizes() {
	for t := range c.m.sizes {
		s := &c.m.sizes[t]
		if s.n > SizesMax || s.n < 1 || s.log2[s.n-1] != rootLog2 || bits.OnesCount64(s.mask) != s.n {
			c.bad(29, "%s mask 0x%x", Type(t), s.mask)
		}
	}
}

// root checks one root and all below it.
func (c *checker) root(i int, atRest bool) {
	m := c.m
	n := &m.nodes[i+1]
	m.audit.saw(1)
	m.audit.saw(21)
	if n.addr != uint64(i)*RootBytes || n.log2 != rootLog2 || n.parent != 0 {
		c.bad(1, "root %d: address 0x%x, log2 size %d, parent %d", i, n.addr, n.log2, n.parent)
	}
	c.pinned, c.bytes = 0, 0
	if n.state == TempPinned {
		c.roots++
	}
	if n.flags&flagInEviction != 0 {
		c.evict++
		if n.typ != User || n.state == PMAOwned {
			c.bad(17, "root %d in eviction is %s and %s", i, n.typ, n.state)
		}
	}
	c.frames(i, n)
	if n.state == PMAOwned {
		m.audit.saw(13)
		m.audit.saw(23)
		if n.list != noList || n.child != 0 || n.block != NoBlock || n.allocated != 0 {
			c.bad(13, "root %d with PMA: list %s, child %d, owner %d", i, m.listName(n.list), n.child, n.block)
		}
		if m.trackers[i] != (Tracker{}) {
			c.bad(23, "root %d with PMA has pending work %v", i, m.trackers[i])
		}
		return
	}
	if atRest && n.typ == Kernel && n.state == Free {
		c.bad(30, "kernel root %d is FREE", i)
	}
	if n.typ == Kernel {
		m.audit.saw(30)
	}
	if n.state == Split || n.state == TempPinned {
		m.audit.saw(8)
	}
	m.audit.saw(9)
	c.node(int32(i + 1))
	if n.state == Split && c.pinned != int32(n.pinned) {
		c.bad(8, "root %d has %d pinned leaves, the counter says %d", i, c.pinned, n.pinned)
	}
	if c.bytes != RootBytes {
		c.bad(9, "root %d: leaves cover %d bytes", i, c.bytes)
	}
	c.evictionList(i, n)
}

// frames compares a root with the state of its frames in PMA.
func (c *checker) frames(i int, n *node) {
	free, unpinned, scrubbing := c.m.frames.RootState(i)
	want := uint32(0)
	if n.state != PMAOwned {
		if n.typ == User && c.m.cfg.Oversubscription {
			want = ^uint32(0)
		}
		if free|scrubbing != 0 {
			c.bad(21, "root %d is %s, but PMA has frames %08x free or being scrubbed", i, n.state, free|scrubbing)
		}
	}
	if unpinned != want {
		c.bad(21, "root %d is %s and %s: frames %08x are unpinned in PMA, want %08x", i, n.state, n.typ, unpinned, want)
	}
}

func (c *checker) evictionList(i int, n *node) {
	m := c.m
	on := n.list >= evictBase && n.list < evictBase+listID(marks)
	want := n.typ == User && (n.state == Allocated || n.state == Split) && !m.rootPinned(n) && n.flags&flagInEviction == 0
	if n.typ == User {
		m.audit.saw(12)
	}
	if on != want && !(on && m.lists[lazyList].n > 0 && !m.cfg.LazyListRule) {
		c.bad(12, "%s root %d, %s, %d pinned leaves: on list %s", n.typ, i, n.state, n.pinned, m.listName(n.list))
	}
}

// node checks a chunk and what is below it.
func (c *checker) node(k int32) {
	m := c.m
	n := &m.nodes[k]
	s := &m.sizes[n.typ]
	size := bytesOf(n.log2)
	m.audit.saw(2)
	m.audit.saw(4)
	if !s.has(size) || n.addr%size != 0 || (n.parent == 0 && n.log2 != rootLog2) || n.flags&flagDead != 0 {
		c.bad(2, "chunk 0x%x has log2 size %d", n.addr, n.log2)
		return
	}
	if n.list != noList {
		c.onList[n.list]++
	}
	if (n.child != 0) != (n.state == Split) {
		c.bad(4, "chunk 0x%x is %s and has child %d", n.addr, n.state, n.child)
		return
	}
	if n.state == Split {
		c.splitNode(k, n, s)
		return
	}
	c.bytes += size
	c.leaf(n)
}

func (c *checker) leaf(n *node) {
	m := c.m
	root := &m.nodes[rootOf(n.addr)]
	m.audit.saw(5)
	switch n.state {
	case Free:
		m.audit.saw(10)
		if n.parent != 0 {
			m.audit.saw(11)
		}
		want := freeListID(n.typ, m.sizes[n.typ].index[n.log2], n.zero)
		if root.flags&flagInEviction != 0 {
			want = noList
		}
		if n.list != want {
			c.bad(10, "FREE chunk 0x%x of %d bytes is on %s, not on %s", n.addr, bytesOf(n.log2), m.listName(n.list), m.listName(want))
		}
	case TempPinned:
		if n.parent != 0 {
			c.pinned++
		}
		if n.list != noList && n.list != lazyList {
			c.bad(12, "pinned chunk 0x%x is on %s", n.addr, m.listName(n.list))
		}
	case Allocated:
		m.audit.saw(14)
		if n.typ == User && n.block == NoBlock {
			c.bad(14, "user chunk 0x%x is ALLOCATED and has no owner", n.addr)
		}
		if n.parent != 0 && n.list != noList {
			c.bad(10, "ALLOCATED chunk 0x%x is on %s", n.addr, m.listName(n.list))
		}
	default:
		c.bad(5, "leaf 0x%x is %s", n.addr, n.state)
	}
	if n.typ == Kernel && (n.block != NoBlock || n.flags&flagReferenced != 0) {
		c.bad(14, "kernel chunk 0x%x has owner %d or is held", n.addr, n.block)
	}
	if n.state == Free && n.flags&flagReferenced != 0 {
		c.bad(14, "FREE chunk 0x%x is held", n.addr)
	}
}

func (c *checker) splitNode(k int32, n *node, s *sizeTable) {
	m := c.m
	idx := s.index[n.log2]
	if idx == 0 {
		c.bad(2, "chunk 0x%x of the smallest size is split", n.addr)
		return
	}
	if n.block != NoBlock || n.flags&flagReferenced != 0 {
		c.bad(5, "split chunk 0x%x has owner %d", n.addr, n.block)
	}
	for _, rule := range [...]int{3, 6, 7} {
		m.audit.saw(rule)
	}
	count := m.children(n.typ, n.log2)
	if int(n.child)+count > len(m.nodes) {
		c.bad(4, "chunk 0x%x has children up to %d of %d", n.addr, int(n.child)+count, len(m.nodes))
		return
	}
	used := 0
	for i := range int32(count) {
		kid := &m.nodes[n.child+i]
		if kid.parent != k || kid.typ != n.typ || kid.addr != n.addr+uint64(i)<<kid.log2 {
			c.bad(3, "child %d of 0x%x: address 0x%x, type %s, parent %d", i, n.addr, kid.addr, kid.typ, kid.parent)
		}
		if kid.log2 != s.log2[idx-1] {
			c.bad(2, "child %d of 0x%x has log2 size %d", i, n.addr, kid.log2)
			return
		}
		if kid.state != Free {
			used++
		}
		c.node(n.child + i)
	}
	if used != int(n.allocated) {
		c.bad(6, "chunk 0x%x has %d children in use, the counter says %d", n.addr, used, n.allocated)
	}
	if used == 0 {
		c.bad(7, "split chunk 0x%x has only FREE children", n.addr)
	}
}

// lists walks every list and compares it with what its members say.
func (c *checker) lists() {
	m := c.m
	for id := noList + 1; id < listsMax; id++ {
		l := m.lists[id]
		count, prev := int32(0), int32(0)
		for n := l.head; n != 0 && count <= l.n; n = m.nodes[n].next {
			k := &m.nodes[n]
			if k.list != id || k.prev != prev {
				c.bad(10, "%s: entry 0x%x says it is on %s", m.listName(id), k.addr, m.listName(k.list))
				return
			}
			if id < evictBase && k.state != Free {
				c.bad(10, "%s: entry 0x%x is %s", m.listName(id), k.addr, k.state)
			}
			if id < evictBase && k.zero != ((id-freeBase)&1 == 1) {
				c.bad(10, "%s: entry 0x%x has zero mark %v", m.listName(id), k.addr, k.zero)
			}
			if id < evictBase && k.zero && k.log2 != rootLog2 {
				c.bad(11, "%s: entry 0x%x", m.listName(id), k.addr)
			}
			prev = n
			count++
		}
		if count != l.n || c.onList[id] != l.n || l.tail != prev {
			c.bad(10, "%s: length %d, %d linked, %d chunks say they are on it", m.listName(id), l.n, count, c.onList[id])
		}
	}
}

// listName names a list in words.
func (m *Model) listName(id listID) string {
	switch {
	case id == noList:
		return "no list"
	case id < evictBase:
		k := id - freeBase
		t := Type(k / (SizesMax * 2))
		size := bytesOf(m.sizes[t].log2[k/2%SizesMax])
		zero := ""
		if k&1 == 1 {
			zero = " zero"
		}
		return fmt.Sprintf("the%s free list of %s %d", zero, t, size)
	case id < lazyList:
		return Mark(id - evictBase).String()
	}
	return "the lazy-free queue"
}
