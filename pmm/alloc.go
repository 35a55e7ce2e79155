package pmm

// Alloc allocates len(out) chunks of size bytes each (uvm_pmm_gpu_alloc_user, uvm_pmm_gpu_alloc_kernel). User chunks come
// TEMP_PINNED, kernel chunks ALLOCATED. With an out tracker the pending work of the owning GPU is added to it; without one
// the call waits for it. On any error nothing is kept and out is zeroed. A size or flag that does not exist is
// InvalidArgument (the driver asserts).
func (m *Model) Alloc(t Type, size uint64, flags Flags, out []Chunk, tr *Tracker) Status {
	if t >= types || flags&^FlagsMask != 0 || !m.sizes[t].has(size) {
		clear(out)
		return InvalidArgument
	}
	idx := m.sizes[t].index[log2Of(size)]
	var local Tracker
	for i := range out {
		n, s := m.allocChunk(t, idx, flags)
		if s != OK {
			for i--; i >= 0; i-- {
				m.freeChunk(int32(out[i]))
			}
			clear(out)
			m.audit.saw(19)
			if m.audit != nil && s == InUse {
				m.audit.breach(19, "an allocation ended with %s, which is internal", s)
			}
			return s
		}
		out[i] = Chunk(n)
		m.collect(n, &local)
	}
	for g := 1; g < GPUs; g++ {
		m.waitEntry(g, local[g])
		local[g] = 0
	}
	if tr != nil {
		tr.Add(local)
	} else {
		m.waitEntry(0, local[0])
	}
	if t == Kernel && len(out) > 0 {
		m.lk.lockList()
		for _, c := range out {
			m.unpinLocked(int32(c), Allocated, Unpinned)
			m.updateLists(int32(c))
		}
		m.lk.unlockList()
	}
	if m.audit != nil {
		m.auditAlloc(t, size, out)
	}
	return OK
}

// collect adds the pending work of a chunk's root to a tracker.
func (m *Model) collect(n int32, local *Tracker) {
	root := m.rootIndexOf(n)
	m.lk.lockRoot(root)
	local.Add(m.pendingOf(root))
	m.lk.unlockRoot(root)
}

// rootIndexOf returns the index of the root that holds a chunk.
func (m *Model) rootIndexOf(n int32) int {
	m.lk.lockList()
	r := rootIndex(rootOf(m.nodes[n].addr))
	m.lk.unlockList()
	return r
}

// allocChunk is alloc_chunk: a chunk of exactly the size index from a free list, else a root, else by splitting a larger
// one. It comes back TEMP_PINNED.
func (m *Model) allocChunk(t Type, idx uint8, flags Flags) (int32, Status) {
	m.lk.lockList()
	n := m.claimLocked(t, idx)
	m.charge(m.price.alloc)
	m.lk.unlockList()
	if n != 0 {
		return n, OK
	}
	if int(idx) == m.sizes[t].n-1 {
		n, s := m.allocRoot(t, flags)
		if s != OK && flags&Evict != 0 {
			m.lk.lockMutex()
			n, s = m.pickAndEvictRetry(t, false)
			m.lk.unlockMutex()
		}
		return n, s
	}
	m.lk.lockMutex()
	n, s := m.allocWithSplits(t, idx, flags)
	m.lk.unlockMutex()
	if s != OK {
		m.handBack(t)
	}
	return n, s
}

// claimLocked takes the head of the zero list of exactly this size, else of the other one, and pins it
// (claim_free_chunk). A chunk whose root is in eviction is taken off the list and skipped: the evictor has it.
func (m *Model) claimLocked(t Type, idx uint8) int32 {
	n := m.findFreeLocked(freeListID(t, idx, true))
	if n == 0 {
		n = m.findFreeLocked(freeListID(t, idx, false))
	}
	if n == 0 {
		return 0
	}
	if p := m.nodes[n].parent; p != 0 {
		m.nodes[p].allocated++
	}
	m.pinLocked(n, Claimed)
	m.updateLists(n)
	return n
}

