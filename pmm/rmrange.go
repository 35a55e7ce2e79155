package pmm

import "github.com/gpubench/gpubench/pmm/pma"

// RMAllocRange is a client of the resource manager that needs n contiguous roots, pinned. PMA takes the lowest free run;
// without one, and with evict, it takes the lowest run in which everything is free or unpinned, pins the free roots, marks the
// range and calls the manager's evict-range callback; what was evicted is scrubbed before it is handed out. It returns the
// address of the first root; NoMemory when no run exists or a root of it stays pinned in the manager, and then nothing is
// kept, though what was evicted stays evicted. Give the roots back with RMFree.
func (m *Model) RMAllocRange(n int, evict bool) (uint64, Status) {
	if n < 1 || n > m.cfg.Roots {
		return 0, InvalidArgument
	}
	m.charge(m.price.pmaCall)
	m.lk.lockFrames()
	first := m.frames.FindFree(n, m.NowNs())
	if first >= 0 {
		for r := first; r < first+n; r++ {
			m.frames.PinFree(r)
		}
		m.lk.unlockFrames()
		return uint64(first) * RootBytes, OK
	}
	if evict && m.cfg.Oversubscription {
		first = m.frames.FindRange(n, m.NowNs())
	}
	if first < 0 {
		m.lk.unlockFrames()
		return 0, NoMemory
	}
	had := 0 // bytes that were free
	for r := first; r < first+n; r++ {
		if m.frames.PinFree(r) != 0 {
			had += RootBytes
		}
		m.frames.MarkEvicting(r, true)
	}
	m.lk.unlockFrames()
	s := m.EvictRange(first, first+n-1)
	m.lk.lockFrames()
	for r := first; r < first+n; r++ {
		m.frames.MarkEvicting(r, false)
		if _, unpinned, _ := m.frames.RootState(r); s != OK && unpinned == 0 {
			m.frames.Free(r, ^uint32(0), false, m.NowNs())
		}
	}
	m.lk.unlockFrames()
	if s != OK {
		return 0, s
	}
	if m.cfg.Scrub {
		frames := int64(n*RootBytes-had) / pma.FrameBytes
		m.charge(frames * m.cfg.ScrubNsPerFrame)
	}
	return uint64(first) * RootBytes, OK
}
