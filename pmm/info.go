package pmm

// Info is what can be known of a chunk.
type Info struct {
	// Addr is the physical byte address, Size the size in bytes.
	Addr, Size uint64
	Type       Type
	State      State
	// Zero says that the contents are known to be zero; trustworthy only right after allocation.
	Zero bool
	// Block owns the chunk, NoBlock for kernel, free, pinned and split ones.
	Block Block
	// Referenced: an HMM page holds the chunk.
	Referenced bool
	// InEviction and Lazy concern the root and the lazy-free queue.
	InEviction, Lazy bool
	// Tag is the caller's word.
	Tag int32
	// Root is the index of the root that holds the chunk.
	Root int
}

// Info describes a chunk; ok is false when c names none.
func (m *Model) Info(c Chunk) (in Info, ok bool) {
	m.lk.lockList()
	defer m.lk.unlockList()
	if c <= 0 || int(c) >= len(m.nodes) || m.nodes[c].flags&flagDead != 0 {
		return Info{}, false
	}
	return m.infoLocked(int32(c)), true
}

func (m *Model) infoLocked(i int32) Info {
	n := &m.nodes[i]
	root := rootOf(n.addr)
	return Info{
		Addr: n.addr, Size: bytesOf(n.log2), Type: n.typ, State: n.state, Zero: n.zero, Block: n.block,
		Referenced: n.flags&flagReferenced != 0, InEviction: m.nodes[root].flags&flagInEviction != 0,
		Lazy: n.list == lazyList, Tag: n.tag, Root: rootIndex(root),
	}
}

// Addr returns a chunk's physical byte address.
func (m *Model) Addr(c Chunk) uint64 {
	m.lk.lockList()
	defer m.lk.unlockList()
	return m.nodes[c].addr
}

// SetTag attaches a word of the caller's to a chunk; a new allocation may still carry the last one, and the children of a
// split start with 0.
func (m *Model) SetTag(c Chunk, tag int32) {
	m.lk.lockList()
	defer m.lk.unlockList()
	m.nodes[c].tag = tag
}

// RootChunk names the root of an index, whatever its state.
func (m *Model) RootChunk(root int) Chunk { return Chunk(root + 1) }

// Children returns the first child and the number of children of a split chunk; 0, 0 for another. Children are named
// consecutively in address order.
func (m *Model) Children(c Chunk) (first Chunk, n int) {
	m.lk.lockList()
	defer m.lk.unlockList()
	k := &m.nodes[c]
	if k.state != Split {
		return NoChunk, 0
	}
	return Chunk(k.child), m.children(k.typ, k.log2)
}

// EachLeaf calls f for the leaves below c in address order until it returns false. f must not change the model.
func (m *Model) EachLeaf(c Chunk, f func(Chunk, Info) bool) {
	m.lk.lockList()
	defer m.lk.unlockList()
	top := int32(c)
	for n := m.firstLeaf(top); n != 0; n = m.nextLeaf(top, n) {
		if !f(Chunk(n), m.infoLocked(n)) {
			return
		}
	}
}

// FreeListLen returns the length of one free list; a size that the type does not have has none.
func (m *Model) FreeListLen(t Type, size uint64, zero bool) int {
	if t >= types || !m.sizes[t].has(size) {
		return 0
	}
	m.lk.lockList()
	defer m.lk.unlockList()
	return int(m.lists[freeListID(t, m.sizes[t].index[log2Of(size)], zero)].n)
}

// AllocListOf returns the eviction list on which the root that holds addr stands; InvalidState when it is on none,
// InvalidAddress outside the device (pmm_get_alloc_list of the driver's tests).
func (m *Model) AllocListOf(addr uint64) (Mark, Status) {
	if addr >= uint64(m.cfg.Roots)*RootBytes {
		return 0, InvalidAddress
	}
	m.lk.lockList()
	defer m.lk.unlockList()
	l := m.nodes[rootOf(addr)].list
	if l < evictBase || l >= evictBase+listID(marks) {
		return 0, InvalidState
	}
	return Mark(l - evictBase), OK
}
