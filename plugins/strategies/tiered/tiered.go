package tiered

import (
	"unsafe"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
	"github.com/gpubench/gpubench/trace"
)

// Strategy is the arena with its spilled blocks.
type Strategy struct {
	dev         backends.Device
	host        backends.HostMemory
	events      backends.Streams // nil: the device has none
	log         sdk.Log
	opt         Options
	many        bool // the trace has several streams
	base, bytes uint64
	heap        *fit.Heap
	held        pending
	release     func(uint32)
	entries     []entry // [0] unused; [1] and [2] are the ends of the lists of large and small blocks
	spare       uint32
	hostBytes   uint64
	spilled     uint64 // blocks in host memory
	spills      uint64
	returns     uint64
}

// The heads of the lists: next is the coldest block, prev the hottest.
const (
	largeList = 1
	smallList = 2
)

// entry is a live block, or one whose free is held back.
type entry struct {
	addr, granted uint64
	ref           uint64 // of the heap
	align         uint64
	prev, next    uint32 // in the list, towards colder and hotter blocks
	gen           uint32
	stream        sdk.Stream
	live, onHost  bool
}

func (s *Strategy) reset() {
	if len(s.entries) == 0 {
		s.entries = make([]entry, 3)
		s.release = s.give
	}
	s.entries[largeList].prev, s.entries[largeList].next = largeList, largeList
	s.entries[smallList].prev, s.entries[smallList].next = smallList, smallList
}

func (s *Strategy) unlink(i uint32) {
	e := &s.entries[i]
	s.entries[e.prev].next, s.entries[e.next].prev = e.next, e.prev
}

// heat makes block i the most recently used of its list.
func (s *Strategy) heat(i uint32) {
	list := uint32(largeList)
	if s.entries[i].granted < s.opt.MinSpillBytes {
		list = smallList
	}
	last := s.entries[list].prev
	s.entries[i].prev, s.entries[i].next = last, list
	s.entries[last].next, s.entries[list].prev = i, i
}

// Alloc places a block on the device, spilling others if need be.
func (s *Strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > s.bytes {
		return trace.StatusFailed
	}
	s.held.Collect(s.release)
	addr, granted, ref, ok := s.heap.Alloc(r.Size, r.Align)
	st := trace.StatusOK
	if !ok {
		st = trace.StatusRecovered
		if addr, granted, ref, ok = s.makeRoom(r.Size, r.Align, 0); !ok {
			return trace.StatusFailed
		}
	}
	i := s.spare
	if i != 0 {
		s.spare = s.entries[i].next
	} else {
		i = uint32(len(s.entries))
		s.entries = append(s.entries, entry{})
	}
	e := &s.entries[i]
	*e = entry{addr: addr, granted: granted, ref: ref, align: r.Align, gen: e.gen + 1, stream: r.Stream, live: true}
	s.heat(i)
	b.Addr, b.Size, b.Ref = addr, granted, uint64(e.gen)<<32|uint64(i)
	return st
}

// makeRoom waits for pending frees, then spills the coldest blocks, other than keep, until the heap can serve the request.
func (s *Strategy) makeRoom(size, align uint64, keep uint32) (addr, granted, ref uint64, ok bool) {
	if s.held.WaitAll(s.release) {
		if addr, granted, ref, ok = s.heap.Alloc(size, align); ok {
			return addr, granted, ref, true
		}
	}
	if s.events != nil {
		s.events.SyncDevice()
	}
	for _, list := range [...]uint32{largeList, smallList} {
		for i := s.entries[list].next; i != list; {
			next := s.entries[i].next
			if i != keep && s.spill(i) {
				if addr, granted, ref, ok = s.heap.Alloc(size, align); ok {
					return addr, granted, ref, true
				}
			}
			i = next
		}
	}
	return 0, 0, 0, false
}

// spill moves block i to host memory; false when there is none left.
func (s *Strategy) spill(i uint32) bool {
	e := &s.entries[i]
	if limit := s.opt.MaxHostBytes; limit != 0 && e.granted > limit-min(limit, s.hostBytes) {
		return false
	}
	to, st := s.host.HostMalloc(e.granted)
	if st != trace.CallOK {
		return false
	}
	if s.host.Copy(to, e.addr, e.granted) != trace.CallOK {
		s.host.HostFree(to)
		return false
	}
	s.note(trace.CallSpill, e.addr, to, e.granted)
	s.heap.Free(e.addr, e.granted, e.ref)
	s.unlink(i)
	e.addr, e.onHost = to, true
	s.hostBytes += e.granted
	s.spilled++
	s.spills++
	return true
}

