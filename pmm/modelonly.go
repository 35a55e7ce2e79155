package pmm

import "math/bits"

// Everything in this file exists in the model only. The driver has no defragmentation, no fragmentation statistics, no
// emergency path and no memory pools; articles describe some of these, and this is what they could mean.

// DefragResult is what Defrag gave back.
type DefragResult struct {
	Roots int
	Bytes uint64
}

// Defrag [model only] drains the lazy-free queue and hands every free root to PMA. Families that could merge do not exist,
// since frees merge eagerly. Nothing that lives is moved, so it cannot cure real fragmentation. A second call returns zero.
func (m *Model) Defrag() DefragResult {
	before := m.Stats().HandBacks
	m.Flush()
	m.ReleaseFreeRoots()
	n := int(m.Stats().HandBacks - before)
	return DefragResult{n, uint64(n) * RootBytes}
}

// SizeStats counts the chunks of one size.
type SizeStats struct {
	Size                    uint64
	Free, Pinned, Allocated int
}

// FragStats describes fragmentation.
type FragStats struct {
	// Sizes are per type, ascending.
	Sizes [types][]SizeStats
	// FreeBytes are in FREE chunks, PMAFreeBytes in free frames.
	FreeBytes, PMAFreeBytes uint64
	// External is 1 - (bytes in FREE roots + whole free roots of PMA) / (all free bytes), 0 when nothing is free.
	External float64
	// LargestUser and LargestKernel are the largest chunks that can be allocated without eviction; 0 when none can.
	LargestUser, LargestKernel uint64
}

// FragStats [model only] measures fragmentation.
func (m *Model) FragStats() FragStats {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.lk.lockList()
	defer m.lk.unlockList()
	var s FragStats
	for t := range s.Sizes {
		s.Sizes[t] = make([]SizeStats, m.sizes[t].n)
		for i := range s.Sizes[t] {
			s.Sizes[t][i].Size = bytesOf(m.sizes[t].log2[i])
		}
	}
	var whole uint64
	for r := int32(1); int(r) <= m.cfg.Roots; r++ {
		for n := m.firstLeaf(r); n != 0; n = m.nextLeaf(r, n) {
			m.countFrag(&m.nodes[n], &s)
		}
		if m.nodes[r].state == Free {
			whole += RootBytes
		}
	}
	roots := m.frames.FreeRoots()
	s.PMAFreeBytes = uint64(m.frames.Counts().Free) * (RootBytes / 32)
	whole += uint64(roots) * RootBytes
	if all := s.FreeBytes + s.PMAFreeBytes; all > 0 {
		s.External = 1 - float64(whole)/float64(all)
	}
	s.LargestUser, s.LargestKernel = m.largest(User, roots), m.largest(Kernel, roots)
	return s
}

func (m *Model) countFrag(n *node, s *FragStats) {
	if n.state == PMAOwned {
		return
	}
	k := &s.Sizes[n.typ][m.sizes[n.typ].index[n.log2]]
	switch n.state {
	case Free:
		k.Free++
		s.FreeBytes += bytesOf(n.log2)
	case TempPinned:
		k.Pinned++
	case Allocated:
		k.Allocated++
	}
}

// largest returns the largest chunk of a type that is there for the taking.
func (m *Model) largest(t Type, pmaRoots int) uint64 {
	if pmaRoots > 0 {
		return RootBytes
	}
	for i := m.sizes[t].n - 1; i >= 0; i-- {
		if m.lists[freeListID(t, uint8(i), false)].n+m.lists[freeListID(t, uint8(i), true)].n > 0 {
			return bytesOf(m.sizes[t].log2[i])
		}
	}
	return 0
}

// EmergencyDefrag [model only] is Defrag, and then the eviction of user roots in the driver's order until want roots are
// free in PMA (or being scrubbed), or no candidate is left. It returns how many are. The status is that of the last
// eviction: NoMemory or MoreProcessingRequired when it ended early.
func (m *Model) EmergencyDefrag(want int) (int, Status) {
	m.Defrag()
	for {
		have := m.rootsComing()
		if have >= want {
			return have, OK
		}
		m.lk.lockMutex()
		n, s := m.pickAndEvictRetry(User, false)
		m.lk.unlockMutex()
		if s != OK {
			return have, s
		}
		m.freeRoot(n, true)
	}
}

// rootsComing counts roots whose frames are all free or being scrubbed.
func (m *Model) rootsComing() int {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.frames.Poll(m.NowNs())
	n := m.frames.FreeRoots()
	if m.frames.Counts().Scrubbing == 0 {
		return n
	}
	n = 0
	for i := range m.cfg.Roots {
		free, _, scrubbing := m.frames.RootState(i)
		n += bits.OnesCount32(free|scrubbing) / 32
	}
	return n
}

// Phase is where a byte of memory stands on its way from use to being free for anybody.
type Phase uint8

// The phases of a delayed free. There is no state "freeing" in the driver: three separate delays exist.
const (
	// PhaseInUse: the chunk is allocated or pinned.
	PhaseInUse Phase = iota
	// PhaseLazy: queued for the worker that frees HMM pages; TEMP_PINNED.
	PhaseLazy
	// PhaseFreePending: FREE, and work issued before the free still runs; who allocates it waits or inherits the tracker.
	PhaseFreePending
	// PhaseFree: FREE and idle.
	PhaseFree
	// PhaseScrubbing: with PMA, which is zeroing the frame.
	PhaseScrubbing
	// PhasePMAFree: free in PMA.
	PhasePMAFree
	// PhasePMAUsed: with PMA and used by a client of the resource manager.
	PhasePMAUsed
)

// String returns the phase in words.
func (p Phase) String() string {
	return [...]string{"in use", "lazily queued", "free, work pending", "free", "scrubbing", "free in PMA", "pinned in PMA"}[p]
}

// PhaseOf [model only] tells where the byte at an address stands; InvalidAddress outside the device.
func (m *Model) PhaseOf(addr uint64) (Phase, Status) {
	if addr >= uint64(m.cfg.Roots)*RootBytes {
		return 0, InvalidAddress
	}
	root := rootIndex(rootOf(addr))
	m.lk.lockRoot(root)
	pending := m.Pending(m.trackers[root]) > 0
	m.lk.unlockRoot(root)
	m.lk.lockFrames()
	m.frames.Poll(m.NowNs())
	free, _, scrubbing := m.frames.RootState(root)
	m.lk.unlockFrames()
	m.lk.lockList()
	defer m.lk.unlockList()
	n := rootOf(addr)
	for m.nodes[n].state == Split {
		c := &m.nodes[n]
		n = c.child + int32((addr-c.addr)>>m.nodes[c.child].log2)
	}
	bit := uint32(1) << (addr % RootBytes >> 16)
	switch c := &m.nodes[n]; {
	case c.list == lazyList:
		return PhaseLazy, OK
	case c.state == Free && pending:
		return PhaseFreePending, OK
	case c.state == Free:
		return PhaseFree, OK
	case c.state != PMAOwned:
		return PhaseInUse, OK
	case scrubbing&bit != 0:
		return PhaseScrubbing, OK
	case free&bit != 0:
		return PhasePMAFree, OK
	}
	return PhasePMAUsed, OK
}
