package pytorch

import (
	"github.com/gpubench/gpubench/trace"
)

// Trim is emptyCache.
func (a *Allocator) Trim() trace.Status {
	a.opErr = nil
	a.releaseCached()
	if a.opErr != nil {
		a.lastErr = a.opErr
		return trace.StatusError
	}
	return trace.StatusOK
}

// releaseCached is release_cached_blocks without a particular pool: everything cached goes back to the device.
func (a *Allocator) releaseCached() {
	if len(a.routing) == 0 {
		a.synchronizeEvents()
		a.releaseBlocks(&a.large)
		a.releaseBlocks(&a.small)
	} else if a.rules.trimsOnlyRoutedPool {
		return // the routed pool is in use, hence not freeable
	}
	for _, pp := range a.private {
		if a.opErr != nil {
			return
		}
		if pp == nil || !pp.freeable {
			continue
		}
		a.releaseBlocks(&pp.small)
		a.releaseBlocks(&pp.large)
		if pp.segments == 0 && a.opErr == nil {
			a.dropPrivate(pp)
		}
	}
}

// releaseBlocks walks the free blocks of a pool in order. Whole segments go at once; blocks of expandable segments are
// gathered first, since unmapping changes the set, and unmapped afterwards.
func (a *Allocator) releaseBlocks(p *pool) {
	a.toUnmap = a.toUnmap[:0]
	for _, set := range p.order {
		for i := set.from(a.blocks, 0, 0); i != 0 && a.opErr == nil; {
			b := &a.blocks[i]
			next := set.after(a.blocks, i)
			if b.seg != 0 {
				a.toUnmap = append(a.toUnmap, i)
			} else if !b.isSplit() {
				a.releaseBlock(i)
			}
			i = next
		}
	}
	for _, i := range a.toUnmap {
		if a.opErr != nil {
			return
		}
		if i = a.unmapBlock(i); a.opErr == nil && !a.blocks[i].isSplit() {
			a.dropSegment(i)
		}
	}
}

// releaseBlock is release_block: a whole free segment goes back with cudaFree.
func (a *Allocator) releaseBlock(i uint32) {
	b := &a.blocks[i]
	set := a.sets[b.set]
	pp := set.pool.private
	if b.isSplit() {
		a.opErr = ErrSplitRelease
		return
	}
	if pp != nil && pp.segments == 0 {
		a.opErr = ErrPoolCount
		return
	}
	a.st.counts.DeviceFrees++
	if st := a.dev.Free(b.addr); st != trace.CallOK {
		a.deviceFailed("free", st)
		return
	}
	a.heldBytes -= b.size
	if pp != nil {
		pp.segments--
	}
	a.st.dec(set.pool.kind, StatSegment, 1)
	a.st.dec(set.pool.kind, StatReservedBytes, b.size)
	if b.size >= a.cfg.maxSplitBytes {
		a.st.oversizeSegment.dec(1)
	}
	set.remove(a.blocks, i)
	a.dropBlock(i)
}

// releaseAvailable is release_available_cached_blocks: with a limited max_split_size, give back just enough oversize
// blocks of the request's stream. What was given back stays so when the answer is false.
func (a *Allocator) releaseAvailable(r *request) bool {
	if a.cfg.maxSplitBytes == unlimited {
		return false
	}
	set := r.set
	want := max(r.size, a.cfg.maxSplitBytes)
	i := set.lowerBound(a.blocks, want)
	if i != 0 && a.blocks[i].seg == 0 {
		a.releaseBlock(i)
		return a.opErr == nil
	}
	if i != 0 {
		i = set.until(a.blocks, a.blocks[i].size, a.blocks[i].addr)
	} else {
		i = set.until(a.blocks, want, 0)
	}
	released := uint64(0)
	for i != 0 && released < want && a.blocks[i].size >= a.cfg.maxSplitBytes {
		b := &a.blocks[i]
		size, down := b.size, set.until(a.blocks, b.size, b.addr)
		if b.seg == 0 {
			if a.rules.readsReleasedSize {
				a.opErr = ErrStaleSize
				return false
			}
			if a.releaseBlock(i); a.opErr != nil {
				return false
			}
			released += size
		}
		i = down
	}
	return released >= want
}

// collectGarbage is garbage_collect_cached_blocks: in rounds, the whole segments of the large default pool that have been
// free for longer than the average of those that can be freed, until enough is back.
func (a *Allocator) collectGarbage() {
	goal := uint64(a.cfg.gcThreshold * float64(a.limitBytes))
	if a.heldBytes <= goal {
		return
	}
	target := a.heldBytes - goal
	reclaimed, ages, count := uint64(0), uint64(0), int64(0)
	a.eachWhole(func(i uint32) {
		ages += a.age(i)
		count++
	})
	for freed := true; reclaimed < target && freed && count > 0 && a.opErr == nil; {
		limit := float64(ages) / float64(count)
		freed = false
		a.eachWhole(func(i uint32) {
			age := a.age(i)
			if a.blocks[i].seg != 0 || float64(age) < limit || a.opErr != nil {
				return
			}
			freed = true
			reclaimed += a.blocks[i].size
			ages -= age
			count--
			a.releaseBlock(i)
		})
	}
}

// age is gc_count: searches of the large pool since the block became free.
func (a *Allocator) age(i uint32) uint64 { return a.large.searches - a.blocks[i].note }

// eachWhole visits the unsplit free blocks of the large default pool in order; visit may release the block.
func (a *Allocator) eachWhole(visit func(i uint32)) {
	for _, set := range a.large.order {
		for i := set.from(a.blocks, 0, 0); i != 0; {
			next := set.after(a.blocks, i)
			if !a.blocks[i].isSplit() {
				visit(i)
			}
			i = next
		}
	}
}
