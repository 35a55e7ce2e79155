package zoo

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	cachingUnitBytes    = 512     // blocks are multiples of it
	cachingSegmentBytes = 2 << 20 // segments are multiples of it
	cachingSmallBytes   = 1 << 20 // the largest request of the pool of small blocks
	cachingClasses      = 56      // log2 of a block's units is below it
)

// segment is memory held from the device.
type segment struct {
	addr, bytes uint64
	first       int32
	pool        int
	live        int    // live blocks
	birth       uint64 // number of the malloc
}

// bin holds the free blocks of a class: units from 2^class to 2^(class+1)−1.
type bin struct {
	class int
	list  []int32
}

// cacheState is what a checkpoint saves.
type cacheState struct {
	chain
	segs    []segment // [0] and those with 0 bytes are not in use
	bins    [2][]bin  // of the pools of small and large blocks, by class; none is empty
	tracked map[uint64]int32
	asked   [cachingClasses]uint64 // requests, by class
}

func (c *cacheState) clone() cacheState {
	s := cacheState{chain: c.chain.clone(), segs: slices.Clone(c.segs), tracked: maps.Clone(c.tracked), asked: c.asked}
	for p := range c.bins {
		for _, b := range c.bins[p] {
			s.bins[p] = append(s.bins[p], bin{b.class, slices.Clone(b.list)})
		}
	}
	return s
}

// caching is the caching allocator: best fit in bins, segments from the device that are kept until the memory is needed.
type caching struct {
	cacheState
	dev    backends.Device
	saved  map[uint32]cacheState
	serial uint64
	births uint64
	locked bool   // an operation is in progress
	late   uint64 // address to be untracked by the other thread; see untrackAfterReuse
}

func openCaching(env *sdk.Env, b bug) (sdk.Strategy, error) { return newCaching(env, b), nil }

func newCaching(env *sdk.Env, b bug) *caching {
	c := &caching{dev: env.Device}
	c.clear(b)
	return c
}

func (c *caching) clear(b bug) {
	c.cacheState = cacheState{chain: newChain(b), segs: make([]segment, 1, 4), tracked: map[uint64]int32{}}
	c.saved, c.late = nil, ^uint64(0)
}

// Alloc rounds, searches the request's own pool, grows, searches the other pool, and drops caches to grow once more.
func (c *caching) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if c.locked {
		return trace.StatusFailed
	}
	c.locked = true
	size, ok := c.round(r)
	if !ok {
		c.locked = false
		return trace.StatusRefused
	}
	i, st := c.find(r, size), trace.StatusOK
	if i == 0 {
		i, st = c.slow(r, size)
	}
	if i == 0 {
		c.locked = c.bug == lockKeptAfterError
		return st
	}
	c.locked = false
	c.hand(r, c.carve(i, r, size), b)
	return st
}

// round rounds a request up to whole units; false when no block can be that large.
func (c *caching) round(r *sdk.Request) (uint64, bool) {
	unit := uint64(cachingUnitBytes)
	if c.bug == minimumAlignmentSkipped && r.Align != 0 && r.Align < unit {
		unit = r.Align
	}
	size := up(r.Size, unit)
	if size < r.Size && c.bug != wrapRounding && c.bug != wrapClass {
		return 0, false
	}
	if r.Align > cachingUnitBytes {
		if padded := size + r.Align; padded < size {
			if c.bug != wrapAligned {
				return 0, false
			}
			size = padded
		}
	}
	c.asked[c.classOf(size)]++
	return size, true
}

func (c *caching) classOf(size uint64) int {
	class := bits.Len64(size/cachingUnitBytes) - 1
	if c.bug == wrapClass {
		return class
	}
	return max(class, 0)
}

func poolOf(size uint64) int {
	if size <= cachingSmallBytes {
		return 0
	}
	return 1
}

// find returns the best fit of the request's own pool, 0 if there is none.
func (c *caching) find(r *sdk.Request, size uint64) int32 {
	return c.search(poolOf(size), r.Align, size)
}

// search returns the smallest free block of a pool that fits, of those the lowest.
func (c *caching) search(pool int, align, size uint64) int32 {
	for k := range c.bins[pool] {
		bn := &c.bins[pool][k]
		if bn.class < c.classOf(size) {
			continue
		}
		if c.bug == firstOfBin {
			return bn.list[0]
		}
		best := int32(0)
		for _, i := range bn.list {
			if n := &c.nodes[i]; fits(n, size, align) && (best == 0 || n.size < c.nodes[best].size || n.size == c.nodes[best].size && n.addr < c.nodes[best].addr) {
				best = i
			}
		}
		if best != 0 {
			return best
		}
	}
	return 0
}

