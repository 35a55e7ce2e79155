package pytorch

// blockState says who a block belongs to.
type blockState uint8

const (
	blockDead     blockState = iota // the record is on the free list of the table
	blockFree                       // mapped, in the free set
	blockUnmapped                   // address space of an expandable segment without memory behind it
	blockLive                       // handed out
	blockPending                    // freed by the program, events on other streams outstanding
	blockDeferred                   // freed while allocations were routed, used by other streams: events not recorded yet
)

// block is one piece of a segment. Blocks live in one slice and name each other by index, so that the garbage collector
// has nothing to follow; 0 is none. A record is one cache line.
type block struct {
	addr, size uint64
	// note is the requested size while the block is active (live, pending, deferred) and the age base while it is free:
	// the search counter of its pool when it was inserted (gc_count_base).
	note        uint64
	prev, next  uint32 // neighbours inside the segment, in address order
	left, right uint32 // children in the free set
	set         uint32 // index of its free set: pool and stream
	seg         uint32 // expandable segment, 0 = obtained with cudaMalloc
	uses        uint32 // list of other streams that used it (stream_uses)
	events      uint32 // events outstanding (event_count)
	state       blockState
}

func (b *block) isSplit() bool { return b.prev|b.next != 0 }

// newBlock returns the index of an unused record. It may move the table: pointers into it are stale afterwards.
func (a *Allocator) newBlock() uint32 {
	if i := a.deadBlocks; i != 0 {
		a.deadBlocks = a.blocks[i].next
		return i
	}
	a.blocks = append(a.blocks, block{})
	return uint32(len(a.blocks) - 1)
}

// dropBlock gives the record back.
func (a *Allocator) dropBlock(i uint32) {
	a.blocks[i] = block{next: a.deadBlocks}
	a.deadBlocks = i
}

// insertAfter makes a new block behind i, in the same segment and set, and returns its index. The caller shrinks i.
func (a *Allocator) insertAfter(i uint32, addr, size uint64, st blockState) uint32 {
	n := a.newBlock()
	b := &a.blocks[i]
	a.blocks[n] = block{addr: addr, size: size, prev: i, next: b.next, set: b.set, seg: b.seg, state: st}
	if b.next != 0 {
		a.blocks[b.next].prev = n
	}
	b.next = n
	return n
}

// absorbNext lets i take over its next neighbour, which must be in no set any more.
func (a *Allocator) absorbNext(i uint32) {
	b := &a.blocks[i]
	n := b.next
	b.size += a.blocks[n].size
	b.next = a.blocks[n].next
	if b.next != 0 {
		a.blocks[b.next].prev = i
	}
	a.dropBlock(n)
}

// insertFree puts block i into its free set with a fresh age.
func (a *Allocator) insertFree(i uint32) {
	b := &a.blocks[i]
	s := a.sets[b.set]
	b.state = blockFree
	b.note = s.pool.searches
	s.insert(a.blocks, i)
}

// mergeFree joins block i, which is in no set and about to become free, with free neighbours (try_merge_blocks). It
// returns the index of the joined block, how many neighbours were taken, and their bytes.
func (a *Allocator) mergeFree(i uint32) (joined uint32, count int, bytes uint64) {
	s := a.sets[a.blocks[i].set]
	if n := a.blocks[i].next; n != 0 && a.blocks[n].state == blockFree {
		s.remove(a.blocks, n)
		bytes += a.blocks[n].size
		count++
		a.absorbNext(i)
	}
	if p := a.blocks[i].prev; p != 0 && a.blocks[p].state == blockFree {
		s.remove(a.blocks, p)
		bytes += a.blocks[p].size
		count++
		a.absorbNext(p)
		i = p
	}
	return i, count, bytes
}
