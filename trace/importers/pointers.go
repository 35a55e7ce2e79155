package importers

import (
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/trace"
)

// pointerLog turns a log that names blocks by address into events: a pointer that is allocated while live is a lost free, a
// free of an unknown pointer belongs to an allocation before the log began, and what is live at the end stays live.
type pointerLog struct {
	b       *trace.Builder
	live    addrmap.Map // address -> 1 + index into blocks
	blocks  []logBlock
	spare   []uint32
	handle  trace.Handle
	facts   Facts
	bytes   uint64 // requested bytes live
	count   int    // blocks live
	atPeak  int    // blocks live at the peak
	unknown int    // frees of unknown pointers
	before  int    // of those, the ones before the peak
	lost    int    // allocations at a live pointer
	sizes   int    // frees with another size than the allocation's
	nulls   int    // frees of the null pointer
}

type logBlock struct {
	handle trace.Handle
	size   uint64
}

// alloc adds an allocation. A null pointer (of a request of 0 bytes) is never freed.
func (p *pointerLog) alloc(addr, size uint64, a trace.AllocArgs) error {
	if i := p.live.Get(addr); i != 0 && addr != 0 {
		p.lost++
		if err := p.b.Free(p.drop(addr, i-1).handle, trace.FreeArgs{}); err != nil {
			return err
		}
	}
	p.handle++
	p.facts.Allocs++
	p.b.Saw(addr, 0, false)
	if err := p.b.Alloc(p.handle, size, a); err != nil {
		return err
	}
	if addr == 0 {
		return nil
	}
	p.keep(addr, logBlock{p.handle, size})
	return nil
}

func (p *pointerLog) keep(addr uint64, blk logBlock) {
	i := uint32(len(p.blocks))
	if n := len(p.spare); n > 0 {
		i = p.spare[n-1]
		p.spare = p.spare[:n-1]
		p.blocks[i] = blk
	} else {
		p.blocks = append(p.blocks, blk)
	}
	p.live.Put(addr, i+1)
	p.count++
	if p.bytes += blk.size; p.bytes > p.facts.LiveBytesMax {
		p.facts.LiveBytesMax, p.atPeak, p.before = p.bytes, p.count, p.unknown
	}
}

func (p *pointerLog) drop(addr uint64, i uint32) logBlock {
	p.live.Delete(addr)
	p.spare = append(p.spare, i)
	blk := p.blocks[i]
	p.bytes -= blk.size
	p.count--
	return blk
}

// fail adds a request that failed.
func (p *pointerLog) fail(size uint64, a trace.AllocArgs) error {
	p.handle++
	p.facts.FailedAllocs++
	p.b.Saw(0, 0, true)
	return p.b.Alloc(p.handle, size, a)
}

// free adds a free; size is the one logged, 0 = none.
func (p *pointerLog) free(addr, size uint64, a trace.FreeArgs) error {
	i := p.live.Get(addr)
	switch {
	case addr == 0:
		p.nulls++
		return nil
	case i == 0:
		p.unknown++
		return nil
	}
	p.facts.Frees++
	blk := p.drop(addr, i-1)
	if size != 0 && size != blk.size {
		p.sizes++
	}
	return p.b.Free(blk.handle, a)
}

// realloc adds a reallocation, whose log line names the new pointer only: when that is not live, the old block stays.
func (p *pointerLog) realloc(addr, size uint64, a trace.AllocArgs) error {
	i := p.live.Get(addr)
	if i == 0 {
		return p.alloc(addr, size, a)
	}
	old := p.drop(addr, i-1)
	p.handle++
	p.facts.Allocs++
	p.facts.Frees++
	p.b.Saw(addr, 0, false)
	if err := p.b.Realloc(p.handle, old.handle, size, a); err != nil {
		return err
	}
	p.keep(addr, logBlock{p.handle, size})
	return nil
}

// finish fills in the facts and returns the warnings and the number of skipped records.
func (p *pointerLog) finish(warn func(format string, args ...any)) (skipped uint64) {
	p.facts.CoversPercent = 100
	if older := p.unknown - p.before; older > 0 && p.atPeak+older > 0 {
		p.facts.CoversPercent = percent(p.atPeak, p.atPeak+older)
	}
	if p.unknown > 0 {
		warn("skipped: %d frees of blocks allocated before the log began", p.unknown)
	}
	if p.lost > 0 {
		warn("%d allocations at an address that was still live: the free before them was lost and is put there", p.lost)
	}
	if p.sizes > 0 {
		warn("%d frees name another size than the allocation", p.sizes)
	}
	if p.nulls > 0 {
		warn("skipped: %d frees of the null pointer", p.nulls)
	}
	if p.count > 0 {
		warn("%d blocks (%d bytes) are never freed", p.count, p.bytes)
	}
	return uint64(p.unknown + p.nulls)
}
