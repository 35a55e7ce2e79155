package fuzz

import (
	"slices"

	"github.com/gpubench/gpubench/trace"
)

// shadow is what the judge knows of a target from outcomes and call log alone: live blocks and segments. The ledger keeps
// finer books; these are for the questions that need a look at all of them at once. It is made for short programs.
type shadow struct {
	live   []liveBlock // by slot
	segs   []span      // held device memory, by address
	held   uint64
	exotic bool // blocks of several extents, shared or moved to the host: not followed
	manual bool // the trace says when streams complete
	fault  bool // a device call of this event failed for other reasons than memory
	saved  map[string][]liveBlock
}

// liveBlock is a block of a slot; it is live if handle is not 0.
type liveBlock struct {
	handle            trace.Handle
	addr, size, asked uint64
	stream            uint16
	alignLog2         uint8
}

type span struct{ addr, size uint64 }

func (s *shadow) reset() {
	s.live, s.segs = s.live[:0], s.segs[:0]
	s.held, s.exotic, s.manual, s.fault = 0, false, false, false
	clear(s.saved)
}

func (s *shadow) slot(i uint32) *liveBlock {
	for len(s.live) <= int(i) {
		s.live = append(s.live, liveBlock{})
	}
	return &s.live[i]
}

// calls enters device calls and statements.
func (s *shadow) calls(list []trace.Call) {
	for i := range list {
		c := &list[i]
		if c.Status != trace.CallOK {
			s.fault = s.fault || c.Status == trace.CallInjected || c.Status > trace.CallNotReady
			continue
		}
		switch c.Kind {
		case trace.CallMalloc, trace.CallMap:
			s.hold(span{c.Addr, c.Size})
		case trace.CallFree, trace.CallUnmap:
			s.drop(c.Addr, c.Size, c.Kind == trace.CallFree)
		case trace.CallMove:
			for k := range s.live {
				if b := &s.live[k]; b.handle != 0 && b.size != 0 && b.addr == c.Aux {
					b.addr = c.Addr
					break
				}
			}
		case trace.CallExtent, trace.CallShare, trace.CallSpill, trace.CallUnspill, trace.CallHostMalloc, trace.CallManaged:
			s.exotic = true
		}
	}
}

func (s *shadow) hold(p span) {
	i, _ := slices.BinarySearchFunc(s.segs, p.addr, func(a span, addr uint64) int {
		if a.addr < addr {
			return -1
		}
		return 1
	})
	s.segs = slices.Insert(s.segs, i, p)
	s.held += p.size
}

// drop forgets what begins in a range; a free names its segment by address alone.
func (s *shadow) drop(addr, size uint64, byAddr bool) {
	s.segs = slices.DeleteFunc(s.segs, func(p span) bool {
		if p.addr == addr && byAddr || !byAddr && p.addr >= addr && p.addr-addr < size {
			s.held -= p.size
			return true
		}
		return false
	})
}

// event enters an event with its outcome, after its calls.
func (s *shadow) event(t *trace.Trace, i int, o *trace.Outcome) {
	ev := &t.Events[i]
	switch ev.Kind {
	case trace.KindAlloc, trace.KindRealloc:
		if !o.Status.Placed() {
			return
		}
		s.exotic = s.exotic || o.Status == trace.StatusSpilled
		if ev.Kind == trace.KindRealloc {
			*s.slot(t.Extras[ev.Aux].Slot2) = liveBlock{}
		}
		*s.slot(ev.Slot) = liveBlock{handle: ev.Handle, addr: o.Addr, size: o.Granted, asked: ev.Size, stream: ev.Stream, alignLog2: ev.AlignLog2}
	case trace.KindFree:
		if b := s.slot(ev.Slot); b.handle == ev.Handle {
			*b = liveBlock{}
		}
	case trace.KindEvents:
		s.manual = s.manual || ev.Size != 0
	case trace.KindReset:
		if o.Status == trace.StatusOK || o.Status == trace.StatusRecovered {
			clear(s.live)
		}
	case trace.KindCheckpoint:
		if o.Status == trace.StatusOK {
			if s.saved == nil {
				s.saved = map[string][]liveBlock{}
			}
			s.saved[t.Strings[ev.Aux]] = slices.Clone(s.live)
		}
	case trace.KindRestore:
		if o.Status == trace.StatusOK {
			then := s.saved[t.Strings[ev.Aux]]
			clear(s.live)
			s.slot(uint32(max(len(then), 1) - 1))
			copy(s.live, then)
		}
	}
}

// ranges returns the live blocks that have bytes, by address.
func (s *shadow) ranges() []span {
	var list []span
	for i := range s.live {
		if b := &s.live[i]; b.handle != 0 && b.size != 0 {
			list = append(list, span{b.addr, b.size})
		}
	}
	slices.SortFunc(list, func(a, b span) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	return list
}

// fits says whether a range of size bytes at a multiple of align is free inside a segment: the reference allocator of check
// O6. It returns the address.
func (s *shadow) fits(size, align uint64) (uint64, bool) {
	live := s.ranges()
	k := 0
	try := func(from, to uint64) (uint64, bool) {
		at := (from + align - 1) &^ (align - 1)
		return at, at >= from && at <= to && to-at >= size
	}
	for _, seg := range s.segs {
		at, end := seg.addr, seg.addr+seg.size
		for k < len(live) && live[k].addr < seg.addr {
			k++
		}
		if k > 0 { // a block over several mapped pages reaches into this one from those before
			at = max(at, live[k-1].addr+live[k-1].size)
		}
		for ; k < len(live) && live[k].addr < end; k++ {
			if a, ok := try(at, live[k].addr); ok && live[k].addr > at {
				return a, true
			}
			at = max(at, live[k].addr+live[k].size)
		}
		if a, ok := try(at, end); ok && at < end {
			return a, true
		}
	}
	return 0, false
}
