package pmm

// HashStart is the start value of list hashes in recordings of the driver. It is not the usual FNV offset basis.
const (
	HashStart = 1469598103934665603
	hashPrime = 1099511628211
)

// ListCensus is the length of a list and a hash of the addresses on it, in order: FNV-1a 64 over 8 bytes little endian an
// address, from HashStart.
type ListCensus struct {
	Len  int
	Hash uint64
}

// FreeListCensus is one free list that is not empty.
type FreeListCensus struct {
	Type Type
	Size uint64
	Zero bool
	ListCensus
}

// Census counts everything at one moment.
type Census struct {
	// Chunks counts nodes by state over all trees, Bytes the leaves' bytes.
	Chunks [StatesCount]int
	Bytes  [StatesCount]uint64
	// FreeLists are ordered by type, size and zero mark; empty ones are left out.
	FreeLists []FreeListCensus
	// AllocLists are unused, discarded and used.
	AllocLists [marks]ListCensus
	// Lazy is the length of the lazy-free queue.
	Lazy                    int
	PinnedRoots, InEviction int
	// Frames are PMA's.
	FramesFree, FramesUnpinned, FramesPinned, FramesScrubbing int
	// BadSplits counts split nodes whose count of allocated children is wrong: always 0.
	BadSplits int
	Stats     Stats
}

// Census counts everything. It visits every node, and reuses the slices of c.
func (m *Model) Census(c *Census) {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.lk.lockList()
	defer m.lk.unlockList()
	*c = Census{FreeLists: c.FreeLists[:0], Stats: m.stats, PinnedRoots: int(m.pinnedRoots), InEviction: int(m.inEviction)}
	for r := 1; r <= m.cfg.Roots; r++ {
		m.countTree(int32(r), c)
	}
	for t := User; t < types; t++ {
		for i := range uint8(m.sizes[t].n) {
			for _, zero := range [2]bool{false, true} {
				if l := m.listCensus(freeListID(t, i, zero)); l.Len > 0 {
					c.FreeLists = append(c.FreeLists, FreeListCensus{t, bytesOf(m.sizes[t].log2[i]), zero, l})
				}
			}
		}
	}
	for k := Unused; k < marks; k++ {
		c.AllocLists[k] = m.listCensus(evictBase + listID(k))
	}
	c.Lazy = int(m.lists[lazyList].n)
	n := m.frames.Counts()
	c.FramesFree, c.FramesUnpinned, c.FramesPinned, c.FramesScrubbing = n.Free, n.Unpinned, n.Pinned, n.Scrubbing
}

func (m *Model) countTree(n int32, c *Census) {
	k := &m.nodes[n]
	c.Chunks[k.state]++
	if k.state != Split {
		c.Bytes[k.state] += bytesOf(k.log2)
		return
	}
	used := 0
	for i := range int32(m.children(k.typ, k.log2)) {
		if m.nodes[k.child+i].state != Free {
			used++
		}
		m.countTree(k.child+i, c)
	}
	if used != int(k.allocated) {
		c.BadSplits++
	}
}

func (m *Model) listCensus(id listID) ListCensus {
	h := uint64(HashStart)
	for n := m.lists[id].head; n != 0; n = m.nodes[n].next {
		a := m.nodes[n].addr
		for range 8 {
			h = (h ^ a&0xff) * hashPrime
			a >>= 8
		}
	}
	return ListCensus{int(m.lists[id].n), h}
}
