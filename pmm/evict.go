package pmm

// evictableLocked reports whether the eviction of a root may start (chunk_is_evictable).
func (m *Model) evictableLocked(n int32) bool {
	r := &m.nodes[n]
	return r.typ == User && r.state != PMAOwned && r.flags&flagInEviction == 0 && !m.rootPinned(r) && !m.cfg.NoEviction
}

// startEvictionLocked takes a root off its list and marks it (chunk_start_eviction).
func (m *Model) startEvictionLocked(n int32) {
	m.audit.saw(18)
	if m.audit != nil && (!m.evictableLocked(n) || m.nodes[n].list == noList) {
		m.audit.breach(18, "root %d, %s, on %s", rootIndex(n), m.nodes[n].state, m.listName(m.nodes[n].list))
	}
	m.unlink(n)
	m.nodes[n].flags |= flagInEviction
	m.inEviction++
}

// endEvictionLocked clears the mark.
func (m *Model) endEvictionLocked(n int32) {
	m.nodes[n].flags &^= flagInEviction
	m.inEviction--
}

// pickLocked chooses the next victim and starts its eviction (pick_root_chunk_to_evict): a free root, not zero first, then
// the oldest of UNUSED, DISCARDED and USED. 0 means there is none.
func (m *Model) pickLocked() int32 {
	if m.cfg.NoEviction {
		return 0
	}
	last := uint8(m.sizes[User].n - 1)
	n := m.findFreeLocked(freeListID(User, last, false))
	if n == 0 {
		n = m.findFreeLocked(freeListID(User, last, true))
	}
	for k := Unused; k < marks && n == 0; k++ {
		n = m.firstVictimLocked(evictBase + listID(k))
	}
	if n != 0 {
		m.startEvictionLocked(n)
	}
	return n
}

// firstVictimLocked returns the head of an eviction list. A root that a lazily freed sub-chunk has pinned behind the
// list's back is not evictable; it is passed over (the driver asserts here).
func (m *Model) firstVictimLocked(id listID) int32 {
	n := m.lists[id].head
	for n != 0 && m.rootPinned(&m.nodes[n]) {
		n = m.nodes[n].next
	}
	return n
}

// pickAndEvictRetry is pick_and_evict_root_chunk_retry with the mutex held: it repeats while PMA refuses the pin. forPMA
// says that PMA asked for the eviction.
func (m *Model) pickAndEvictRetry(t Type, forPMA bool) (int32, Status) {
	for {
		if n, s := m.pickAndEvict(t, forPMA); s != InUse {
			return n, s
		}
	}
}

func (m *Model) pickAndEvict(t Type, forPMA bool) (int32, Status) {
	m.lk.lockList()
	n := m.pickLocked()
	busy := m.pinnedRoots > 0 || m.inEviction > 0
	m.lk.unlockList()
	if n == 0 {
		if t == User && !forPMA && busy && !m.cfg.NoEviction {
			return 0, MoreProcessingRequired
		}
		return 0, NoMemory
	}
	if s := m.evictRoot(n); s != OK {
		return 0, s
	}
	if t == User {
		return n, OK
	}
	switch s := m.pinRoot(rootIndex(n)); s {
	case InUse:
		m.freeRoot(n, true)
		return 0, InUse
	default:
		// InvalidState comes only without oversubscription, where the page is pinned already; the driver asserts.
		m.lk.lockList()
		m.nodes[n].typ = t
		m.lk.unlockList()
		return n, OK
	}
}

// evictRoot empties a root whose eviction has started and leaves it whole and TEMP_PINNED (evict_root_chunk). The mutex is
// held, and dropped while a block moves its pages.
func (m *Model) evictRoot(n int32) Status {
	m.lk.lockList()
	m.pinFreeLeavesLocked(n)
	m.charge(m.price.evictRoot)
	m.lk.unlockList()
	for {
		m.lk.lockList()
		b := m.firstOwnerLocked(n)
		m.lk.unlockList()
		if b == NoBlock {
			break
		}
		m.lk.dropMutex()
		s := m.evictBlock(b, n)
		m.lk.lockMutex()
		if s != OK {
			m.abandonEviction(n)
			return s
		}
	}
	m.lk.lockList()
	m.mergeAllLocked(n)
	m.endEvictionLocked(n)
	m.nodes[n].zero = false
	m.stats.Evictions++
	m.lk.unlockList()
	return OK
}

