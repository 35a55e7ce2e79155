package fuzz

import (
	"math/bits"

	"github.com/gpubench/gpubench/trace"
)

// edgeBits is log2 of the number of edges that are told apart. Strategies of ours show a few thousand; with 2^16 places few of them
// share one (as AFL's map).
const edgeBits = 16

// Edges is the set of edges between abstract states that were seen. No code coverage crosses a process; what a program did to an
// allocator shows in its outcomes.
type Edges struct {
	set [1 << edgeBits / 64]uint64
	n   int
}

// Len returns the number of edges.
func (e *Edges) Len() int { return e.n }

// Add adds an edge and reports whether it is new.
func (e *Edges) Add(edge uint16) bool {
	w, b := &e.set[edge/64], uint64(1)<<(edge%64)
	if *w&b != 0 {
		return false
	}
	*w |= b
	e.n++
	return true
}

// Has reports whether an edge was seen.
func (e *Edges) Has(edge uint16) bool { return e.set[edge/64]>>(edge%64)&1 != 0 }

// Merge adds all edges of o.
func (e *Edges) Merge(o *Edges) {
	e.n = 0
	for i := range e.set {
		e.set[i] |= o.set[i]
		e.n += bits.OnesCount64(e.set[i])
	}
}

// walk follows the abstract state through a program. The state after an event is: what the event was and how it ended, how large, how
// much was rounded up, how the address lies to the one before and to the one freed last, how many blocks are live, how many device
// calls it took, and what the strategy says itself (Outcome.Feature).
type walk struct {
	prev, lastAddr, lastFreed uint64
	live                      int
	addrs                     []uint64 // by slot
}

func (w *walk) begin(slots int) {
	*w = walk{addrs: w.addrs}
	if cap(w.addrs) < slots {
		w.addrs = make([]uint64, slots)
	}
	w.addrs = w.addrs[:slots]
	clear(w.addrs)
}

// step returns the edge to the state after an event.
func (w *walk) step(ev *trace.Event, o *trace.Outcome) uint16 {
	s := uint64(ev.Kind) | uint64(o.Status)<<8
	switch ev.Kind {
	case trace.KindAlloc, trace.KindRealloc:
		s |= uint64(bits.Len64(ev.Size)/5) << 16
		if o.Status.Placed() {
			w.live++
			w.addrs[ev.Slot] = o.Addr
			s |= relation(o.Addr, w.lastAddr)<<24 | relation(o.Addr, w.lastFreed)<<26 | uint64(bits.Len64(o.Granted-ev.Size)/8)<<28
			w.lastAddr = o.Addr
		}
	case trace.KindFree:
		if o.Status.Placed() {
			w.live = max(w.live-1, 0)
			a := w.addrs[ev.Slot]
			s |= relation(a, w.lastAddr)<<24 | relation(a, w.lastFreed)<<26
			w.lastFreed = a
		}
	}
	s |= uint64(bits.Len(uint(w.live)))<<36 | uint64(min(o.Calls, 3))<<40
	s ^= uint64(o.Feature) << 44
	// Fibonacci hashing: the state's bits reach the top ones. Of the state before, only what it was and how it ended counts:
	// with more, the edges of a few thousand programs fill the set.
	edge := ((s ^ w.prev<<48) * 0x9E3779B97F4A7C15) >> (64 - edgeBits)
	w.prev = uint64(ev.Kind) | uint64(o.Status)<<8
	return uint16(edge)
}

// relation says how an address lies to another: the same, below, above.
func relation(a, b uint64) uint64 {
	switch {
	case a == b:
		return 0
	case a < b:
		return 1
	}
	return 2
}