func fits(n *node, size, align uint64) bool {
	front := up(n.addr, max(align, 1)) - n.addr
	return front <= n.size && n.size-front >= size
}

// slow serves a request that no cached block of its pool fits.
func (c *caching) slow(r *sdk.Request, size uint64) (int32, trace.Status) {
	for {
		if i := c.grow(size); i != 0 {
			return i, trace.StatusOK
		}
		if c.bug == limitBeforeCaches {
			return 0, trace.StatusFailed
		}
		if i := c.search(1-poolOf(size), r.Align, size); i != 0 {
			return i, trace.StatusOK
		}
		if c.release() > 0 {
			if i := c.grow(size); i != 0 {
				return i, trace.StatusRecovered
			}
		}
		if c.bug != retryForEver || c.room(size) {
			return 0, trace.StatusFailed
		}
	}
}

// room asks the device whether it has a segment for size bytes.
func (c *caching) room(size uint64) bool {
	bytes := up(size, cachingSegmentBytes)
	left, _ := c.dev.MemInfo()
	switch c.bug {
	case growBelowRest:
		return bytes >= size && bytes < left
	case countAgainstBytes:
		return bytes >= size && bytes <= left/cachingSegmentBytes
	}
	return bytes >= size && bytes <= left
}

// grow takes a segment that holds size bytes and returns its block, free and in its bin.
func (c *caching) grow(size uint64) int32 {
	if !c.room(size) {
		return 0
	}
	bytes := up(max(size, 1), cachingSegmentBytes)
	addr, st := c.dev.Malloc(bytes)
	if st != trace.CallOK {
		return 0
	}
	s := slices.IndexFunc(c.segs[1:], func(s segment) bool { return s.bytes == 0 }) + 1
	if s == 0 {
		s = len(c.segs)
		c.segs = append(c.segs, segment{})
	}
	c.births++
	inBlock := bytes
	if c.bug == grownAsRequested {
		inBlock = size
	}
	i := c.add(addr, inBlock, int32(s))
	c.segs[s] = segment{addr: addr, bytes: bytes, first: i, pool: poolOf(size), birth: c.births}
	if c.bug == countOnlyFrees { // a block of a new segment is not counted
		c.segs[s].live--
	}
	if c.bug == headLostInMerge { // the new head is linked like any block, so that merges cross
		c.linkAcross(i)
	}
	c.put(i, c.segs[s].pool)
	return i
}

// linkAcross links the head of a new segment to the last block of the segment that ends where it begins.
func (c *caching) linkAcross(i int32) {
	for k := range c.nodes {
		if n := &c.nodes[k]; k != 0 && n.state != unused && n.next == 0 && n.addr+n.size == c.nodes[i].addr {
			n.next = i
			c.nodes[i].prev = int32(k)
		}
	}
}

// put puts a free block into its bin.
func (c *caching) put(i int32, pool int) {
	c.putAt(i, pool, c.binAt(pool, c.classOf(c.nodes[i].size)))
}

// binAt returns the index at which the bin of a class is, or belongs.
func (c *caching) binAt(pool, class int) int {
	at, _ := slices.BinarySearchFunc(c.bins[pool], class, func(b bin, class int) int { return b.class - class })
	return at
}

func (c *caching) putAt(i int32, pool, at int) {
	c.nodes[i].state = free
	class := c.classOf(c.nodes[i].size)
	list := c.bins[pool]
	if at == len(list) || list[at].class != class && c.bug != staleBinIndex {
		list = slices.Insert(list, at, bin{class: class})
		c.bins[pool] = list
	}
	list[at].list = append(list[at].list, i)
}

// take takes a free block out of its bin. A bin that is empty then goes, and its index is returned; else −1.
func (c *caching) take(i int32, pool int) int {
	at := c.binAt(pool, c.classOf(c.nodes[i].size))
	if at == len(c.bins[pool]) {
		return -1
	}
	b := &c.bins[pool][at]
	if b.list = without(b.list, i); len(b.list) > 0 {
		return -1
	}
	c.bins[pool] = slices.Delete(c.bins[pool], at, at+1)
	return at
}

