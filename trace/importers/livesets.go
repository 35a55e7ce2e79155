package importers

import (
	"math"
	"sort"

	"github.com/gpubench/gpubench/internal/addrmap"
)

// initialBlock is a block that was live when the recording began.
type initialBlock struct {
	addr      uint64
	requested uint64
	bytes     uint64 // exact size where the final state shows it; 0 = it died during the recording
	stream    uint16
	pending   bool // its free was requested before the recording began
	lost      bool // it overlaps another block: nothing can be said of it
}

// liveSets is what one forward walk over the entries finds out: the blocks live at the start, the counts, the peak, and
// whether entries and final state agree.
//
// The walk is reversible: when it meets no contradiction and ends exactly in the live blocks of the final state, walking the
// same entries backwards from the final state gives the same blocks at the start. So the cross-check of both directions is
// the comparison at the end of this one.
type liveSets struct {
	initials []initialBlock
	findings *findings
	facts    Facts
	deferred int  // frees whose completion came later: other streams used the block
	requests bool // the file has free_requested entries at all
	hasState bool // the file has a final state, or segment entries that lead to an empty one

	live      addrmap.Map // address -> liveDead, liveBorn (+1: free requested), liveInitial + 2·index (+1)
	bornLive  int         // blocks born in the recording and live now
	aliveInit int         // blocks of the start still live, less all of them (0 or below)
	bytes     int64       // requested bytes live now, less those of the start
	peak      int64
	peakBorn  int
	peakInit  int
}

const (
	liveDead    = 1
	liveBorn    = 2
	liveInitial = 4
	liveAsked   = 1 // added: the free was requested
)

func walk(r *run, final []segment, f *findings) *liveSets {
	s := &liveSets{findings: f, hasState: len(final) > 0}
	for i := range r.n {
		act := r.at(i).act
		s.requests = s.requests || act == actFreeRequested
		s.hasState = s.hasState || act >= actSegmentAlloc && act <= actSegmentUnmap
		if s.requests && s.hasState {
			break
		}
	}
	for i := range r.n {
		e := r.at(i)
		switch e.act {
		case actAlloc:
			s.alloc(i, e)
		case actFreeRequested:
			s.request(i, e, r)
		case actFreeCompleted:
			s.complete(i, e)
		case actOOM:
			s.facts.FailedAllocs++
		case actSegmentAlloc:
			s.facts.SegmentAllocs++
		case actSegmentFree:
			s.facts.SegmentFrees++
		case actSegmentMap:
			s.facts.SegmentMaps++
		case actSegmentUnmap:
			s.facts.SegmentUnmaps++
		}
	}
	s.end(final)
	return s
}

// events estimates how many events the entries become: a late free has three, and something is left for trims and marks.
func (s *liveSets) events() int {
	f := &s.facts
	return int(f.Allocs+f.Frees+f.FailedAllocs) + 3*s.deferred + int(f.SegmentFrees+f.SegmentUnmaps)/2 + 64
}

func (s *liveSets) alloc(i int, e *entry) {
	s.facts.Allocs++
	if v := s.live.Get(e.addr); v > liveDead {
		s.findings.add(lostFree, "entry %d: alloc at 0x%x", i, e.addr)
		s.gone(v)
		if v&liveAsked == 0 {
			s.bytes -= int64(s.sizeOf(v, e.size()))
		}
	}
	s.live.Put(e.addr, liveBorn)
	s.bornLive++
	s.bytes += int64(e.size())
	if s.bytes > s.peak {
		s.peak, s.peakBorn, s.peakInit = s.bytes, s.bornLive, s.aliveInit
	}
}

// sizeOf returns the requested size of a live block, def where only its alloc knew it.
func (s *liveSets) sizeOf(v uint32, def uint64) uint64 {
	if v >= liveInitial {
		return s.initials[(v-liveInitial)/2].requested
	}
	return def
}

func (s *liveSets) gone(v uint32) {
	if v >= liveInitial {
		s.aliveInit--
	} else {
		s.bornLive--
	}
}

// discover notes a block of the start that the entries free.
func (s *liveSets) discover(e *entry, pending bool) uint32 {
	s.initials = append(s.initials, initialBlock{addr: e.addr, requested: e.size(), stream: e.stream, pending: pending})
	return uint32(liveInitial + 2*(len(s.initials)-1))
}

