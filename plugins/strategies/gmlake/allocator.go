package gmlake

import (
	"errors"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/holdback"
	"github.com/gpubench/gpubench/trace"
)

// Allocator is the strategy.
type Allocator struct {
	dev      backends.Device
	vm       backends.VirtualMemory
	opt      Options
	limit    uint64
	table    *blocks.Table // User is the segment
	segments []segment     // [0] unused
	spareSeg []uint32
	streams  []pools
	held     *holdback.Holder
	release  func(uint32) // releaseHeld, made once
	fused    []stitched   // [0] unused
	spare    []uint32
	parts    []uint32 // scratch of stitch
	reserved uint64   // bytes of the segments
	views    uint64   // bytes of the reservations of stitched blocks
	stitches uint64
	reuses   uint64
}

// pools are the free blocks of a stream, and its stitched blocks by size, then address.
type pools struct {
	small, large blocks.SizeIndex
	fused        []uint32
}

// segment is memory from the device; one of pages has their identities.
type segment struct {
	addr, bytes uint64
	stream      sdk.Stream
	first       uint32
	pages       []backends.PhysID // nil: a small segment
	starts      []uint32          // by page: the block that begins there
}

// fusedRef marks the number of a stitched block where blocks of both kinds are named.
const fusedRef = 1 << 31

func newAllocator(env *sdk.Env, vm backends.VirtualMemory, opt Options) *Allocator {
	a := &Allocator{dev: env.Device, vm: vm, opt: opt, limit: env.CapacityBytes, table: blocks.NewTable(64),
		segments: make([]segment, 1), fused: make([]stitched, 1), held: holdback.New(env)}
	a.release = a.releaseHeld
	return a
}

func (a *Allocator) of(s sdk.Stream) *pools {
	for int(s) >= len(a.streams) {
		a.streams = append(a.streams, pools{})
	}
	return &a.streams[s]
}

// Alloc serves a request.
func (a *Allocator) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > 1<<60 || r.Align > pageBytes {
		return trace.StatusFailed
	}
	a.held.Collect(a.release)
	if r.Size <= smallBytes && r.Align <= minBlockBytes {
		return a.allocSmall((r.Size+minBlockBytes-1)&^(minBlockBytes-1), r.Stream, b)
	}
	return a.allocLarge((r.Size+pageBytes-1)&^(pageBytes-1), r.Stream, b)
}

func (a *Allocator) allocSmall(n uint64, s sdk.Stream, b *sdk.Block) trace.Status {
	if i := a.of(s).small.BestFit(a.table, n); i != blocks.None {
		return a.take(i, n, b, trace.StatusOK)
	}
	if i := a.smallSegment(s); i != blocks.None {
		return a.take(i, n, b, trace.StatusOK)
	}
	a.held.WaitAll(a.release)
	a.giveBack(^uint64(0), s)
	i := a.of(s).small.BestFit(a.table, n)
	if i == blocks.None {
		i = a.smallSegment(s)
	}
	if i == blocks.None {
		return trace.StatusFailed
	}
	return a.take(i, n, b, trace.StatusRecovered)
}

// allocLarge goes through the cases of the package comment.
func (a *Allocator) allocLarge(n uint64, s sdk.Stream, b *sdk.Block) trace.Status {
	if i := a.of(s).large.BestFit(a.table, n); i != blocks.None {
		return a.take(i, n, b, trace.StatusOK)
	}
	if a.reuse(n, s, b) || n >= a.opt.FragLimitBytes && a.stitch(n, s, b) {
		return trace.StatusOK
	}
	if i := a.largeSegment(n, s); i != blocks.None {
		return a.take(i, n, b, trace.StatusOK)
	}
	if a.releasable(s) >= n && a.giveBack(n, s) >= n {
		if i := a.largeSegment(n, s); i != blocks.None {
			return a.take(i, n, b, trace.StatusRecovered)
		}
	}
	if a.stitch(n, s, b) {
		return trace.StatusRecovered
	}
	if a.held.WaitAll(a.release) {
		if i := a.of(s).large.BestFit(a.table, n); i != blocks.None {
			return a.take(i, n, b, trace.StatusRecovered)
		}
		if a.stitch(n, s, b) {
			return trace.StatusRecovered
		}
	}
	a.giveBack(^uint64(0), s)
	if i := a.largeSegment(n, s); i != blocks.None {
		return a.take(i, n, b, trace.StatusRecovered)
	}
	if a.stitch(n, s, b) {
		return trace.StatusRecovered
	}
	return trace.StatusFailed
}

func (a *Allocator) index(i uint32) *blocks.SizeIndex {
	seg := &a.segments[a.table.B[i].User]
	p := a.of(seg.stream)
	if seg.pages == nil {
		return &p.small
	}
	return &p.large
}

