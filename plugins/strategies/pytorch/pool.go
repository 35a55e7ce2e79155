package pytorch

import (
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// pool is a BlockPool: the small or the large half of the default pool or of a private one.
type pool struct {
	kind     PoolKind     // PoolSmall or PoolLarge
	private  *privatePool // nil for the default pool
	searches uint64       // get_free_blocks_call_count: searches while garbage collection is armed
	sets     []*freeSet   // by stream, nil where the stream never came
	order    []*freeSet   // by stream handle
}

func (p *pool) small() bool { return p.kind == PoolSmall }

// freeBytes is the sum of the free blocks.
func (p *pool) freeBytes() uint64 {
	n := uint64(0)
	for _, s := range p.order {
		n += s.bytes
	}
	return n
}

// privatePool is a PrivatePool: memory of a CUDA graph or of a MemPool.
type privatePool struct {
	id           sdk.Pool
	uses         int    // use_count: begins less releases
	segments     uint64 // cudaMalloc_count, with the asymmetry of the original
	active       uint64 // our own count of blocks that are handed out or pending
	freeable     bool   // released by its last user
	deleted      bool   // the original has deleted the object although blocks are active
	small, large pool
}

func (pp *privatePool) half(small bool) *pool {
	if small {
		return &pp.small
	}
	return &pp.large
}

// streamHandle is the number by which PyTorch orders streams.
func (a *Allocator) streamHandle(s sdk.Stream) uint64 {
	if int(s) < len(a.streams) {
		return a.streams[s]
	}
	return uint64(s)
}

// setOf returns the free set of a stream in a pool.
func (a *Allocator) setOf(p *pool, s sdk.Stream) *freeSet {
	if int(s) < len(p.sets) {
		if set := p.sets[s]; set != nil {
			return set
		}
	}
	return a.makeSet(p, s)
}

func (a *Allocator) makeSet(p *pool, s sdk.Stream) *freeSet {
	var set *freeSet
	if n := len(a.spareSets); n > 0 { // empty, hence all zero
		set = a.spareSets[n-1]
		a.spareSets = a.spareSets[:n-1]
	} else {
		set = &freeSet{index: uint32(len(a.sets))}
		a.sets = append(a.sets, set)
	}
	set.pool, set.stream = p, s
	for int(s) >= len(p.sets) {
		p.sets = append(p.sets, nil)
	}
	p.sets[s] = set
	h := a.streamHandle(s)
	at, _ := slices.BinarySearchFunc(p.order, h, func(e *freeSet, h uint64) int {
		if a.streamHandle(e.stream) < h {
			return -1
		}
		return 1
	})
	p.order = slices.Insert(p.order, at, set)
	return set
}

// route is get_pool while allocations are routed: the half of a private pool, or nil when the pool was released and
// dropped in spite of the routing (there the original stops at an internal assertion). own is the pool that the event
// itself names; it is made on its first use.
func (a *Allocator) route(small bool, own sdk.Pool) *pool {
	var pp *privatePool
	if own == 0 {
		pp = a.privateAt(a.routing[len(a.routing)-1])
	} else if pp = a.privateAt(own); pp == nil {
		pp = a.newPrivate(own)
	}
	if pp == nil {
		return nil
	}
	return pp.half(small)
}

func (a *Allocator) privateAt(p sdk.Pool) *privatePool {
	if int(p) < len(a.private) {
		return a.private[p]
	}
	return nil
}

func (a *Allocator) newPrivate(p sdk.Pool) *privatePool {
	for int(p) >= len(a.private) {
		a.private = append(a.private, nil)
	}
	pp := &privatePool{id: p, uses: 1}
	if n := len(a.sparePools); n > 0 {
		pp = a.sparePools[n-1]
		a.sparePools = a.sparePools[:n-1]
		*pp = privatePool{id: p, uses: 1, small: pool{sets: pp.small.sets[:0], order: pp.small.order[:0]},
			large: pool{sets: pp.large.sets[:0], order: pp.large.order[:0]}}
	}
	pp.small.kind, pp.large.kind = PoolSmall, PoolLarge
	pp.small.private, pp.large.private = pp, pp
	a.private[p] = pp
	return pp
}

// dropPrivate forgets a pool whose last segment is gone.
func (a *Allocator) dropPrivate(pp *privatePool) {
	a.private[pp.id] = nil
	if pp.active > 0 {
		pp.deleted = true // here the original frees an object that live blocks still point to
		return
	}
	halves := []*pool{&pp.small, &pp.large}
	for _, half := range halves {
		for _, s := range half.order {
			if len(s.unmapped) > 0 { // an empty reservation that a failed growth left: nobody finds it again
				return
			}
		}
	}
	for _, half := range halves {
		for _, s := range half.order {
			s.pool = nil
			a.spareSets = append(a.spareSets, s)
		}
	}
	a.sparePools = append(a.sparePools, pp)
}

// PoolBegin is beginAllocateToPool with a filter that accepts every stream.
func (a *Allocator) PoolBegin(p sdk.Pool) trace.Status {
	if p == 0 || slices.Contains(a.routing, p) {
		return a.invalid(ErrPoolBusy)
	}
	if pp := a.privateAt(p); pp == nil {
		a.newPrivate(p)
	} else if pp.uses == 0 {
		return a.invalid(ErrPoolReleased)
	} else {
		pp.uses++
	}
	a.routing = append(a.routing, p)
	return trace.StatusOK
}

// PoolEnd is endAllocateToPool; 0 ends the newest.
func (a *Allocator) PoolEnd(p sdk.Pool) trace.Status {
	at := len(a.routing) - 1
	if p != 0 {
		at = slices.Index(a.routing, p)
	}
	if at < 0 {
		return a.invalid(ErrPoolUnknown)
	}
	a.routing = slices.Delete(a.routing, at, at+1)
	return trace.StatusOK
}

// PoolRelease is releasePool: without users left, the pool's free segments may go back to the device.
func (a *Allocator) PoolRelease(p sdk.Pool) trace.Status {
	pp := a.privateAt(p)
	if pp == nil {
		return a.invalid(ErrPoolUnknown)
	}
	if pp.uses == 0 {
		return a.invalid(ErrPoolReleased)
	}
	pp.uses--
	pp.freeable = pp.uses == 0
	return trace.StatusOK
}
