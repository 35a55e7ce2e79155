package pmm

import (
	"math/bits"

	"github.com/gpubench/gpubench/pmm/pma"
)

// log2Of returns the exponent of a power of two.
func log2Of(size uint64) uint8 { return uint8(bits.TrailingZeros64(size)) }

// Free frees a chunk (uvm_pmm_gpu_free). work is what the GPUs still do with it: the zero Tracker when nothing is pending.
// NoChunk and a chunk that an HMM page holds are ignored. A chunk that is neither ALLOCATED nor TEMP_PINNED is
// InvalidState (the driver asserts).
func (m *Model) Free(c Chunk, work Tracker) Status {
	n := int32(c)
	if n == 0 {
		return OK
	}
	m.lk.lockList()
	bad := !m.usableLocked(n)
	held := !bad && m.nodes[n].flags&flagReferenced != 0
	root := 0
	if !bad {
		root = rootIndex(rootOf(m.nodes[n].addr))
	}
	m.lk.unlockList()
	if bad {
		return InvalidState
	}
	if held {
		return OK
	}
	if work != (Tracker{}) {
		m.addWork(root, work)
	}
	m.freeChunk(n)
	return OK
}

// usableLocked reports whether n names a live chunk that is ALLOCATED or TEMP_PINNED.
func (m *Model) usableLocked(n int32) bool {
	if n <= 0 || int(n) >= len(m.nodes) {
		return false
	}
	c := &m.nodes[n]
	return c.flags&flagDead == 0 && c.list != lazyList && (c.state == Allocated || c.state == TempPinned)
}

// freeChunk is free_chunk: the short way under list_lock, or with merges under the mutex, then the hand-back.
func (m *Model) freeChunk(n int32) {
	m.lk.lockList()
	m.charge(m.price.free)
	c := &m.nodes[n]
	t, isRoot := c.typ, c.parent == 0
	c.flags &^= flagInjectSplit
	if isRoot || m.nodes[c.parent].allocated != 1 {
		m.freeLocked(n)
		m.lk.unlockList()
		if isRoot {
			m.handBack(t)
		}
		return
	}
	m.lk.unlockList()
	m.lk.lockMutex()
	m.freeWithMerges(n)
	m.lk.unlockMutex()
	m.handBack(t)
}

// freeLocked is chunk_free_locked. In a root in eviction the chunk is pinned for the evictor instead.
func (m *Model) freeLocked(n int32) {
	c := &m.nodes[n]
	if m.nodes[rootOf(c.addr)].flags&flagInEviction != 0 {
		if c.state == Allocated {
			m.pinLocked(n, FreedInEviction)
			c.block = NoBlock
			c.zero = false
		} else {
			m.setState(n, TempPinned, FreedInEviction)
		}
		return
	}
	if c.parent != 0 {
		m.nodes[c.parent].allocated--
	}
	if m.audit != nil {
		m.auditFree(c)
	}
	if c.state == TempPinned {
		m.unpinLocked(n, Free, Freed)
	} else {
		m.setState(n, Free, Freed)
	}
	c.block = NoBlock
	c.zero = false
	m.updateLists(n)
}

// freeWithMerges frees a chunk and, as long as that leaves a family with nothing allocated, merges the family and goes on
// with its parent (free_chunk_with_merges). The mutex is held.
func (m *Model) freeWithMerges(n int32) {
	for n != 0 {
		m.lk.lockList()
		n = m.freeAndMergeLocked(n)
		m.lk.unlockList()
	}
}

// freeAndMergeLocked frees a chunk; when that leaves a family with nothing allocated it merges the family and returns the
// parent, which is to be freed next, else 0.
func (m *Model) freeAndMergeLocked(n int32) int32 {
	p := m.nodes[n].parent
	m.freeLocked(n)
	if p == 0 || m.nodes[p].allocated != 0 {
		return 0
	}
	m.prepareMergeLocked(p)
	m.mergeLocked(p)
	return p
}

// prepareMergeLocked takes all children of p off their free list and pins them, so that nobody can claim one before the
// merge (the second half of free_or_prepare_for_merge).
func (m *Model) prepareMergeLocked(p int32) {
	c := &m.nodes[p]
	first, count := c.child, m.children(c.typ, c.log2)
	for n := first; n < first+int32(count); n++ {
		m.unlink(n)
		m.setState(n, TempPinned, PinnedForMerge)
	}
	m.nodes[rootOf(c.addr)].pinned += uint16(count)
	c.allocated = uint16(count)
	if c.typ == User {
		m.unlink(rootOf(c.addr))
	}
}

// handBack gives one free root of a type to PMA, a non-zero one if there is one (free_next_available_root_chunk). It
// reports whether there was one.
func (m *Model) handBack(t Type) bool {
	last := uint8(m.sizes[t].n - 1)
	m.lk.lockList()
	n := m.findFreeLocked(freeListID(t, last, false))
	if n == 0 {
		n = m.findFreeLocked(freeListID(t, last, true))
	}
	if n != 0 {
		m.pinLocked(n, PinnedForHandBack)
		m.unlink(n)
		m.stats.HandBacks++
	}
	m.lk.unlockList()
	if n == 0 {
		return false
	}
	m.freeRoot(n, true)
	return true
}

// freeRoot waits for a pinned root's work and gives it up (free_root_chunk). With toPMA false the frames stay pinned for
// the client that asked for the eviction.
func (m *Model) freeRoot(n int32, toPMA bool) {
	root := rootIndex(n)
	m.lk.lockPMARead()
	m.lk.lockRoot(root)
	m.Wait(m.trackers[root])
	m.trackers[root] = Tracker{}
	m.lk.lockList()
	c := &m.nodes[n]
	m.audit.saw(24)
	if c.state != TempPinned || c.list != noList {
		m.audit.breach(24, "root %d goes to PMA from %s on %s", root, c.state, m.listName(c.list))
	}
	zero := c.zero
	m.unpinLocked(n, PMAOwned, ReturnedToPMA)
	c.zero = false
	c.block = NoBlock
	c.flags = 0
	m.lk.unlockList()
	if toPMA {
		m.pmaFree(root, ^uint32(0), zero)
	}
	m.lk.unlockRoot(root)
	m.lk.unlockPMARead()
}

// pmaFree is one PMA free call of the manager for frames of one root.
func (m *Model) pmaFree(root int, mask uint32, zero bool) {
	m.lk.lockFrames()
	m.stats.PMAFrees++
	m.releaseFrames(root, mask, zero)
	m.lk.unlockFrames()
	m.charge(m.price.pmaCall)
}

// releaseFrames gives frames back and counts what will have to be scrubbed.
func (m *Model) releaseFrames(root int, mask uint32, zero bool) {
	if m.cfg.Scrub && !zero {
		m.stats.ScrubbedBytes += uint64(bits.OnesCount32(mask)) * pma.FrameBytes
	}
	m.frames.Free(root, mask, zero, m.NowNs())
}

// ReleaseFreeRoots hands every free root of both types back to PMA (the test call release_free_root_chunks) and returns
// how many there were.
func (m *Model) ReleaseFreeRoots() int {
	n := 0
	for t := User; t < types; t++ {
		for m.handBack(t) {
			n++
		}
	}
	return n
}