// pinFreeLeavesLocked pins every FREE leaf of a root in eviction (pin_free_chunks_func).
func (m *Model) pinFreeLeavesLocked(top int32) {
	for n := m.firstLeaf(top); n != 0; n = m.nextLeaf(top, n) {
		c := &m.nodes[n]
		if c.state != Free {
			continue
		}
		if c.parent != 0 {
			m.nodes[c.parent].allocated++
		}
		m.unlink(n)
		m.pinLocked(n, PinnedForEviction)
	}
}

// firstOwnerLocked returns the owner of the first ALLOCATED leaf in address order, or NoBlock.
func (m *Model) firstOwnerLocked(top int32) Block {
	for n := m.firstLeaf(top); n != 0; n = m.nextLeaf(top, n) {
		if m.nodes[n].state == Allocated {
			return m.nodes[n].block
		}
	}
	return NoBlock
}

// evictBlock has a block move its pages out of a root, with the mutex dropped, and adds the work to the root's tracker.
func (m *Model) evictBlock(b Block, n int32) Status {
	if m.evictor != nil {
		if s := m.evictor.EvictBlock(m, b, rootIndex(n)); s != OK {
			return s
		}
	} else {
		m.MarkBlockEvicted(b, rootIndex(n))
	}
	m.addWork(rootIndex(n), m.Issue(0))
	m.lk.lockList()
	m.stats.BlockEvictions++
	m.lk.unlockList()
	m.charge(m.price.evictBlock)
	return OK
}

// MarkEvicted tells the manager that a block has moved its pages out of a chunk whose root is in eviction
// (uvm_pmm_gpu_mark_chunk_evicted): ALLOCATED becomes TEMP_PINNED without an owner. Anything else is InvalidState.
func (m *Model) MarkEvicted(c Chunk) Status {
	m.lk.lockList()
	defer m.lk.unlockList()
	n := int32(c)
	if !m.usableLocked(n) {
		return InvalidState
	}
	k := &m.nodes[n]
	if k.state != Allocated || k.block == NoBlock || m.nodes[rootOf(k.addr)].flags&flagInEviction == 0 {
		return InvalidState
	}
	m.markEvictedLocked(n)
	return OK
}

func (m *Model) markEvictedLocked(n int32) {
	m.audit.saw(17)
	m.pinLocked(n, BlockEvicted)
	m.nodes[n].block = NoBlock
	m.nodes[n].pageIndex = 0
	m.nodes[n].flags &^= flagReferenced
}

// MarkBlockEvicted is MarkEvicted for every chunk of a block below a root in eviction.
func (m *Model) MarkBlockEvicted(b Block, root int) {
	m.lk.lockList()
	defer m.lk.unlockList()
	top := int32(root) + 1
	if m.nodes[top].flags&flagInEviction == 0 {
		return
	}
	for n := m.firstLeaf(top); n != 0; n = m.nextLeaf(top, n) {
		if c := &m.nodes[n]; c.state == Allocated && c.block == b {
			m.markEvictedLocked(n)
		}
	}
}

// abandonEviction undoes what it can after a block refused: the mark goes, then every pinned leaf is freed one at a time,
// and one root is handed back. Chunks evicted before stay evicted. The mutex is held. The driver drops list_lock between two
// leaves; here it is held throughout, so that a leaf which another thread claims meanwhile is not taken for one of ours.
func (m *Model) abandonEviction(n int32) {
	m.lk.lockList()
	t := m.nodes[n].typ
	m.endEvictionLocked(n)
	m.updateLists(n)
	for leaf := m.firstPinnedLocked(n); leaf != 0; leaf = m.firstPinnedLocked(n) {
		for leaf != 0 {
			leaf = m.freeAndMergeLocked(leaf)
		}
	}
	m.lk.unlockList()
	m.handBack(t)
}

// firstPinnedLocked returns the first TEMP_PINNED leaf below top, or 0.
func (m *Model) firstPinnedLocked(top int32) int32 {
	n := m.firstLeaf(top)
	for n != 0 && m.nodes[n].state != TempPinned {
		n = m.nextLeaf(top, n)
	}
	return n
}

// pinRoot asks PMA to pin a root for kernel use.
func (m *Model) pinRoot(root int) Status {
	m.charge(m.price.pmaCall)
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.stats.PMAPins++
	if m.inject.pin > 0 {
		m.inject.pin--
		return InUse
	}
	return fromPMA(m.frames.PinRoot(root))
}