// begin notes that block i begins at its page.
func (a *Allocator) begin(i uint32) {
	b := &a.table.B[i]
	if seg := &a.segments[b.User]; seg.pages != nil {
		seg.starts[(b.Addr-seg.addr)/pageBytes] = i
	}
}

// claim takes the first n bytes of free block i out of the free ones; the rest stays free if it is large enough for a block
// of its own. It returns the block claimed: i.
func (a *Allocator) claim(i uint32, n uint64) uint32 {
	index := a.index(i)
	index.Remove(a.table, i)
	least := uint64(minBlockBytes)
	if a.segments[a.table.B[i].User].pages != nil {
		least = pageBytes
	}
	if a.table.B[i].Size >= n+least {
		rest := a.table.SplitHigh(i, n)
		a.table.B[rest].Free, a.table.B[rest].User = true, a.table.B[i].User
		a.begin(rest)
		index.Insert(a.table, rest)
	}
	a.table.B[i].Free = false
	return i
}

func (a *Allocator) take(i uint32, n uint64, b *sdk.Block, st trace.Status) trace.Status {
	a.claim(i, n)
	x := &a.table.B[i]
	b.Addr, b.Size, b.Ref = x.Addr, x.Size, a.table.Ref(i)
	return st
}

// put frees block i and merges it.
func (a *Allocator) put(i uint32) {
	index := a.index(i)
	if next := a.table.B[i].Next; a.table.B[next].Free {
		index.Remove(a.table, next)
		a.table.Absorb(i, next)
	}
	if prev := a.table.B[i].Prev; a.table.B[prev].Free {
		index.Remove(a.table, prev)
		a.table.Absorb(prev, i)
		i = prev
	}
	a.table.B[i].Free = true
	index.Insert(a.table, i)
}

// find returns what a block names: the number of a block of the table or of a stitched one with fusedRef; 0 if it is not live.
func (a *Allocator) find(b *sdk.Block) uint32 {
	if b.Ref>>63 != 0 {
		i := uint32(b.Ref) &^ fusedRef
		if uint64(i) < uint64(len(a.fused)) && a.fused[i].live && a.fused[i].addr == b.Addr && uint64(a.fused[i].gen) == b.Ref>>32&^(1<<31) {
			return i | fusedRef
		}
		return 0
	}
	i := a.table.Deref(b.Ref)
	if x := &a.table.B[i]; i == blocks.None || x.Free || x.Addr != b.Addr {
		return 0
	}
	return i
}

// Blocks of both kinds are numbered together for the holder: those of the table doubled, stitched ones doubled plus one.
func heldAs(i uint32) uint32 {
	if i&fusedRef != 0 {
		return i<<1 | 1
	}
	return i << 1
}

// Use notes a use on a stream; the free waits for it.
func (a *Allocator) Use(b *sdk.Block, s sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := a.find(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	a.held.Use(heldAs(i), s)
	return trace.StatusOK
}

// Free takes a block back.
func (a *Allocator) Free(b *sdk.Block, s sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := a.find(b)
	if i == 0 || a.held.Holds(heldAs(i)) {
		return trace.StatusInvalid
	}
	if !a.held.Put(heldAs(i), a.streamOf(i)) {
		a.releaseHeld(heldAs(i))
	}
	return trace.StatusOK
}

func (a *Allocator) streamOf(i uint32) sdk.Stream {
	if i&fusedRef != 0 {
		return a.fused[i&^fusedRef].stream
	}
	return a.segments[a.table.B[i].User].stream
}

func (a *Allocator) releaseHeld(i uint32) {
	if i&1 != 0 {
		a.unstitch(i >> 1)
		return
	}
	a.put(i >> 1)
}

// FreeWrong detects a deliberately wrong free.
func (a *Allocator) FreeWrong(b *sdk.Block, s sdk.Stream) trace.Status {
	if i := a.find(b); b.Size == 0 || i == 0 || a.held.Holds(heldAs(i)) {
		return trace.StatusInvalid
	}
	return trace.StatusUnsupported
}

// Trim gives all free segments back (empty_cache).
func (a *Allocator) Trim() trace.Status {
	a.held.WaitAll(a.release)
	for s := range a.streams {
		a.giveBack(^uint64(0), sdk.Stream(s))
	}
	return trace.StatusOK
}

// Close gives everything back.
func (a *Allocator) Close() error {
	a.held.Close()
	var errs []error
	for i := range a.fused {
		if a.fused[i].addr != 0 {
			errs = append(errs, a.drop(uint32(i)).Err())
		}
	}
	for i := range a.segments {
		if a.segments[i].bytes != 0 {
			errs = append(errs, a.giveSegment(uint32(i)).Err())
		}
	}
	return errors.Join(errs...)
}
