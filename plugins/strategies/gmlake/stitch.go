package gmlake

import (
	"slices"

	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// mapTries is how often a view is mapped, with a collection of kept ones between, before it is given up (the original's number).
const mapTries = 3

// stitched is a view of pages of several places, side by side.
type stitched struct {
	addr, bytes uint64 // addr 0: not in use
	runs        []run
	stream      sdk.Stream
	live        bool
	gen         uint32
}

// run is a range of pages of a segment.
type run struct {
	segment    uint32
	first, len uint32 // pages
}

// reuse looks for the smallest kept view of the stream that is large enough, not too large, and free.
func (a *Allocator) reuse(n uint64, s sdk.Stream, b *sdk.Block) bool {
	list := a.of(s).fused
	at, _ := slices.BinarySearchFunc(list, n, func(f uint32, n uint64) int { return compare(a.fused[f].bytes, n) })
	for _, f := range list[at:] {
		x := &a.fused[f]
		if x.bytes/a.opt.ReuseLimit > n {
			return false
		}
		if x.live || !a.free(x.runs) {
			continue
		}
		for _, r := range x.runs {
			a.claimRun(r)
		}
		a.reuses++
		a.give(f, b)
		return true
	}
	return false
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// give hands stitched block f out.
func (a *Allocator) give(f uint32, b *sdk.Block) {
	x := &a.fused[f]
	x.live = true
	x.gen = (x.gen + 1) &^ (1 << 31)
	b.Addr, b.Size, b.Ref = x.addr, x.bytes, 1<<63|uint64(x.gen)<<32|uint64(f)
}

// blockAt returns the block of the table that holds a page of a segment.
func (a *Allocator) blockAt(segment, page uint32) uint32 {
	seg := &a.segments[segment]
	for ; ; page-- {
		if i := seg.starts[page]; i != blocks.None {
			if b := &a.table.B[i]; b.User == segment && b.Size != 0 && b.Addr == seg.addr+uint64(page)*pageBytes {
				return i
			}
		}
		if page == 0 {
			return blocks.None
		}
	}
}

// free reports whether all pages of the runs are free. Free neighbours are merged, so each run lies in one free block then.
func (a *Allocator) free(runs []run) bool {
	for _, r := range runs {
		i := a.blockAt(r.segment, r.first)
		b := &a.table.B[i]
		end := a.segments[r.segment].addr + uint64(r.first+r.len)*pageBytes
		if i == blocks.None || !b.Free || b.Addr+b.Size < end {
			return false
		}
	}
	return true
}

// claimRun takes exactly the pages of a run, which lie in one free block, out of the free ones.
func (a *Allocator) claimRun(r run) {
	i := a.blockAt(r.segment, r.first)
	at := a.segments[r.segment].addr + uint64(r.first)*pageBytes
	if gap := at - a.table.B[i].Addr; gap != 0 {
		index := a.index(i)
		index.Remove(a.table, i)
		rest := a.table.SplitHigh(i, gap)
		a.table.B[rest].User, a.table.B[rest].Free = r.segment, true
		a.begin(rest)
		index.Insert(a.table, i)
		index.Insert(a.table, rest)
		i = rest
	}
	a.claim(i, uint64(r.len)*pageBytes)
}

// stitch makes a view of n bytes from the stream's free large blocks, the largest first.
func (a *Allocator) stitch(n uint64, s sdk.Stream, b *sdk.Block) bool {
	index := &a.of(s).large
	if index.Bytes() < n {
		return false
	}
	a.parts = a.parts[:0]
	for i := index.BestFit(a.table, pageBytes); i != blocks.None; i = index.After(a.table, i) {
		a.parts = append(a.parts, i)
	}
	slices.Reverse(a.parts)
	sum, k := uint64(0), 0
	for k < len(a.parts) && sum < n {
		sum += a.table.B[a.parts[k]].Size
		k++
	}
	if sum < n || k < 2 {
		return false
	}
	a.parts = a.parts[:k]
	f := a.newView(s, n)
	x := &a.fused[f]
	left := n
	for _, i := range a.parts {
		p := &a.table.B[i]
		seg := &a.segments[p.User]
		take := min(left, p.Size)
		x.runs = append(x.runs, run{p.User, uint32((p.Addr - seg.addr) / pageBytes), uint32(take / pageBytes)})
		left -= take
	}
	if !a.mapView(x) {
		x.addr, x.bytes, x.runs = 0, 0, x.runs[:0]
		a.spare = append(a.spare, f)
		return false
	}
	for _, r := range x.runs {
		a.claimRun(r)
	}
	list := &a.of(s).fused
	at, _ := slices.BinarySearchFunc(*list, n, func(f uint32, n uint64) int { return compare(a.fused[f].bytes, n) })
	*list = slices.Insert(*list, at, f)
	a.views += n
	a.stitches++
	a.give(f, b)
	if a.views > a.opt.AutoGCBytes {
		a.collectViews()
	}
	return true
}

func (a *Allocator) newView(s sdk.Stream, n uint64) uint32 {
	var f uint32
	if k := len(a.spare); k > 0 {
		f = a.spare[k-1]
		a.spare = a.spare[:k-1]
	} else {
		f = uint32(len(a.fused))
		a.fused = append(a.fused, stitched{})
	}
	x := &a.fused[f]
	x.stream, x.bytes, x.runs = s, n, x.runs[:0]
	return f
}

// mapView reserves addresses for a view and maps its pages there.
func (a *Allocator) mapView(x *stitched) bool {
	for range mapTries {
		if a.tryMap(x) {
			return true
		}
		if a.collectViews() == 0 {
			return false
		}
	}
	return false
}

func (a *Allocator) tryMap(x *stitched) bool {
	addr, st := a.vm.Reserve(x.bytes)
	if st != trace.CallOK {
		return false
	}
	at := addr
	for _, r := range x.runs {
		for _, id := range a.segments[r.segment].pages[r.first : r.first+r.len] {
			if st = a.vm.Map(at, pageBytes, id); st != trace.CallOK {
				break
			}
			at += pageBytes
		}
		if st != trace.CallOK {
			break
		}
	}
	if st == trace.CallOK && a.vm.SetAccess(addr, x.bytes) == trace.CallOK {
		x.addr = addr
		return true
	}
	if at > addr {
		a.vm.Unmap(addr, at-addr)
	}
	a.vm.Unreserve(addr, x.bytes)
	return false
}

// unstitch frees the pages of view f, which is kept.
func (a *Allocator) unstitch(f uint32) {
	x := &a.fused[f]
	x.live = false
	for _, r := range x.runs {
		a.put(a.blockAt(r.segment, r.first))
	}
}

// collectViews drops all views that are not in use and returns how many there were.
func (a *Allocator) collectViews() (n int) {
	for f := range a.fused {
		if a.fused[f].addr != 0 && !a.fused[f].live {
			a.drop(uint32(f))
			n++
		}
	}
	return n
}

// dropViewsOf drops the views, none of them in use, that show pages of a segment.
func (a *Allocator) dropViewsOf(segment uint32) {
	for f := range a.fused {
		if x := &a.fused[f]; x.addr != 0 && slices.ContainsFunc(x.runs, func(r run) bool { return r.segment == segment }) {
			a.drop(uint32(f))
		}
	}
}

// drop unmaps view f and forgets it.
func (a *Allocator) drop(f uint32) trace.CallStatus {
	x := &a.fused[f]
	st := a.vm.Unmap(x.addr, x.bytes)
	if u := a.vm.Unreserve(x.addr, x.bytes); st == trace.CallOK {
		st = u
	}
	list := &a.of(x.stream).fused
	if at := slices.Index(*list, f); at >= 0 {
		*list = slices.Delete(*list, at, at+1)
	}
	a.views -= x.bytes
	x.addr, x.bytes, x.live, x.runs = 0, 0, false, x.runs[:0]
	a.spare = append(a.spare, f)
	return st
}
