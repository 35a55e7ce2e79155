package pytorch

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// useNode is one element of a block's set of other streams.
type useNode struct {
	next    uint32
	stream  uint16
	capture bool // recorded while allocations were routed (block_to_cudagraph_stream_uses)
}

// live returns the index of the live block that b names, or 0.
func (a *Allocator) live(b *sdk.Block) uint32 {
	if b.Ref >= uint64(len(a.blocks)) {
		return 0
	}
	i := uint32(b.Ref)
	if bl := &a.blocks[i]; bl.state != blockLive || bl.addr != b.Addr {
		return 0
	}
	return i
}

// Free is DeviceCachingAllocator::free. The original does not ask which stream frees: a program that has used the block on
// another one must have said so with record_stream. A free on another stream says both here.
func (a *Allocator) Free(b *sdk.Block, s sdk.Stream) trace.Status {
	if b.Ref == 0 && b.Size == 0 { // the null pointer
		return trace.StatusOK
	}
	i := a.live(b)
	if i == 0 {
		return a.invalid(ErrNotLive)
	}
	bl := &a.blocks[i]
	set := a.sets[bl.set]
	p := set.pool
	if p.private != nil && p.private.deleted {
		a.lastErr = ErrPoolDeleted
		return trace.StatusError
	}
	if s != set.stream {
		a.addUse(i, s)
	}
	a.st.dec(p.kind, StatAllocation, 1)
	a.st.dec(p.kind, StatAllocatedBytes, bl.size)
	if bl.size >= a.cfg.maxSplitBytes {
		a.st.oversizeAllocations.dec(1)
	}
	switch {
	case bl.uses == 0:
		a.freeBlock(i)
	case len(a.routing) > 0:
		bl.state = blockDeferred
		a.deferred = append(a.deferred, i)
		a.waiting++
	default:
		a.insertEvents(i)
	}
	return trace.StatusOK
}

// FreeWrong is shown frees that are wrong on purpose: PyTorch raises "invalid device pointer".
func (a *Allocator) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return a.invalid(ErrNotLive) }

// Use is recordStream: a use on the block's own stream needs no care.
func (a *Allocator) Use(b *sdk.Block, s sdk.Stream) trace.Status {
	if b.Ref == 0 && b.Size == 0 {
		return trace.StatusOK
	}
	i := a.live(b)
	if i == 0 {
		return a.invalid(ErrNotLive)
	}
	if s == a.sets[a.blocks[i].set].stream {
		return trace.StatusOK
	}
	a.addUse(i, s)
	return trace.StatusOK
}

// addUse enters stream s in the set of block i.
func (a *Allocator) addUse(i uint32, s sdk.Stream) {
	capture := len(a.routing) > 0
	for u := a.blocks[i].uses; u != 0; u = a.useNodes[u].next {
		if n := &a.useNodes[u]; n.stream == s {
			n.capture = n.capture || capture
			return
		}
	}
	u := a.spareUses
	if u != 0 {
		a.spareUses = a.useNodes[u].next
	} else {
		a.useNodes = append(a.useNodes, useNode{})
		u = uint32(len(a.useNodes) - 1)
	}
	a.useNodes[u] = useNode{next: a.blocks[i].uses, stream: s, capture: capture}
	a.blocks[i].uses = u
}

// freeBlock is free_block: merge, and into the free set.
func (a *Allocator) freeBlock(i uint32) {
	b := &a.blocks[i]
	p := a.sets[b.set].pool
	size, requested, expandable := b.size, b.note, b.seg != 0
	i, merged, mergedBytes := a.mergeFree(i)
	a.insertFree(i)
	if !expandable {
		blocks, bytes := -int64(merged), -int64(mergedBytes)
		if b = &a.blocks[i]; b.isSplit() {
			blocks++
			bytes += int64(b.size)
		}
		a.st.change(p.kind, StatInactiveSplit, blocks)
		a.st.change(p.kind, StatInactiveSplitBytes, bytes)
	}
	if p.private != nil {
		p.private.active--
	}
	a.st.dec(p.kind, StatActive, 1)
	a.st.dec(p.kind, StatActiveBytes, size)
	a.st.dec(p.kind, StatRequestedBytes, requested)
}