func (s *liveSets) request(i int, e *entry, r *run) {
	s.facts.Frees++
	v := s.live.Get(e.addr)
	switch {
	case v == 0:
		v = s.discover(e, false)
	case v == liveDead:
		s.findings.add(lostAlloc, "entry %d: free_requested at 0x%x", i, e.addr)
		return
	case v&liveAsked != 0:
		s.findings.add(freedTwice, "entry %d: free_requested at 0x%x", i, e.addr)
		return
	}
	if !completesAtOnce(r, i) {
		s.deferred++
	}
	s.bytes -= int64(e.size())
	s.live.Put(e.addr, v|liveAsked)
}

// completesAtOnce says whether the free requested at entry i is completed by the next entry.
func completesAtOnce(r *run, i int) bool {
	if i+1 >= r.n {
		return false
	}
	next := r.at(i + 1)
	return next.act == actFreeCompleted && next.addr == r.at(i).addr
}

func (s *liveSets) complete(i int, e *entry) {
	v := s.live.Get(e.addr)
	switch {
	case v == 0 && s.requests: // requested before the recording began
		v = s.discover(e, true) | liveAsked
		s.deferred++
	case v == 0:
		v = s.discover(e, false)
	case v == liveDead:
		s.findings.add(lostAlloc, "entry %d: free_completed at 0x%x", i, e.addr)
		return
	}
	if v&liveAsked == 0 {
		s.facts.Frees++
		s.bytes -= int64(e.size())
		if s.requests {
			s.findings.add(noRequest, "entry %d: free_completed at 0x%x", i, e.addr)
		}
	}
	s.gone(v)
	s.live.Put(e.addr, liveDead)
}

// end compares what is live after the last entry with the final state, and takes the blocks that no entry touched from it.
func (s *liveSets) end(final []segment) {
	if !s.hasState {
		final = nil
	}
	found := 0
	for i := range final {
		for j := range final[i].blocks {
			b := &final[i].blocks[j]
			if b.state != blockFree && s.endBlock(&final[i], b) {
				found++
			}
		}
	}
	total, start := 0, int64(0)
	for i := range s.initials {
		if !s.initials[i].pending {
			start += int64(s.initials[i].requested)
		}
	}
	total = len(s.initials)
	if missing := s.bornLive + s.aliveInit + total - found; missing > 0 && s.hasState {
		s.findings.addN(missing, endMissing, "%d of the %d blocks live at the end", missing, s.bornLive+s.aliveInit+total)
	}
	s.facts.LiveBytesMax = uint64(max(start+s.peak, 0))
	s.facts.LiveAtStart = total
	s.facts.LiveAtStartBytes = uint64(start)
	s.facts.CoversPercent = 100
	if all := s.peakBorn + s.peakInit + total; all > 0 && total > 0 {
		s.facts.CoversPercent = percent(s.peakBorn, all)
	}
	sort.Slice(s.initials, func(i, j int) bool { return s.initials[i].addr < s.initials[j].addr })
}

// percent is part of all in percent, to two digits; less than all is never 100.
func percent(part, all int) float64 {
	if part >= all {
		return 100
	}
	return min(99.99, math.Round(1e4*float64(part)/float64(all))/100)
}

// endBlock compares one live block of the final state; it reports whether the entries leave it live, too.
func (s *liveSets) endBlock(seg *segment, b *block) bool {
	v := s.live.Get(b.addr)
	switch {
	case v == 0: // no entry touched it: live all the time
		s.initials = append(s.initials, initialBlock{addr: b.addr, requested: b.requested, bytes: b.bytes, stream: seg.stream,
			pending: b.state == blockPending})
		return true
	case v == liveDead:
		s.findings.add(endExtra, "block 0x%x of %d bytes", b.addr, b.bytes)
		return false
	}
	if pending := v&liveAsked != 0; pending != (b.state == blockPending) {
		s.findings.add(endState, "block 0x%x", b.addr)
	}
	if v >= liveInitial {
		init := &s.initials[(v-liveInitial)/2]
		init.bytes = b.bytes
		if init.requested != b.requested {
			s.findings.add(endSize, "block 0x%x: %d bytes requested, %d freed", b.addr, b.requested, init.requested)
		}
	}
	return true
}
