package pmm

import "github.com/gpubench/gpubench/pmm/pma"

// fromPMA translates an answer of the lower half.
func fromPMA(r pma.Result) Status {
	switch r {
	case pma.OK:
		return OK
	case pma.NoMemory:
		return NoMemory
	case pma.InvalidArgument:
		return InvalidArgument
	case pma.InUse:
		return InUse
	}
	return InvalidState
}

// RMAlloc is a client of the resource manager: n pinned pages of pageBytes (64 KiB, 128 KiB, 2 MiB or 512 MiB), lowest
// addresses first, not contiguous. With evict, what is missing is asked of the manager's evict-pages callback. The
// addresses are appended to dst; on failure nothing is kept and dst is returned as it was.
func (m *Model) RMAlloc(dst []uint64, n int, pageBytes uint64, evict bool) ([]uint64, Status) {
	if n < 0 || !pma.ValidPage(pageBytes) {
		return dst, InvalidArgument
	}
	m.charge(m.price.pmaCall)
	m.lk.lockFrames()
	have := len(dst)
	dst, r := m.frames.AllocPages(dst, n, pageBytes, m.NowNs())
	m.lk.unlockFrames()
	if r != pma.OK {
		return dst, fromPMA(r)
	}
	left := n - (len(dst) - have)
	m.charge(int64(n-left) * m.price.pmaRoot)
	if left == 0 {
		return dst, OK
	}
	s := NoMemory
	if evict && m.cfg.Oversubscription && pageBytes <= RootBytes {
		got := len(dst)
		dst, s = m.EvictPages(dst, left, pageBytes, 0, uint64(m.cfg.Roots)*RootBytes)
		if s == OK {
			return dst, OK
		}
		dst = dst[:got]
	}
	m.lk.lockFrames()
	for _, a := range dst[have:] {
		m.undoPage(a, pageBytes)
	}
	m.lk.unlockFrames()
	return dst[:have], s
}

// undoPage gives a page back that was taken and never used: it is as clean as it was.
func (m *Model) undoPage(addr, pageBytes uint64) {
	m.eachRoot(addr, pageBytes, func(root int, mask uint32) { m.frames.Free(root, mask, true, m.NowNs()) })
}

// eachRoot calls f for the part of a page in each root.
func (m *Model) eachRoot(addr, pageBytes uint64, f func(root int, mask uint32)) {
	if pageBytes <= RootBytes {
		if root, mask, ok := m.frames.PageMask(addr, pageBytes); ok {
			f(root, mask)
		}
		return
	}
	for a := addr; a < addr+pageBytes; a += RootBytes {
		f(int(a/RootBytes), ^uint32(0))
	}
}

// RMFree gives pages of an RM client back. A page that is not pinned is InvalidState, one outside the device
// InvalidAddress; the pages before it have been freed.
func (m *Model) RMFree(pages []uint64, pageBytes uint64) Status {
	if !pma.ValidPage(pageBytes) {
		return InvalidArgument
	}
	m.charge(m.price.pmaCall)
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	for _, a := range pages {
		if a%pageBytes != 0 || a >= uint64(m.cfg.Roots)*RootBytes || a+pageBytes > uint64(m.cfg.Roots)*RootBytes {
			return InvalidAddress
		}
		bad := false
		m.eachRoot(a, pageBytes, func(root int, mask uint32) {
			free, unpinned, scrubbing := m.frames.RootState(root)
			bad = bad || (free|unpinned|scrubbing)&mask != 0
		})
		if bad {
			return InvalidState
		}
		m.eachRoot(a, pageBytes, func(root int, mask uint32) { m.frames.Free(root, mask, false, m.NowNs()) })
	}
	return OK
}

// EvictPages is the callback by which PMA asks for n pages of pageBytes inside the byte window [first, end)
// (uvm_pmm_gpu_pma_evict_pages). Pages come pinned and are appended to dst; on error all are given back.
func (m *Model) EvictPages(dst []uint64, n int, pageBytes, first, end uint64) ([]uint64, Status) {
	have := len(dst)
	perRoot := int(RootBytes / pageBytes)
	s := OK
	for left := n; left > 0 && s == OK; {
		var root int32
		m.lk.lockMutex()
		if m.pmaEvictFails() {
			s = NoMemory
		} else {
			root, s = m.pickAndEvictRetry(Kernel, true)
		}
		m.lk.unlockMutex()
		if s != OK {
			break
		}
		addr := uint64(rootIndex(root)) * RootBytes
		if addr < first || addr+RootBytes > end {
			m.freeRoot(root, true)
			s = NoMemory
			break
		}
		m.freeRoot(root, false)
		take := min(left, perRoot)
		for i := range take {
			dst = append(dst, addr+uint64(i)*pageBytes)
		}
		left -= take
		if take < perRoot {
			used := uint(take) * uint(pageBytes/pma.FrameBytes)
			m.pmaFree(rootIndex(root), ^uint32(0)<<used, false)
		}
	}
	if s == OK {
		return dst, OK
	}
	m.givePagesBack(dst[have:], pageBytes)
	return dst[:have], s
}

