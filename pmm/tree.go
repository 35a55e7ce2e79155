package pmm

import "math/bits"

// pinLocked makes a FREE or ALLOCATED chunk TEMP_PINNED and counts it (chunk_pin).
func (m *Model) pinLocked(n int32, why Trigger) {
	m.setState(n, TempPinned, why)
	c := &m.nodes[n]
	if c.parent == 0 {
		m.pinnedRoots++
		return
	}
	m.nodes[rootOf(c.addr)].pinned++
}

// unpinLocked gives a TEMP_PINNED chunk another state (chunk_unpin).
func (m *Model) unpinLocked(n int32, to State, why Trigger) {
	m.setState(n, to, why)
	c := &m.nodes[n]
	if c.parent == 0 {
		m.pinnedRoots--
		return
	}
	m.nodes[rootOf(c.addr)].pinned--
}

// metadataLocked is one metadata allocation; it fails when the injected count runs out.
func (m *Model) metadataLocked() bool {
	if m.inject.kmem > 0 {
		m.inject.kmem--
		return m.inject.kmem != 0
	}
	return true
}

// takeFamily returns the first of n = 1<<level consecutive nodes, from the cache or from the end of the arena.
func (m *Model) takeFamily(level int) int32 {
	if first := m.cache[level]; first != 0 {
		m.cache[level] = m.nodes[first].next
		return first
	}
	n := 1 << level
	first := len(m.nodes)
	if first+n <= cap(m.nodes) {
		m.nodes = m.nodes[:first+n]
	} else {
		m.nodes = append(m.nodes, make([]node, n)...)
	}
	return int32(first)
}

// dropFamily gives the family of a parent back to the cache.
func (m *Model) dropFamily(first int32, n int) {
	for i := range m.nodes[first : int(first)+n] {
		c := &m.nodes[int(first)+i]
		c.flags = flagDead
		c.list = noList
	}
	level := bits.TrailingZeros(uint(n))
	m.nodes[first].next = m.cache[level]
	m.cache[level] = first
}

// splitLocked turns a TEMP_PINNED or ALLOCATED chunk into a family of the next smaller size of its type; the children
// inherit its state, owner and zero mark (split_gpu_chunk). It needs 1 + children metadata allocations; when one fails, or
// on the injected error at the last child, nothing has changed and the answer is NoMemory.
func (m *Model) splitLocked(n int32) Status {
	c := &m.nodes[n]
	count := m.children(c.typ, c.log2)
	if c.flags&flagInjectSplit != 0 {
		c.flags &^= flagInjectSplit
		for range count { // the record and all children but the last
			if !m.metadataLocked() {
				return NoMemory
			}
		}
		return NoMemory
	}
	if m.inject.kmem > 0 {
		for range count + 1 {
			if !m.metadataLocked() {
				return NoMemory
			}
		}
	}
	level := bits.TrailingZeros(uint(count))
	first := m.takeFamily(level)
	c = &m.nodes[n] // the arena may have moved
	sub := node{
		addr: c.addr, parent: n, tag: 0, block: c.block, pageIndex: c.pageIndex,
		log2: c.log2 - uint8(level), state: c.state, typ: c.typ, zero: c.zero, flags: c.flags & flagReferenced,
	}
	step := bytesOf(sub.log2)
	pages := uint16(step >> 12)
	kids := m.nodes[first : int(first)+count]
	for i := range kids {
		kids[i] = sub
		sub.addr += step
		if c.block != NoBlock {
			sub.pageIndex += pages
		}
	}
	if c.state == TempPinned {
		r := &m.nodes[rootOf(c.addr)]
		if c.parent == 0 {
			r.pinned = uint16(count)
			m.pinnedRoots--
		} else {
			r.pinned += uint16(count - 1)
		}
	} else if c.parent == 0 {
		c.pinned = 0
	}
	m.setState(n, Split, SplitUp)
	c.child = first
	c.allocated = uint16(count)
	c.block = NoBlock
	c.flags &^= flagReferenced
	m.stats.Splits++
	m.charge(m.price.split + int64(count)*m.price.splitChild)
	return OK
}

// mergeLocked turns a family of uniform children back into its parent, which takes their state and owner and is not zero
// (merge_gpu_chunk).
func (m *Model) mergeLocked(n int32) {
	p := &m.nodes[n]
	count := m.children(p.typ, p.log2)
	kid := &m.nodes[p.child]
	if m.audit != nil {
		m.auditMerge(p, count)
	}
	m.setState(n, kid.state, Merged)
	p.block = kid.block
	p.pageIndex = kid.pageIndex
	p.flags |= kid.flags & flagReferenced
	p.zero = false
	if p.state == TempPinned {
		if p.parent == 0 {
			p.pinned = 0
			m.pinnedRoots++
		} else {
			m.nodes[rootOf(p.addr)].pinned -= uint16(count - 1)
		}
	}
	m.dropFamily(p.child, count)
	p.child = 0
	p.allocated = 0
	m.stats.Merges++
	m.charge(m.price.merge + int64(count)*m.price.mergeChild)
}

// mergeAllLocked merges every split node of a subtree, children first.
func (m *Model) mergeAllLocked(n int32) {
	c := &m.nodes[n]
	if c.state != Split {
		return
	}
	first, count := c.child, m.children(c.typ, c.log2)
	if m.sizes[c.typ].index[c.log2] > 1 {
		for i := range int32(count) {
			m.mergeAllLocked(first + i)
		}
	}
	m.mergeLocked(n)
}

// nextLeaf returns the leaf after n in address order below top, or 0. Start with firstLeaf.
func (m *Model) nextLeaf(top, n int32) int32 {
	for n != top {
		p := m.nodes[n].parent
		pn := &m.nodes[p]
		if int(n-pn.child)+1 < m.children(pn.typ, pn.log2) {
			return m.firstLeaf(n + 1)
		}
		n = p
	}
	return 0
}

// firstLeaf returns the leaf with the lowest address below n; n itself when it is not split.
func (m *Model) firstLeaf(n int32) int32 {
	for m.nodes[n].state == Split {
		n = m.nodes[n].child
	}
	return n
}