// carve takes a free block and cuts off what is in front of the alignment and what is behind the size.
func (c *caching) carve(i int32, r *sdk.Request, size uint64) int32 {
	pool := c.segs[c.nodes[i].seg].pool
	gone := c.take(i, pool)
	if front := up(c.nodes[i].addr, max(r.Align, 1)) - c.nodes[i].addr; front > 0 {
		rest := c.split(i, front)
		c.put(i, pool)
		i = rest
	}
	if c.bug == splitAtRawSize {
		size = r.Size
	}
	if c.nodes[i].size > size && c.bug != wholeCachedBlock {
		rest := c.split(i, size)
		if c.bug == staleBinIndex && gone >= 0 { // the index of a bin that is gone
			c.putAt(rest, pool, gone)
		} else {
			c.put(rest, pool)
		}
	}
	return i
}

// hand makes block i live and shows it to the program.
func (c *caching) hand(r *sdk.Request, i int32, b *sdk.Block) {
	c.serial++
	n := &c.nodes[i]
	n.state, n.asked, n.serial, n.stream = live, r.Size, c.serial, r.Stream
	c.segs[n.seg].live++
	c.tracked[n.addr] = i
	if c.bug == untrackAfterReuse {
		delete(c.tracked, c.late)
		c.late = ^uint64(0)
	}
	*b = sdk.Block{Addr: n.addr, Size: n.size, Ref: c.serial}
	if c.bug == alignDownTwice {
		b.Size = down(n.size-1, cachingUnitBytes)
	}
}

// known returns the live block that the program shows, 0 if there is none.
func (c *caching) known(b *sdk.Block) int32 {
	i, ok := c.tracked[b.Addr]
	if !ok || c.nodes[i].state != live || c.nodes[i].serial != b.Ref {
		return 0
	}
	return i
}

// Free merges the block with its free neighbours and caches it.
func (c *caching) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Ref == 0 {
		return trace.StatusOK
	}
	i := c.known(b)
	if i == 0 || c.locked {
		return trace.StatusInvalid
	}
	c.end(i)
	c.give(i)
	return trace.StatusOK
}

// end ends the tenancy of a block.
func (c *caching) end(i int32) {
	n := &c.nodes[i]
	c.segs[n.seg].live--
	if c.bug == untrackAfterReuse {
		c.late = n.addr
		return
	}
	delete(c.tracked, n.addr)
}

// give makes a block free that is live or pending.
func (c *caching) give(i int32) {
	pool := c.segs[c.nodes[i].seg].pool
	if c.bug == poolByClassAtFree {
		pool = poolOf(c.nodes[i].size)
	}
	if next := c.nodes[i].next; next != 0 && c.mergeable(i, next) {
		c.take(next, pool)
		c.join(i)
	}
	if prev := c.nodes[i].prev; prev != 0 && c.mergeable(prev, i) {
		c.take(prev, pool)
		c.join(prev)
		i = prev
	}
	c.put(i, pool)
}

// mergeable reports whether neighbours, one of which is being freed, may become one block.
func (c *caching) mergeable(a, b int32) bool {
	x, y := &c.nodes[a], &c.nodes[b]
	if c.bug == mergeByRequested && x.asked != 0 && x.addr+x.asked != y.addr {
		return false
	}
	return x.state == free || y.state == free
}

// release gives wholly free segments back to the device and returns how many.
func (c *caching) release() int {
	count := 0
	for s := 1; s < len(c.segs); s++ {
		sg := &c.segs[s]
		if sg.bytes == 0 || !c.empty(sg) {
			continue
		}
		if c.dev.Free(sg.addr) != trace.CallOK {
			continue
		}
		c.take(sg.first, sg.pool)
		c.nodes[sg.first].state = unused
		c.spare = append(c.spare, sg.first)
		for name, then := range c.saved { // what a checkpoint counts on is gone, and the checkpoint with it
			if slices.ContainsFunc(then.segs, func(o segment) bool { return o.bytes != 0 && o.birth == sg.birth }) {
				delete(c.saved, name)
			}
		}
		*sg = segment{}
		count++
	}
	return count
}

// empty reports whether a segment is one free block.
func (c *caching) empty(s *segment) bool {
	if c.bug == countOnlyFrees {
		return s.live <= 0
	}
	n := &c.nodes[s.first]
	if c.bug == headLostInMerge {
		return n.state == free && n.size >= s.bytes
	}
	return n.state == free && n.size == s.bytes
}