// findFreeLocked returns the first usable chunk of a free list without taking it (find_free_chunk_locked).
func (m *Model) findFreeLocked(id listID) int32 {
	for {
		n := m.lists[id].head
		if n == 0 || m.nodes[rootOf(m.nodes[n].addr)].flags&flagInEviction == 0 {
			return n
		}
		m.unlink(n)
	}
}

// allocWithSplits is alloc_chunk_with_splits, with the mutex held.
func (m *Model) allocWithSplits(t Type, idx uint8, flags Flags) (int32, Status) {
	sizes := &m.sizes[t]
	var n int32
	m.lk.lockList()
	for i := idx; int(i) < sizes.n && n == 0; i++ {
		n = m.claimLocked(t, i)
	}
	m.lk.unlockList()
	if n == 0 {
		var s Status
		n, s = m.allocRoot(t, flags)
		if s != OK && flags&Evict != 0 {
			n, s = m.pickAndEvictRetry(t, false)
		}
		if s != OK {
			return 0, s
		}
	}
	target := sizes.log2[idx]
	for {
		m.lk.lockList()
		if m.nodes[n].log2 == target {
			m.lk.unlockList()
			return n, OK
		}
		s := m.splitLocked(n)
		if s != OK {
			m.lk.unlockList()
			m.freeWithMerges(n)
			return 0, s
		}
		first := m.nodes[n].child
		for i, count := int32(1), int32(m.children(t, m.nodes[n].log2)); i < count; i++ {
			m.freeLocked(first + i)
		}
		n = first
		m.lk.unlockList()
	}
}

// allocRoot asks PMA for a root, or a batch of them for user memory (alloc_root_chunk). The first comes back TEMP_PINNED,
// the others go to the free list in PMA's order.
func (m *Model) allocRoot(t Type, flags Flags) (int32, Status) {
	pinned := t == Kernel || !m.cfg.Oversubscription
	want := 1
	m.charge(m.price.pmaCall)
	if !m.cfg.Simulated && !pinned && flags&DontBatch == 0 {
		want = 1 << m.cfg.BatchOrder
		if m.inject.kmemArmed(m) {
			return 0, NoMemory
		}
	}
	var buf [1 << BatchOrderMax]int32
	m.lk.lockPMARead()
	m.lk.lockFrames()
	m.stats.PMAAllocs++
	got := m.frames.AllocRoots(buf[:want], pinned, want > 1, m.NowNs())
	m.lk.unlockFrames()
	zero := m.frames.Scrub()
	m.audit.saw(27)
	if got > want {
		m.audit.breach(27, "PMA answered %d roots for %d", got, want)
	}
	for i, r := range buf[:got] {
		m.initRoot(int(r), t, zero, i == 0)
	}
	m.lk.unlockPMARead()
	if got == 0 {
		return 0, NoMemory
	}
	m.charge(int64(got) * m.price.pmaRoot)
	return buf[0] + 1, OK
}

// kmemArmed makes the metadata allocation of a batched PMA call and reports whether it failed.
func (i *injections) kmemArmed(m *Model) bool {
	m.lk.lockList()
	ok := m.metadataLocked()
	m.lk.unlockList()
	return !ok
}

// initRoot takes a root over from PMA (init_root_chunk).
func (m *Model) initRoot(root int, t Type, zero, first bool) {
	n := int32(root) + 1
	m.lk.lockRoot(root)
	m.trackers[root] = Tracker{}
	m.lk.lockList()
	c := &m.nodes[n]
	if c.state != PMAOwned {
		m.audit.breach(27, "PMA handed out root %d, which is %s", root, c.state)
	}
	c.typ, c.zero, c.block, c.flags, c.pageIndex, c.tag = t, zero, NoBlock, 0, 0, 0
	if first {
		m.pinLocked(n, RootFromPMA)
	} else {
		m.setState(n, Free, RootPrefetched)
	}
	m.updateLists(n)
	m.lk.unlockList()
	m.lk.unlockRoot(root)
}
