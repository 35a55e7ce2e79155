package managed

import (
	"fmt"

	"github.com/gpubench/gpubench/pmm"
)

// fault is one page that the device misses.
type fault struct {
	block pmm.Block
	page  int
}

// Touch lets a processor read or write part of a range. Pages that are elsewhere move. An error of the manager (no memory
// and nothing to evict) ends it, with what was moved before still moved.
func (r *Range) Touch(offset, length uint64, by Processor) error {
	if err := r.span(offset, length); err != nil {
		return err
	}
	if by == Host {
		return r.eachBlock(offset, length, r.s.touchHost)
	}
	s := r.s
	s.faults = s.faults[:0]
	err := r.eachBlock(offset, length, s.touchDevice)
	if err == nil {
		err = s.service()
	}
	return err
}

// touchDevice counts hits and collects what is missing; a full batch is serviced at once.
func (s *Space) touchDevice(id pmm.Block, lo, hi int) error {
	b := &s.blocks[id]
	s.stats.Touches++
	s.policy.touched(id)
	miss := false
	for p := lo; p < hi; p++ {
		if b.device.has(p) {
			continue
		}
		if b.remote.has(p) && (b.accessedBy || b.thrash.pinned(p, s.m.NowNs())) {
			s.stats.RemoteAccesses++
			s.m.AdvanceNs(s.costs.RemoteAccessNs.Value)
			continue
		}
		b.remote.drop(p)
		miss = true
		s.faults = append(s.faults, fault{id, p})
		if len(s.faults) == s.opts.BatchFaults {
			if err := s.service(); err != nil {
				return err
			}
		}
	}
	if miss {
		s.stats.Misses++
	}
	return nil
}

// service handles the faults of one batch, block by block.
func (s *Space) service() error {
	if len(s.faults) == 0 {
		return nil
	}
	s.stats.Batches++
	s.stats.Faults += uint64(len(s.faults))
	s.m.AdvanceNs(s.costs.FaultBatchNs.Value + int64(len(s.faults))*s.costs.FaultNs.Value)
	for i := 0; i < len(s.faults); {
		id := s.faults[i].block
		var want pageSet
		for ; i < len(s.faults) && s.faults[i].block == id; i++ {
			want.add(s.faults[i].page)
		}
		// A page of this batch may have come meanwhile, by the prefetch for an earlier one.
		want = want.without(s.blocks[id].device)
		if err := s.serviceBlock(id, want); err != nil {
			s.faults = s.faults[:0]
			return err
		}
	}
	s.faults = s.faults[:0]
	return nil
}

// serviceBlock brings faulted pages of one block to the device, and what the prefetcher adds.
func (s *Space) serviceBlock(id pmm.Block, want pageSet) error {
	b := &s.blocks[id]
	thrashing := s.detect(b, &want, Device)
	if want.empty() {
		return nil
	}
	fetch := want.or(s.prefetch(b, want, b.device, thrashing))
	s.stats.PrefetchedBytes += uint64(fetch.count()-want.count()) * PageBytes
	return s.toDevice(id, fetch, s.costs.MigrateToDeviceBytesPerSec)
}

// toDevice allocates what is needed for pages of a block and moves them.
func (s *Space) toDevice(id pmm.Block, fetch pageSet, rate pmm.Cost) error {
	if err := s.populate(id, fetch); err != nil {
		return err
	}
	b := &s.blocks[id]
	fetch = fetch.without(b.device)
	copied := fetch.and(b.host)
	wasEmpty := b.device.empty()
	bytes := uint64(copied.count()) * PageBytes
	s.stats.ToDeviceBytes += bytes
	s.m.AdvanceNs(rate.TransferNs(bytes))
	b.device = b.device.or(fetch)
	b.host = b.host.without(fetch)
	b.remote = b.remote.without(fetch)
	s.m.AdvanceNs(int64(s.entries(b, fetch)) * s.costs.MapPageNs.Value)
	if wasEmpty && !b.device.empty() {
		s.mark(b, pmm.Used)
	}
	return nil
}

