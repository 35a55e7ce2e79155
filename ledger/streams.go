package ledger

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// maxGhosts bounds the freed ranges whose uses are still watched. A program has some hundreds of events; a recording with
// manual events that never completes anything would otherwise grow the shadow without bound. What is dropped is counted
// (Exact.StreamsUnchecked).
const maxGhosts = 1 << 16

// shadow is our own record of what streams may still be doing to memory (check O7). Moments are numbers of events. Work
// "issued so far" on a stream at moment m is complete once completed[stream] ≥ m; stream a is ordered behind it once
// order[a] says m or more for that stream. While events are immediate everything completes at once and nothing is kept.
type shadow struct {
	manual     bool
	completed  []uint64   // by stream
	all        uint64     // every stream is complete up to here
	order      [][]moment // by stream: what its future work runs behind, transitively closed
	events     map[uint64]eventRec
	ghosts     ranges[ghost]
	uses       []useNode
	spareUse   uint32
	prunedAt   int
	lostEvents bool // an event was not recorded for lack of room
	unchecked  uint64
	pending    uint64 // bytes of ghosts not known to be complete
}

// moment is "everything issued to stream up to seq".
type moment struct {
	seq    uint64
	stream uint16
}

type eventRec struct {
	at     moment
	behind []moment
}

// ghost is a freed range. The owner's own work is behind it on the stream it was allocated on or, where the program freed
// it on another stream, on that one (the program ordered the two): either of own and freer suffices.
type ghost struct {
	own, freer moment
	uses       uint32
	handle     trace.Handle
}

type useNode struct {
	m    moment
	next uint32
}

func (s *shadow) reset() {
	s.manual, s.all, s.unchecked, s.pending = false, 0, 0, 0
	clear(s.completed)
	for i := range s.order {
		s.order[i] = s.order[i][:0]
	}
	if len(s.events) > 0 {
		clear(s.events)
	}
	s.ghosts.reset()
	s.uses, s.spareUse, s.prunedAt, s.lostEvents = s.uses[:0], noItem, 0, false
}

// clearGhosts drops all ghosts. The use lists of live blocks stay.
func (s *shadow) clearGhosts() {
	for c := s.ghosts.idx.next(noCursor); c.dir >= 0; c = s.ghosts.idx.next(c) {
		s.dropUses(s.ghosts.recs[s.ghosts.idx.id(c)].val.uses)
	}
	s.ghosts.reset()
	s.prunedAt, s.pending = 0, 0
}

// setManual switches between manual and immediate events. Immediate completes all there is.
func (s *shadow) setManual(manual bool, now uint64) {
	if !manual {
		s.completeAll(now)
	}
	s.manual = manual
}

func (s *shadow) done(m moment) bool {
	return s.all >= m.seq || int(m.stream) < len(s.completed) && s.completed[m.stream] >= m.seq
}

// behind reports whether the future work of stream runs behind m, or m is complete.
func (s *shadow) behind(stream uint16, m moment) bool {
	if m.stream == stream || s.done(m) {
		return true
	}
	if int(stream) < len(s.order) {
		for _, o := range s.order[stream] {
			if o.stream == m.stream {
				return o.seq >= m.seq
			}
		}
	}
	return false
}

func (s *shadow) safe(stream uint16, g *ghost) bool {
	if !s.behind(stream, g.own) && !s.behind(stream, g.freer) {
		return false
	}
	for u := g.uses; u != noItem; u = s.uses[u].next {
		if !s.behind(stream, s.uses[u].m) {
			return false
		}
	}
	return true
}

func (s *shadow) finished(g *ghost) bool {
	if !s.done(g.own) && !s.done(g.freer) {
		return false
	}
	for u := g.uses; u != noItem; u = s.uses[u].next {
		if !s.done(s.uses[u].m) {
			return false
		}
	}
	return true
}

// use adds a use to a list, or moves the one of its stream forward.
func (s *shadow) use(list uint32, m moment) uint32 {
	for u := list; u != noItem; u = s.uses[u].next {
		if s.uses[u].m.stream == m.stream {
			s.uses[u].m.seq = max(s.uses[u].m.seq, m.seq)
			return list
		}
	}
	n := useNode{m, list}
	if s.spareUse != noItem {
		u := s.spareUse
		s.spareUse = s.uses[u].next
		s.uses[u] = n
		return u
	}
	s.uses = append(s.uses, n)
	return uint32(len(s.uses) - 1)
}

func (s *shadow) dropUses(list uint32) {
	for list != noItem {
		next := s.uses[list].next
		s.uses[list].next = s.spareUse
		s.spareUse = list
		list = next
	}
}

func (s *shadow) copyUses(list uint32) uint32 {
	out := noItem
	for ; list != noItem; list = s.uses[list].next {
		out = s.use(out, s.uses[list].m)
	}
	return out
}

// freed remembers the uses of a range that the program gave up; it takes the use list over.
func (s *shadow) freed(addr, size uint64, g ghost) {
	if s.finished(&g) {
		s.dropUses(g.uses)
		return
	}
	s.forget(addr, size)
	if s.ghosts.len() >= maxGhosts {
		s.prune()
		if s.ghosts.len() >= maxGhosts {
			s.unchecked++
			s.dropUses(g.uses)
			return
		}
	}
	s.pending += size
	s.ghosts.add(addr, size, g)
	if s.ghosts.len() > 2*s.prunedAt+64 {
		s.prune()
	}
}