func (s *Strategy) note(kind trace.CallKind, from, to, size uint64) {
	if s.log != nil {
		s.log.Note(trace.Call{Kind: kind, Addr: to, Size: size, Aux: from})
	}
}

// bringBack moves block i to the device again, if room can be made.
func (s *Strategy) bringBack(i uint32) {
	e := &s.entries[i]
	addr, granted, ref, ok := s.heap.Alloc(e.granted, e.align)
	if !ok {
		if addr, granted, ref, ok = s.makeRoom(e.granted, e.align, i); !ok {
			return
		}
	}
	if s.host.Copy(addr, e.addr, e.granted) != trace.CallOK {
		s.heap.Free(addr, granted, ref)
		return
	}
	s.note(trace.CallUnspill, e.addr, addr, e.granted)
	s.host.HostFree(e.addr)
	s.hostBytes -= e.granted
	s.spilled--
	s.returns++
	e.addr, e.ref, e.onHost = addr, ref, false
	s.heat(i)
}

func (s *Strategy) find(b *sdk.Block) uint32 {
	i := uint32(b.Ref)
	if i <= smallList || uint64(i) >= uint64(len(s.entries)) {
		return 0
	}
	if e := &s.entries[i]; !e.live || e.gen != uint32(b.Ref>>32) {
		return 0
	}
	return i
}

// Use notes a use: the block is hot, and comes back from the host.
func (s *Strategy) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := s.find(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	s.held.Use(i, stream)
	if s.entries[i].onHost {
		s.held.Collect(s.release)
		s.bringBack(i)
		return trace.StatusOK
	}
	s.unlink(i)
	s.heat(i)
	return trace.StatusOK
}

// Free gives a block back, at once or when its streams have completed.
func (s *Strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := s.find(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	e := &s.entries[i]
	e.live = false
	if !e.onHost {
		s.unlink(i)
	}
	if s.many {
		s.held.Use(i, stream)
	}
	if !s.held.Put(i, noStream) {
		s.give(i)
	}
	return trace.StatusOK
}

// give returns the memory of block i, which is in no list, and forgets it.
func (s *Strategy) give(i uint32) {
	e := &s.entries[i]
	if e.onHost {
		s.host.HostFree(e.addr)
		s.hostBytes -= e.granted
		s.spilled--
	} else {
		s.heap.Free(e.addr, e.granted, e.ref)
	}
	*e = entry{gen: e.gen, next: s.spare}
	s.spare = i
}

// FreeWrong says what a deliberately wrong free is.
func (s *Strategy) FreeWrong(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 || s.find(b) == 0 {
		return trace.StatusInvalid
	}
	return trace.StatusUnsupported
}

// Trim waits for pending frees; the arena stays.
func (s *Strategy) Trim() trace.Status {
	s.held.WaitAll(s.release)
	return trace.StatusOK
}

// Close gives the arena and all host memory back.
func (s *Strategy) Close() error {
	s.held.Close()
	for i := range s.entries {
		if s.entries[i].onHost {
			s.host.HostFree(s.entries[i].addr)
		}
	}
	return s.dev.Free(s.base).Err()
}

// Inspect shows the arena and what is spilled.
func (s *Strategy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{
		"host_bytes": s.hostBytes, "spilled_blocks": s.spilled, "spills": s.spills, "returns": s.returns, "pending_frees": uint64(s.held.Held()),
	}}
	s.heap.Inspect(&in)
	in.MetaBytes += uint64(cap(s.entries)) * uint64(unsafe.Sizeof(entry{}))
	waits := map[uint64]bool{}
	for i := range s.entries {
		if s.held.Holds(uint32(i)) {
			waits[s.entries[i].addr] = true
		}
	}
	for i := range in.Segments[0].Blocks {
		if b := &in.Segments[0].Blocks[i]; b.State == "live" && waits[b.Addr] {
			b.State = "pending"
		}
	}
	return in
}

// The interfaces that the type promises.
var (
	_ sdk.Strategy   = (*Strategy)(nil)
	_ sdk.StreamUser = (*Strategy)(nil)
	_ sdk.Trimmer    = (*Strategy)(nil)
	_ sdk.WrongFreer = (*Strategy)(nil)
	_ sdk.Inspector  = (*Strategy)(nil)
)