// entries counts the page-table entries that map pages: one for a whole block, one for each full big page, else one a page.
func (s *Space) entries(b *block, set pageSet) int {
	if b.pages == BlockPages && b.device.count() == BlockPages {
		return 1
	}
	n := 0
	for lo := 0; lo < b.pages; lo += bigPages {
		switch k := set.countRange(lo, lo+bigPages); {
		case k == 0:
		case b.device.countRange(lo, lo+bigPages) == bigPages:
			n++
		default:
			n += k
		}
	}
	return n
}

// mark tells the manager how the root of a whole block is used; other blocks have no say.
func (s *Space) mark(b *block, k pmm.Mark) {
	if len(b.chunks) == 1 && b.pages == BlockPages && b.chunks[0] != pmm.NoChunk {
		s.m.MarkRoot(b.chunks[0], k)
	}
}

// populate makes sure that chunks stand behind pages of a block. A new chunk that is not known to be zero is zeroed, except
// for what will be copied over it from the host (block_zero_new_gpu_chunk of uvm_va_block.c). New chunks stay pinned until all are there, as in the driver, so that making room for one does not evict another; a chunk that
// the block had before may go, and is then allocated anew.
func (s *Space) populate(id pmm.Block, fetch pageSet) error {
	b := &s.blocks[id]
	var err error
	s.fresh = s.fresh[:0]
	for again := true; again && err == nil; {
		again = false
		for k, sl := range b.slots {
			if b.chunks[k] != pmm.NoChunk || fetch.countRange(sl.first, sl.first+sl.pages) == 0 {
				continue
			}
			var c pmm.Chunk
			if c, err = s.chunk(s.chunkBytes(sl)); err != nil {
				err = fmt.Errorf("managed: block %d: %w", id, err)
				break
			}
			if in, _ := s.m.Info(c); !in.Zero {
				bytes := uint64(sl.pages-b.host.countRange(sl.first, sl.first+sl.pages)) * PageBytes
				s.stats.ZeroedBytes += bytes
				s.m.AdvanceNs(s.costs.MemsetBytesPerSec.TransferNs(bytes))
			}
			b.chunks[k] = c
			s.fresh = append(s.fresh, k)
			again = true
		}
	}
	for _, k := range s.fresh {
		if err != nil {
			s.m.FreeChunk(b.chunks[k])
			b.chunks[k] = pmm.NoChunk
			continue
		}
		s.m.Unpin(b.chunks[k], id, b.slots[k].first)
		s.policy.use(b.chunks[k])
	}
	return err
}

// retriesMax bounds how often an allocation starts again from scratch when the manager says that a root is pinned. In one
// thread nothing unpins it meanwhile; the driver retries for ever.
const retriesMax = 3

// chunk allocates device memory as a VA block does: without eviction, then with it.
func (s *Space) chunk(bytes uint64) (pmm.Chunk, error) {
	var out [1]pmm.Chunk
	st := s.m.Alloc(pmm.User, bytes, pmm.None, out[:], nil)
	for try := 0; st != pmm.OK && try < retriesMax; try++ {
		if s.opts.Policy != DriverOrder {
			root := s.policy.victim()
			if root < 0 {
				break
			}
			if _, st := s.m.TestEvict(root); st != pmm.OK {
				return pmm.NoChunk, st
			}
			st = s.m.Alloc(pmm.User, bytes, pmm.None, out[:], nil)
			continue
		}
		if st = s.m.Alloc(pmm.User, bytes, pmm.Evict, out[:], nil); st != pmm.MoreProcessingRequired {
			break
		}
	}
	return out[0], st.Err()
}

// touchHost brings pages that are on the device to the host; pages that are nowhere yet appear there, zeroed.
func (s *Space) touchHost(id pmm.Block, lo, hi int) error {
	b := &s.blocks[id]
	s.stats.Touches++
	var want pageSet
	want.addRange(lo, hi)
	fresh := want.without(b.device).without(b.host)
	b.host = b.host.or(fresh)
	want = want.and(b.device)
	if want.empty() {
		return nil
	}
	s.stats.HostFaults += uint64(want.count())
	s.m.AdvanceNs(int64(want.count()) * s.costs.CPUFaultNs.Value)
	thrashing := s.detect(b, &want, Host)
	fetch := want.or(s.prefetch(b, want, b.host, thrashing)).and(b.device)
	s.stats.PrefetchedBytes += uint64(fetch.count()-want.count()) * PageBytes
	s.toHost(b, fetch, s.costs.MigrateToHostBytesPerSec)
	return nil
}