// prune drops what is complete. It runs when the number of ghosts has doubled, so its cost is constant per free.
func (s *shadow) prune() {
	for c := s.ghosts.idx.next(noCursor); c.dir >= 0; {
		id := s.ghosts.idx.id(c)
		r := &s.ghosts.recs[id]
		if !s.finished(&r.val) {
			c = s.ghosts.idx.next(c)
			continue
		}
		after := r.addr
		s.dropGhost(id)
		c = s.ghosts.idx.next(s.ghosts.idx.floor(after))
	}
	s.prunedAt = s.ghosts.len()
}

func (s *shadow) dropGhost(id uint32) {
	r := &s.ghosts.recs[id]
	s.pending -= r.size
	s.dropUses(r.val.uses)
	s.ghosts.remove(id)
}

// hazard returns a ghost in the range that is not safe for stream, or nil.
func (s *shadow) hazard(addr, size uint64, stream uint16) *rangeRec[ghost] {
	for size > 0 {
		id := s.ghosts.first(addr, size)
		if id == noItem {
			return nil
		}
		r := &s.ghosts.recs[id]
		if !s.safe(stream, &r.val) {
			return r
		}
		end := r.addr + r.size
		if end-addr >= size {
			return nil
		}
		size -= end - addr
		addr = end
	}
	return nil
}

// forget drops the ghosts in a range; parts outside it stay.
func (s *shadow) forget(addr, size uint64) {
	end := addr + size
	for {
		id := s.ghosts.first(addr, size)
		if id == noItem {
			return
		}
		r := s.ghosts.recs[id]
		g := r.val
		g.uses = s.copyUses(r.val.uses)
		s.dropGhost(id)
		if rEnd := r.addr + r.size; rEnd > end {
			rest := g
			rest.uses = s.copyUses(g.uses)
			s.ghosts.add(end, rEnd-end, rest)
			s.pending += rEnd - end
		}
		if r.addr < addr {
			s.ghosts.add(r.addr, addr-r.addr, g)
			s.pending += addr - r.addr
		} else {
			s.dropUses(g.uses)
		}
	}
}

// complete says that all work issued to stream so far is complete, and with it what that work ran behind.
func (s *shadow) complete(stream uint16, now uint64) {
	s.completeMoment(moment{now, stream})
	if int(stream) < len(s.order) {
		for _, m := range s.order[stream] {
			s.completeMoment(m)
		}
	}
}

func (s *shadow) completeAll(now uint64) {
	s.all = now
	s.clearGhosts()
	clear(s.events)
}

func (s *shadow) completeMoment(m moment) {
	for int(m.stream) >= len(s.completed) {
		s.completed = append(s.completed, 0)
	}
	s.completed[m.stream] = max(s.completed[m.stream], m.seq)
}

// wait puts the future work of stream behind m and what m ran behind.
func (s *shadow) wait(stream uint16, m moment, behind []moment) {
	for int(stream) >= len(s.order) {
		s.order = append(s.order, nil)
	}
	s.order[stream] = raise(s.order[stream], m)
	for _, b := range behind {
		if b.stream != stream {
			s.order[stream] = raise(s.order[stream], b)
		}
	}
}

func raise(list []moment, m moment) []moment {
	for i := range list {
		if list[i].stream == m.stream {
			list[i].seq = max(list[i].seq, m.seq)
			return list
		}
	}
	return append(list, m)
}

func (s *shadow) behindOf(stream uint16) []moment {
	if int(stream) < len(s.order) {
		return s.order[stream]
	}
	return nil
}

// record notes an event of the device behind all work issued to stream so far.
func (s *shadow) record(event uint64, stream uint16, now uint64) {
	if s.events == nil {
		s.events = map[uint64]eventRec{}
	}
	if len(s.events) >= maxGhosts {
		for k, e := range s.events {
			if s.done(e.at) {
				delete(s.events, k)
			}
		}
	}
	if len(s.events) < maxGhosts {
		s.events[event] = eventRec{moment{now, stream}, append([]moment(nil), s.behindOf(stream)...)}
	} else {
		s.lostEvents = true
	}
}

// hostSaw says that the host saw an event complete. Of an event that found no room the most lenient thing is believed.
func (s *shadow) hostSaw(event, now uint64) {
	if e, ok := s.events[event]; ok {
		s.completeMoment(e.at)
		for _, m := range e.behind {
			s.completeMoment(m)
		}
		delete(s.events, event)
	} else if s.lostEvents {
		s.completeAll(now)
	}
}

// streamWaits says that the future work of stream runs behind an event.
func (s *shadow) streamWaits(stream uint16, event uint64) {
	if e, ok := s.events[event]; ok {
		s.wait(stream, e.at, e.behind)
	}
}

// describe names the first use of a ghost that is not safe for stream.
func (s *shadow) describe(stream uint16, g *ghost) string {
	for u := g.uses; u != noItem; u = s.uses[u].next {
		if m := s.uses[u].m; !s.behind(stream, m) {
			return fmt.Sprintf("use of h%d on stream index %d", g.handle, m.stream)
		}
	}
	return fmt.Sprintf("work on h%d on its own stream index %d", g.handle, g.own.stream)
}
