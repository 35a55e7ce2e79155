package pmm

import (
	"github.com/gpubench/gpubench/pmm/pma"
)

// node is one chunk. Index 0 is no chunk, 1..Roots are the roots in address order, the rest are children, allocated in
// contiguous families so that the k-th child is first+k. 48 bytes: three quarters of a cache line.
type node struct {
	addr       uint64
	parent     int32
	child      int32 // first child while IS_SPLIT
	next, prev int32 // links of the list named by list
	block      Block
	tag        int32  // the caller's word, see SetTag
	pageIndex  uint16 // of the first page inside the owning VA block
	allocated  uint16 // children that are not FREE, while IS_SPLIT
	pinned     uint16 // TEMP_PINNED leaves below, in a root that IS_SPLIT
	list       listID
	log2       uint8
	state      State
	typ        Type
	zero       bool
	flags      nodeFlags
}

type nodeFlags uint8

const (
	flagInEviction  nodeFlags = 1 << iota // roots only
	flagInjectSplit                       // next split fails at its last child
	flagReferenced                        // an HMM page holds the chunk: free does nothing
	flagDead                              // not part of any tree (a family in the cache)
)

// Stats are the running counts of what the model did.
type Stats struct {
	// Waits counts tracker waits that had to block.
	Waits uint64
	// PMAAllocs, PMAFrees and PMAPins count calls to PMA made by the manager, failed ones included.
	PMAAllocs, PMAFrees, PMAPins uint64
	// ScrubbedBytes counts bytes that the manager gave back to PMA without the zero flag while scrub-on-free is on.
	ScrubbedBytes uint64
	// Splits and Merges count nodes split and merged.
	Splits, Merges uint64
	// Evictions counts roots evicted, BlockEvictions the calls to owners that took.
	Evictions, BlockEvictions uint64
	// HandBacks counts roots given to PMA by frees.
	HandBacks uint64
}

// Evictor moves the pages of a VA block out of a root. The manager calls it with its mutex dropped, so that other
// operations may run before it returns; it must end with Model.MarkEvicted for every chunk of the block below the root, or
// return a status other than OK. A chunk that it leaves out makes the manager ask again, until somebody has freed it, as the
// driver does with a block that dies meanwhile.
type Evictor interface {
	EvictBlock(m *Model, b Block, root int) Status
}

// Model is the manager of one device. Create it with New. It is not safe for concurrent use; see Shared.
type Model struct {
	nodes []node
	lists [listsMax]list
	sizes [types]sizeTable
	cache [cacheLevels]int32 // free families by log2 of their size, linked by next

	frames   *pma.Frames
	trackers []Tracker // one a root

	pinnedRoots int32
	inEviction  int32
	issued      Tracker
	completed   Tracker
	now         int64
	stats       Stats
	evictor     Evictor
	lk          *locks // nil in the unlocked form
	audit       *audit // nil without Audit
	cfg         Config
	price       prices
	inject      injections
}

// injections are the test hooks that make calls fail.
type injections struct {
	pmaEvict int32 // the n-th eviction for PMA from now fails
	pin      int32 // the next n pins are refused
	kmem     int32 // the n-th metadata allocation from now fails
}

// cacheLevels is one more than log2 of the largest family, 2 MiB / 64 bytes.
const cacheLevels = rootLog2 - minLog2 + 1

// New returns a device whose memory is all with PMA.
func New(cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	frames, err := pma.New(pma.Config{Roots: cfg.Roots, Scrub: cfg.Scrub, ScrubNsPerFrame: cfg.ScrubNsPerFrame})
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, frames: frames, trackers: make([]Tracker, cfg.Roots), nodes: make([]node, cfg.Roots+1)}
	m.price = cfg.Costs.prices()
	m.sizes[User] = newSizeTable(cfg.UserSizes)
	m.sizes[Kernel] = newSizeTable(cfg.KernelSizes)
	m.nodes[0].flags = flagDead
	for i := 1; i <= cfg.Roots; i++ {
		m.nodes[i] = node{addr: uint64(i-1) * RootBytes, log2: rootLog2, block: NoBlock}
	}
	return m, nil
}

// Config returns the configuration the model was made with.
func (m *Model) Config() Config { return m.cfg }

// Stats returns the running counts.
func (m *Model) Stats() Stats {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.lk.lockList()
	defer m.lk.unlockList()
	return m.stats
}

// Frames gives read access to the PMA below.
func (m *Model) Frames() *pma.Frames { return m.frames }

// SetEvictor sets who moves pages when a block's chunks are evicted. Without one every block eviction succeeds at once.
func (m *Model) SetEvictor(e Evictor) { m.evictor = e }

// SizesMask returns the mask of chunk sizes of a type (the pmm_query of the driver's tests).
func (m *Model) SizesMask(t Type) uint64 { return m.sizes[t].mask }

// rootOf returns the node of the root that holds byte address addr.
func rootOf(addr uint64) int32 { return int32(addr>>rootLog2) + 1 }

// rootIndex is the inverse of rootOf for a root node.
func rootIndex(n int32) int { return int(n - 1) }

// children returns the number of children of a split node of this type and size.
func (m *Model) children(t Type, log2 uint8) int {
	s := &m.sizes[t]
	return 1 << (log2 - s.log2[s.index[log2]-1])
}
