package managed

import (
	"fmt"

	"github.com/gpubench/gpubench/pmm"
)

// Stats are running counts.
type Stats struct {
	// Touches counts calls of Touch by block, Misses those of them by the device that faulted at least once.
	Touches, Misses uint64
	// Faults and HostFaults count pages, Batches the batches of device faults.
	Faults, HostFaults, Batches uint64
	// ToDeviceBytes and ToHostBytes were copied, ZeroedBytes filled on first use, PrefetchedBytes moved or zeroed beyond what
	// faulted.
	ToDeviceBytes, ToHostBytes, ZeroedBytes, PrefetchedBytes uint64
	// EvictedBytes are the part of ToHostBytes that evictions caused; Evictions counts blocks asked to move out.
	EvictedBytes, Evictions uint64
	// Invalidates counts TLB invalidations.
	Invalidates uint64
	// Throttles counts naps, Pins pages pinned on the host, RemoteAccesses touches of pages there.
	Throttles, Pins, RemoteAccesses uint64
}

// block is up to 2 MiB of a range.
type block struct {
	pages  int // how many
	device pageSet
	host   pageSet
	remote pageSet // mapped on the device, living on the host, pinned by the thrashing detector
	chunks []pmm.Chunk
	slots  []slot
	thrash *thrash
	// accessedBy: the device asked to keep mappings to the block wherever it lives.
	accessedBy bool
}

// slot is a piece of a block that one chunk backs.
type slot struct {
	first, pages int
}

// Range is one managed allocation.
type Range struct {
	s     *Space
	first pmm.Block
	n     int
	bytes uint64
}

// Bytes returns the size of the range.
func (r *Range) Bytes() uint64 { return r.bytes }

// Blocks returns the first block of the range and their number; blocks are named consecutively.
func (r *Range) Blocks() (first pmm.Block, n int) { return r.first, r.n }

// Space is a managed address space over one device. It is not safe for concurrent use.
type Space struct {
	m      *pmm.Model
	opts   Options
	costs  pmm.Costs
	blocks []block
	stats  Stats
	policy chooser
	faults []fault
	fresh  []int // slots that populate is filling
}

// New returns an empty space and makes it the evictor of the model.
func New(m *pmm.Model, o Options) (*Space, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Space{m: m, opts: o, costs: m.Config().Costs}
	s.policy = newChooser(s)
	m.SetEvictor(s)
	return s, nil
}

// Stats returns the running counts.
func (s *Space) Stats() Stats { return s.stats }

// Model returns the manager below.
func (s *Space) Model() *pmm.Model { return s.m }

// blocksMax bounds a space: 2^24 blocks are 32 TiB.
const blocksMax = 1 << 24

// Alloc makes a range of at least bytes, rounded up to pages. No memory is taken until somebody touches it.
func (s *Space) Alloc(bytes uint64) (*Range, error) {
	if bytes == 0 || bytes > blocksMax*BlockBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrSize, bytes)
	}
	pages := (bytes + PageBytes - 1) / PageBytes
	r := &Range{s: s, first: pmm.Block(len(s.blocks)), bytes: pages * PageBytes}
	if len(s.blocks)+int((pages+BlockPages-1)/BlockPages) > blocksMax {
		return nil, fmt.Errorf("%w: the space would have more than %d blocks", ErrSize, blocksMax)
	}
	for pages > 0 {
		n := int(min(pages, BlockPages))
		b := block{pages: n, slots: s.cut(n)}
		b.chunks = make([]pmm.Chunk, len(b.slots))
		s.blocks = append(s.blocks, b)
		pages -= uint64(n)
		r.n++
	}
	s.m.AdvanceNs(s.costs.ManagedAllocNs.Value)
	return r, nil
}

// cut divides a block into the largest aligned chunks of the user sizes.
func (s *Space) cut(pages int) []slot {
	mask := s.m.SizesMask(pmm.User)
	var out []slot
	for at := 0; at < pages; {
		size := BlockPages
		for size > 1 && (mask&(uint64(size)*PageBytes) == 0 || at%size != 0 || at+size > pages) {
			size /= 2
		}
		for mask&(uint64(size)*PageBytes) == 0 {
			size *= 2 // host pages of 64 KiB: the last chunk is larger than what is left
		}
		out = append(out, slot{at, min(size, pages-at)})
		at += size
	}
	return out
}

// chunkBytes returns the size of the chunk behind a slot.
func (s *Space) chunkBytes(sl slot) uint64 {
	size := uint64(PageBytes)
	for size < uint64(sl.pages)*PageBytes || s.m.SizesMask(pmm.User)&size == 0 {
		size <<= 1
	}
	return size
}

// Free gives a range back. A second call is ErrRange.
func (r *Range) Free() error {
	if r.n == 0 {
		return fmt.Errorf("%w: freed before", ErrRange)
	}
	s := r.s
	for i := r.first; i < r.first+pmm.Block(r.n); i++ {
		b := &s.blocks[i]
		for k, c := range b.chunks {
			if c != pmm.NoChunk {
				if st := s.m.FreeChunk(c); st != pmm.OK {
					return fmt.Errorf("managed: freeing block %d: %w", i, st)
				}
				b.chunks[k] = pmm.NoChunk
			}
		}
		*b = block{}
	}
	r.n = 0
	s.m.AdvanceNs(s.costs.ManagedFreeNs.Value)
	return nil
}

// span checks an offset and a length.
func (r *Range) span(offset, length uint64) error {
	if r.n == 0 || length == 0 || offset > r.bytes || length > r.bytes-offset {
		return fmt.Errorf("%w: offset %d, length %d of %d bytes", ErrRange, offset, length, r.bytes)
	}
	return nil
}

// eachBlock calls f for every block that a span meets, with its pages lo to hi-1.
func (r *Range) eachBlock(offset, length uint64, f func(id pmm.Block, lo, hi int) error) error {
	first, end := offset/PageBytes, (offset+length+PageBytes-1)/PageBytes
	for at := first; at < end; {
		id := r.first + pmm.Block(at/BlockPages)
		lo := int(at % BlockPages)
		hi := int(min(end-at+uint64(lo), BlockPages))
		if err := f(id, lo, hi); err != nil {
			return err
		}
		at += uint64(hi - lo)
	}
	return nil
}

// ResidentBytes returns how much of the range is on the device.
func (r *Range) ResidentBytes() uint64 {
	n := 0
	for i := range r.n {
		n += r.s.blocks[int(r.first)+i].device.count()
	}
	return uint64(n) * PageBytes
}

// xorshift is a small generator of pseudo-random numbers (Marsaglia 2003), part of the state so that runs repeat.
func xorshift(x *uint64) uint64 {
	*x ^= *x << 13
	*x ^= *x >> 7
	*x ^= *x << 17
	return *x
}
