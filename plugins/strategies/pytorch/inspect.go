package pytorch

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// stateNames are the words of sdk.InspectedBlock.
var stateNames = [...]string{blockFree: "free", blockUnmapped: "unmapped", blockLive: "live", blockPending: "pending",
	blockDeferred: "pending"}

// Inspect shows segments (a whole reservation is one), free sets, and all statistics; after a failure also the figures of
// the last out-of-memory message, under last_oom.
func (a *Allocator) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: a.Stats(), MetaBytes: a.metaBytes()}
	for i := 1; i < len(a.blocks); i++ {
		if b := &a.blocks[i]; b.state != blockDead && b.prev == 0 {
			in.Segments = append(in.Segments, a.inspectSegment(uint32(i)))
		}
	}
	slices.SortFunc(in.Segments, func(x, y sdk.InspectedSegment) int {
		if x.Addr < y.Addr {
			return -1
		}
		return 1
	})
	for _, s := range a.sets[1:] {
		if s.pool == nil || s.count == 0 {
			continue
		}
		owner := ""
		if s.pool.private != nil {
			owner = fmt.Sprintf("private %d ", s.pool.private.id)
		}
		in.FreeLists = append(in.FreeLists, sdk.FreeList{Len: s.count, Bytes: s.bytes,
			Name: fmt.Sprintf("%s%s stream %d", owner, poolNames[s.pool.kind], a.streamHandle(s.stream))})
	}
	if o, failed := a.LastOOM(); failed {
		in.Counters["last_oom.tried_bytes"] = o.TriedBytes
		in.Counters["last_oom.rounded_bytes"] = o.RoundedBytes
		in.Counters["last_oom.total_bytes"] = o.TotalBytes
		in.Counters["last_oom.free_bytes"] = o.FreeBytes
		in.Counters["last_oom.allocated_bytes"] = o.AllocatedBytes
		in.Counters["last_oom.private_bytes"] = o.PrivateBytes
		in.Counters["last_oom.unallocated_bytes"] = o.UnallocatedBytes
		if o.HasAllowed {
			in.Counters["last_oom.allowed_bytes"] = o.AllowedBytes
		}
	}
	return in
}

func (a *Allocator) inspectSegment(head uint32) sdk.InspectedSegment {
	set := a.sets[a.blocks[head].set]
	sg := sdk.InspectedSegment{Addr: a.blocks[head].addr, Stream: set.stream}
	if set.pool.private != nil {
		sg.Pool = set.pool.private.id
	}
	for i := head; i != 0; i = a.blocks[i].next {
		b := &a.blocks[i]
		sg.Bytes += b.size
		sg.Blocks = append(sg.Blocks, sdk.InspectedBlock{Addr: b.addr, Bytes: b.size, State: stateNames[b.state]})
	}
	return sg
}

// metaBytes is the size of the bookkeeping.
func (a *Allocator) metaBytes() uint64 {
	n := uint64(unsafe.Sizeof(*a)) + uint64(cap(a.blocks))*uint64(unsafe.Sizeof(block{})) +
		uint64(cap(a.useNodes))*uint64(unsafe.Sizeof(useNode{}))
	for _, s := range a.sets[1:] {
		n += uint64(unsafe.Sizeof(*s)) + 4*uint64(cap(s.unmapped))
	}
	for k := range a.segments {
		n += uint64(unsafe.Sizeof(a.segments[k])) + 8*uint64(cap(a.segments[k].pages))
	}
	for k := range a.queues {
		n += uint64(unsafe.Sizeof(a.queues[k])) + uint64(len(a.queues[k].ring))*uint64(unsafe.Sizeof(pendingEvent{}))
	}
	return n
}

// Feature tells abstract states apart: how many segments, free blocks of each pool, blocks waiting and private pools there are, by
// powers of two, how deep allocations are routed, and which steps of the release path have been taken.
func (a *Allocator) Feature() uint32 {
	log := func(n uint64) uint32 { return uint32(min(bits.Len64(n), 7)) }
	count := func(p *pool) uint64 {
		n := uint64(0)
		for _, s := range p.order {
			n += s.count
		}
		return n
	}
	private := uint64(0)
	for _, pp := range a.private {
		if pp != nil {
			private++
		}
	}
	f := log(uint64(a.st.gauges[PoolAll][StatSegment].current))
	f = f<<3 | log(count(&a.small))
	f = f<<3 | log(count(&a.large))
	f = f<<3 | log(a.waiting)
	f = f<<3 | log(private)
	f = f<<3 | log(uint64(len(a.routing)))
	f = f<<3 | log(uint64(len(a.segments)-1))
	f = f<<3 | min(log(a.st.counts.AllocRetries), 7)
	f = f<<2 | min(log(a.st.counts.OOMs), 3)
	f = f<<2 | min(log(a.st.counts.DeviceFrees), 3)
	if a.lastErr != nil {
		f |= 1 << 31
	}
	return f
}
