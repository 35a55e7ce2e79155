package pmm

// Unpin makes a user chunk ALLOCATED and thereby evictable, with block as its owner (uvm_pmm_gpu_unpin_allocated).
// pageIndex is the chunk's first page inside the block. A chunk that is not a TEMP_PINNED user chunk is InvalidState, a
// negative block InvalidArgument.
func (m *Model) Unpin(c Chunk, block Block, pageIndex int) Status {
	if block < 0 {
		return InvalidArgument
	}
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) || m.nodes[n].state != TempPinned || m.nodes[n].typ != User {
		return InvalidState
	}
	if m.nodes[n].list != noList || m.nodes[rootOf(m.nodes[n].addr)].flags&flagInEviction != 0 {
		return InvalidState
	}
	m.nodes[n].block = block
	m.nodes[n].pageIndex = uint16(pageIndex)
	m.unpinLocked(n, Allocated, Unpinned)
	m.updateLists(n)
	m.audit.saw(15)
	if m.audit != nil && (m.nodes[n].state != Allocated || m.nodes[n].block != block) {
		m.audit.breach(15, "unpinned chunk 0x%x is %s with owner %d", m.nodes[n].addr, m.nodes[n].state, m.nodes[n].block)
	}
	m.charge(m.price.unpin)
	return OK
}

// MarkRoot moves a 2 MiB user chunk to the tail of an eviction list (uvm_pmm_gpu_mark_root_chunk_used and its siblings);
// without effect while it is pinned or in eviction. Another chunk is InvalidState.
func (m *Model) MarkRoot(c Chunk, k Mark) Status {
	if k >= marks {
		return InvalidArgument
	}
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) || m.nodes[n].typ != User || m.nodes[n].parent != 0 {
		return InvalidState
	}
	if r := &m.nodes[n]; !m.rootPinned(r) && r.flags&flagInEviction == 0 {
		m.moveTail(n, evictBase+listID(k))
	}
	return OK
}

// Split splits a chunk all the way down to chunks of size bytes, writes the first len(out) of them in address order, and
// returns how many there are (uvm_pmm_gpu_split_chunk). NoMemory leaves the chunk as it was, except that a tree that was
// partly built and merged back is not zero any more.
func (m *Model) Split(c Chunk, size uint64, out []Chunk) (int, Status) {
	m.lk.lockMutex()
	defer m.lk.unlockMutex()
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) {
		return 0, InvalidState
	}
	k := &m.nodes[n]
	if !m.sizes[k.typ].has(size) || size >= bytesOf(k.log2) {
		return 0, InvalidArgument
	}
	target := log2Of(size)
	before := *k
	injected := k.flags&flagInjectSplit != 0
	k.flags &^= flagInjectSplit
	// The injected error is meant for the last node to be split, so that nearly the whole tree exists when it strikes.
	lastAddr := k.addr + bytesOf(k.log2) - bytesOf(m.sizes[k.typ].log2[m.sizes[k.typ].index[target]+1])
	if s := m.splitDownLocked(n, target, lastAddr, injected); s != OK {
		m.mergeAllLocked(n)
		m.audit.saw(20)
		if a := &m.nodes[n]; a.state != before.state || a.child != 0 || a.block != before.block {
			m.audit.breach(20, "after a failed split chunk 0x%x is %s, was %s", a.addr, a.state, before.state)
		}
		return 0, s
	}
	count := 0
	for leaf := m.firstLeaf(n); leaf != 0; leaf = m.nextLeaf(n, leaf) {
		if count < len(out) {
			out[count] = Chunk(leaf)
		}
		count++
	}
	return count, OK
}

func (m *Model) splitDownLocked(n int32, target uint8, lastAddr uint64, injected bool) Status {
	c := &m.nodes[n]
	last := m.sizes[c.typ].log2[m.sizes[c.typ].index[c.log2]-1] == target
	if last && injected && c.addr == lastAddr {
		c.flags |= flagInjectSplit
	}
	if s := m.splitLocked(n); s != OK {
		return s
	}
	if last {
		return OK
	}
	c = &m.nodes[n]
	first, count := c.child, int32(m.children(c.typ, c.log2))
	for i := range count {
		if s := m.splitDownLocked(first+i, target, lastAddr, injected); s != OK {
			return s
		}
	}
	return OK
}