// givePagesBack frees pages that were gathered for PMA, in one call.
func (m *Model) givePagesBack(pages []uint64, pageBytes uint64) {
	if len(pages) == 0 {
		return
	}
	m.lk.lockFrames()
	m.stats.PMAFrees++
	for _, a := range pages {
		if root, mask, ok := m.frames.PageMask(a, pageBytes); ok {
			m.releaseFrames(root, mask, false)
		}
	}
	m.lk.unlockFrames()
}

// pmaEvictFails reports whether this eviction for PMA is the one that was asked to fail.
func (m *Model) pmaEvictFails() bool {
	m.lk.lockList()
	defer m.lk.unlockList()
	if m.inject.pmaEvict > 0 {
		m.inject.pmaEvict--
		return m.inject.pmaEvict == 0
	}
	return false
}

// evictRangeSpins is how often EvictRange looks at a root that is neither evictable nor with PMA before it gives up; the
// driver spins for 30 s.
const evictRangeSpins = 3

// evictRangeSpinsShared is the same for the locked form, where another thread may unpin the root; it yields in between.
const evictRangeSpinsShared = 10_000

// EvictRange is the callback by which PMA asks for all roots of the range [first, last] (uvm_pmm_gpu_pma_evict_range). A
// root that stays pinned makes it give up with NoMemory; a kernel root in the range, or one outside the device, is
// InvalidArgument (the driver asserts).
func (m *Model) EvictRange(first, last int) Status {
	if first > last || first < 0 || last >= m.cfg.Roots {
		return InvalidArgument
	}
	m.lk.flushPMA()
	defer m.lk.flushPMA()
	for i := first; i <= last; i++ {
		n := int32(i) + 1
		started, away, kernel := m.awaitEvictable(n)
		m.audit.saw(26)
		if kernel {
			m.audit.breach(26, "evict-range met kernel root %d", i)
			return InvalidArgument
		}
		if away {
			continue
		}
		if !started {
			return NoMemory
		}
		m.lk.lockMutex()
		s := m.evictRoot(n)
		m.lk.unlockMutex()
		if s != OK {
			return NoMemory
		}
		m.freeRoot(n, true)
		if m.pmaEvictFails() {
			return NoMemory
		}
	}
	return OK
}

// awaitEvictable looks at a root until its eviction could be started or it is with PMA.
func (m *Model) awaitEvictable(n int32) (started, away, kernel bool) {
	spins := evictRangeSpins
	if m.lk != nil {
		spins = evictRangeSpinsShared
	}
	for range spins {
		m.lk.lockList()
		r := &m.nodes[n]
		away = r.state == PMAOwned
		kernel = !away && r.typ == Kernel
		if !away && !kernel && m.evictableLocked(n) {
			m.startEvictionLocked(n)
			started = true
		}
		m.lk.unlockList()
		if started || away || kernel {
			return started, away, kernel
		}
		m.lk.yield()
	}
	return false, false, false
}

// TestEvict is the driver's test call uvm_test_evict_chunk in its default mode (root < 0) or by physical address: it evicts
// one root and frees it. picked is the root whose eviction was started, or -1; finding none is OK.
func (m *Model) TestEvict(root int) (picked int, s Status) {
	if root >= m.cfg.Roots {
		return -1, InvalidAddress
	}
	var n int32
	m.lk.lockList()
	if root < 0 {
		n = m.pickLocked()
	} else if r := int32(root) + 1; m.evictableLocked(r) {
		m.startEvictionLocked(r)
		n = r
	}
	m.lk.unlockList()
	if n == 0 {
		return -1, OK
	}
	m.lk.lockMutex()
	s = m.evictRoot(n)
	m.lk.unlockMutex()
	if s == OK {
		m.freeChunk(n)
	}
	return rootIndex(n), s
}

// InjectPMAEvict makes the k-th eviction for PMA from now fail; 0 disarms.
func (m *Model) InjectPMAEvict(k int) {
	m.lk.lockList()
	m.inject.pmaEvict = int32(k)
	m.lk.unlockList()
}

// InjectPin makes PMA refuse the next k pins as InUse.
func (m *Model) InjectPin(k int) {
	m.lk.lockFrames()
	m.inject.pin = int32(k)
	m.lk.unlockFrames()
}

// InjectMetadata makes the (k+1)-th metadata allocation from now fail, once.
func (m *Model) InjectMetadata(k int) {
	m.lk.lockList()
	m.inject.kmem = int32(k) + 1
	m.lk.unlockList()
}

// InjectSplit makes the next split of a chunk fail at its last child.
func (m *Model) InjectSplit(c Chunk) Status {
	m.lk.lockList()
	defer m.lk.unlockList()
	if !m.usableLocked(int32(c)) {
		return InvalidState
	}
	m.nodes[c].flags |= flagInjectSplit
	return OK
}
