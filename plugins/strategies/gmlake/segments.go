package gmlake

import (
	"unsafe"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// smallSegment takes a segment for small blocks; blocks.None when the device refuses.
func (a *Allocator) smallSegment(s sdk.Stream) uint32 {
	if a.reserved+smallSegmentBytes > a.limit {
		return blocks.None
	}
	addr, st := a.dev.Malloc(smallSegmentBytes)
	if st != trace.CallOK {
		return blocks.None
	}
	return a.addSegment(segment{addr: addr, bytes: smallSegmentBytes, stream: s})
}

// largeSegment takes a segment of pages for n bytes.
func (a *Allocator) largeSegment(n uint64, s sdk.Stream) uint32 {
	bytes := n
	if n < minLargeBytes {
		bytes = largeSegmentBytes
	}
	if bytes > a.limit-min(a.limit, a.reserved) {
		return blocks.None
	}
	addr, st := a.vm.Reserve(bytes)
	if st != trace.CallOK {
		return blocks.None
	}
	seg := segment{addr: addr, bytes: bytes, stream: s, pages: make([]backends.PhysID, 0, bytes/pageBytes), starts: make([]uint32, bytes/pageBytes)}
	for at := addr; at < addr+bytes; at += pageBytes {
		id, st := a.vm.Create(pageBytes)
		if st == trace.CallOK {
			if st = a.vm.Map(at, pageBytes, id); st != trace.CallOK {
				a.vm.Release(id)
			}
		}
		if st != trace.CallOK {
			a.unmap(&seg)
			return blocks.None
		}
		seg.pages = append(seg.pages, id)
	}
	if a.vm.SetAccess(addr, bytes) != trace.CallOK {
		a.unmap(&seg)
		return blocks.None
	}
	return a.addSegment(seg)
}

// unmap gives the pages of a segment, as many as it has, and its reservation back.
func (a *Allocator) unmap(seg *segment) trace.CallStatus {
	st := trace.CallOK
	if n := uint64(len(seg.pages)) * pageBytes; n != 0 {
		st = a.vm.Unmap(seg.addr, n)
	}
	for _, id := range seg.pages {
		if x := a.vm.Release(id); st == trace.CallOK {
			st = x
		}
	}
	if x := a.vm.Unreserve(seg.addr, seg.bytes); st == trace.CallOK {
		st = x
	}
	return st
}

func (a *Allocator) addSegment(seg segment) uint32 {
	var k uint32
	if n := len(a.spareSeg); n > 0 {
		k = a.spareSeg[n-1]
		a.spareSeg = a.spareSeg[:n-1]
	} else {
		k = uint32(len(a.segments))
		a.segments = append(a.segments, segment{})
	}
	i := a.table.New(seg.addr, seg.bytes)
	seg.first = i
	a.segments[k] = seg
	a.table.B[i].Free, a.table.B[i].User = true, k
	a.begin(i)
	a.index(i).Insert(a.table, i)
	a.reserved += seg.bytes
	return i
}

// giveBack gives free segments back, the stream's large ones from the largest down and then its small ones, until want bytes have gone; it
// returns how many have.
func (a *Allocator) giveBack(want uint64, s sdk.Stream) (gone uint64) {
	for gone < want {
		best := uint32(0)
		for k := range a.segments {
			seg := &a.segments[k]
			if seg.bytes == 0 || seg.stream != s {
				continue
			}
			b := &a.table.B[seg.first]
			if b.Free && b.Size == seg.bytes && (best == 0 || seg.bytes > a.segments[best].bytes) {
				best = uint32(k)
			}
		}
		if best == 0 {
			break
		}
		bytes := a.segments[best].bytes
		a.dropViewsOf(best)
		i := a.segments[best].first
		a.index(i).Remove(a.table, i)
		a.table.Release(i)
		if a.giveSegment(best) != trace.CallOK {
			break
		}
		gone += bytes
	}
	return gone
}

// releasable returns the bytes of the stream's free segments.
func (a *Allocator) releasable(s sdk.Stream) (n uint64) {
	for k := range a.segments {
		if seg := &a.segments[k]; seg.bytes != 0 && seg.stream == s {
			if b := &a.table.B[seg.first]; b.Free && b.Size == seg.bytes {
				n += seg.bytes
			}
		}
	}
	return n
}

// giveSegment gives segment k, whose blocks are gone, back to the device.
func (a *Allocator) giveSegment(k uint32) trace.CallStatus {
	seg := &a.segments[k]
	a.reserved -= seg.bytes
	var st trace.CallStatus
	if seg.pages == nil {
		st = a.dev.Free(seg.addr)
	} else {
		st = a.unmap(seg)
	}
	*seg = segment{}
	a.spareSeg = append(a.spareSeg, k)
	return st
}

// Inspect shows the segments, in the order in which their records were made, and the stitched blocks as counters. The pages of a stitched block in
// use are live in their segments.
func (a *Allocator) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{
		"reserved_bytes": a.reserved, "stitched_view_bytes": a.views, "stitches": a.stitches, "stitched_reuses": a.reuses, "held_frees": uint64(a.held.Held()),
	}}
	in.MetaBytes = a.table.MetaBytes() + uint64(cap(a.segments))*uint64(unsafe.Sizeof(segment{})) + uint64(cap(a.fused))*uint64(unsafe.Sizeof(stitched{}))
	for k := range a.segments {
		seg := &a.segments[k]
		if seg.bytes == 0 {
			continue
		}
		out := sdk.InspectedSegment{Addr: seg.addr, Bytes: seg.bytes, Stream: seg.stream}
		for i := seg.first; i != blocks.None; i = a.table.B[i].Next {
			b := &a.table.B[i]
			state := "live"
			if b.Free {
				state = "free"
			} else if a.held.Holds(heldAs(i)) {
				state = "pending"
			}
			out.Blocks = append(out.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
		}
		in.Segments = append(in.Segments, out)
		in.MetaBytes += uint64(cap(seg.pages))*8 + uint64(cap(seg.starts))*4
	}
	for k := range a.fused {
		in.MetaBytes += uint64(cap(a.fused[k].runs)) * uint64(unsafe.Sizeof(run{}))
	}
	return in
}

// The interfaces that the type promises.
var (
	_ sdk.Strategy   = (*Allocator)(nil)
	_ sdk.StreamUser = (*Allocator)(nil)
	_ sdk.Trimmer    = (*Allocator)(nil)
	_ sdk.WrongFreer = (*Allocator)(nil)
	_ sdk.Inspector  = (*Allocator)(nil)
)