// mergeableLocked reports whether all leaves below n have the same state, owner and HMM mark, none being free or in the
// lazy-free queue.
func (m *Model) mergeableLocked(n int32) bool {
	leaf := m.firstLeaf(n)
	a := m.nodes[leaf]
	if (a.state != Allocated && a.state != TempPinned) || a.list == lazyList {
		return false
	}
	for leaf = m.nextLeaf(n, leaf); leaf != 0; leaf = m.nextLeaf(n, leaf) {
		c := &m.nodes[leaf]
		if c.state != a.state || (c.state == Allocated && c.block != a.block) || (c.flags^a.flags)&flagReferenced != 0 {
			return false
		}
		if c.list == lazyList {
			return false
		}
	}
	return true
}

// Merge merges everything below a chunk back into it (uvm_pmm_gpu_merge_chunk). A chunk that is not split is accepted and
// unchanged. Leaves that are not uniform are InvalidState (the driver asserts).
func (m *Model) Merge(c Chunk) Status {
	m.lk.lockMutex()
	defer m.lk.unlockMutex()
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if n <= 0 || int(n) >= len(m.nodes) || m.nodes[n].flags&flagDead != 0 || !m.mergeableLocked(n) {
		return InvalidState
	}
	m.mergeAllLocked(n)
	return OK
}

// Subchunks writes the leaves below parent in address order into out, leaving out the first start ones, and returns how
// many it wrote (uvm_pmm_gpu_get_subchunks). An unsplit parent is its own only leaf; an empty out returns 0 at once.
func (m *Model) Subchunks(parent Chunk, start int, out []Chunk) int {
	if len(out) == 0 {
		return 0
	}
	m.lk.lockMutex()
	defer m.lk.unlockMutex()
	m.lk.lockList()
	defer m.lk.unlockList()
	n := 0
	top := int32(parent)
	for leaf := m.firstLeaf(top); leaf != 0 && n < len(out); leaf = m.nextLeaf(top, leaf) {
		if start > 0 {
			start--
			continue
		}
		out[n] = Chunk(leaf)
		n++
	}
	return n
}

// LazyFree queues a user chunk that an HMM page has released in a context that may not sleep (devmem_page_free); Flush
// frees it. Until then it is TEMP_PINNED on the lazy list.
func (m *Model) LazyFree(c Chunk) Status {
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) || m.nodes[n].typ != User || m.nodes[n].list == lazyList {
		return InvalidState
	}
	k := &m.nodes[n]
	k.flags &^= flagReferenced
	k.block = NoBlock
	if k.state == Allocated {
		m.pinLocked(n, LazyFreed)
		if m.cfg.LazyListRule {
			m.updateLists(n)
		}
	} else {
		m.setState(n, TempPinned, LazyFreed)
	}
	if m.nodes[rootOf(k.addr)].flags&flagInEviction != 0 {
		return OK // pinned is enough: the evictor takes it
	}
	m.moveTail(n, lazyList)
	return OK
}

// Flush frees all that LazyFree has queued, in order (process_lazy_free), and returns how many chunks.
func (m *Model) Flush() int {
	count := 0
	for {
		m.lk.lockList()
		n := m.lists[lazyList].head
		if n != 0 {
			m.unlink(n)
		}
		m.lk.unlockList()
		if n == 0 {
			return count
		}
		count++
		m.freeChunk(n)
	}
}

// SetReferenced says whether an HMM device-private page holds a user chunk; while it does, Free is a no-op.
func (m *Model) SetReferenced(c Chunk, held bool) Status {
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) || m.nodes[n].typ != User {
		return InvalidState
	}
	m.nodes[n].flags &^= flagReferenced
	if held {
		m.nodes[n].flags |= flagReferenced
	}
	return OK
}