// toHost moves pages that are on the device.
func (s *Space) toHost(b *block, set pageSet, rate pmm.Cost) {
	if set.empty() {
		return
	}
	bytes := uint64(set.count()) * PageBytes
	s.stats.ToHostBytes += bytes
	s.stats.Invalidates++
	s.m.AdvanceNs(rate.TransferNs(bytes) + s.costs.TLBInvalidateNs.Value)
	b.device = b.device.without(set)
	b.host = b.host.or(set)
	if b.device.empty() {
		s.mark(b, pmm.Unused)
	}
}

// Prefetch moves part of a range to a processor in large pieces, without faults (cudaMemPrefetchAsync).
func (r *Range) Prefetch(offset, length uint64, to Processor) error {
	if err := r.span(offset, length); err != nil {
		return err
	}
	s := r.s
	return r.eachBlock(offset, length, func(id pmm.Block, lo, hi int) error {
		var set pageSet
		set.addRange(lo, hi)
		b := &s.blocks[id]
		if to == Host {
			b.host = b.host.or(set.without(b.device))
			s.toHost(b, set.and(b.device), s.costs.PrefetchToHostBytesPerSec)
			return nil
		}
		s.policy.touched(id)
		return s.toDevice(id, set.without(b.device), s.costs.PrefetchToDeviceBytesPerSec)
	})
}

// AdviseAccessedBy gives or takes the advice that the device will access the range (cudaMemAdviseSetAccessedBy): pages of it
// that are evicted stay mapped there.
func (r *Range) AdviseAccessedBy(on bool) error {
	if err := r.span(0, r.bytes); err != nil {
		return err
	}
	return r.eachBlock(0, r.bytes, func(id pmm.Block, _, _ int) error {
		b := &r.s.blocks[id]
		b.accessedBy = on
		if !on {
			b.remote = pageSet{}
		}
		return nil
	})
}

// Discard says that the contents of part of a range are not needed (UvmDiscard): the pages are nowhere afterwards. The
// memory behind a whole block stays with it, but goes before used memory when something is evicted.
func (r *Range) Discard(offset, length uint64) error {
	if err := r.span(offset, length); err != nil {
		return err
	}
	s := r.s
	return r.eachBlock(offset, length, func(id pmm.Block, lo, hi int) error {
		var set pageSet
		set.addRange(lo, hi)
		b := &s.blocks[id]
		had := !b.device.empty()
		b.device, b.host, b.remote = b.device.without(set), b.host.without(set), b.remote.without(set)
		if had && b.device.empty() {
			s.mark(b, pmm.Discarded)
		}
		return nil
	})
}

// EvictBlock moves the pages of a block out of a root: the manager's side is pmm.Evictor.
func (s *Space) EvictBlock(m *pmm.Model, id pmm.Block, root int) pmm.Status {
	if int(id) >= len(s.blocks) {
		return pmm.InvalidArgument
	}
	b := &s.blocks[id]
	var gone pageSet
	for k, c := range b.chunks {
		if c == pmm.NoChunk {
			continue
		}
		in, ok := m.Info(c)
		if !ok || in.Root != root || in.State != pmm.Allocated {
			continue
		}
		if st := m.MarkEvicted(c); st != pmm.OK {
			return st
		}
		b.chunks[k] = pmm.NoChunk
		gone.addRange(b.slots[k].first, b.slots[k].first+b.slots[k].pages)
	}
	gone = gone.and(b.device)
	s.stats.Evictions++
	s.stats.EvictedBytes += uint64(gone.count()) * PageBytes
	s.toHost(b, gone, s.costs.MigrateToHostBytesPerSec)
	if b.accessedBy && s.opts.MapRemoteOnEviction {
		b.remote = b.remote.or(gone)
		s.m.AdvanceNs(int64(gone.count()) * s.costs.MapPageNs.Value)
	}
	return pmm.OK
}
