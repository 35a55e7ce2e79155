package trace

import (
	"math"
	"math/bits"
)

// walk follows what is live in a valid trace, by slots: the books behind Stats and Cut.
type walk struct {
	t           *Trace
	size        []uint64 // requested bytes of the block in each slot
	born        []uint64 // 1 + event that made it; 0 = nothing live; bornStart = of the start state
	stream      []uint16
	pool        []uint16
	bytes       uint64 // live, modulo 2^64
	over        int    // how often that wrapped
	handles     uint64
	streamBytes []uint64
	poolBytes   []uint64
	startStream []uint64 // the same at the start
	startPool   []uint64
	saved       map[uint32][]savedBlock
}

const bornStart = 1<<64 - 1

type savedBlock struct {
	slot         uint32
	stream, pool uint16
	size, born   uint64
}

func newWalk(t *Trace) *walk {
	w := &walk{t: t, size: make([]uint64, t.Slots), born: make([]uint64, t.Slots), stream: make([]uint16, t.Slots), pool: make([]uint16, t.Slots),
		streamBytes: make([]uint64, len(t.Streams)), poolBytes: make([]uint64, len(t.Pools))}
	if t.Start != nil {
		for i := range t.Start.Segments {
			seg := &t.Start.Segments[i]
			for j := range seg.Blocks {
				if b := &seg.Blocks[j]; b.Handle != 0 && !b.Pending {
					w.add(b.Slot, b.RequestedBytes, bornStart, seg.Stream, seg.Pool)
				}
			}
		}
	}
	w.startStream = append([]uint64(nil), w.streamBytes...)
	w.startPool = append([]uint64(nil), w.poolBytes...)
	return w
}

func (w *walk) add(slot uint32, size, born uint64, stream, pool uint16) {
	w.size[slot], w.born[slot], w.stream[slot], w.pool[slot] = size, born, stream, pool
	sum, carry := bits.Add64(w.bytes, size, 0)
	w.bytes = sum
	w.over += int(carry)
	w.handles++
	w.streamBytes[stream] += size
	w.poolBytes[pool] += size
}

func (w *walk) drop(slot uint32) {
	if w.born[slot] == 0 {
		return
	}
	diff, borrow := bits.Sub64(w.bytes, w.size[slot], 0)
	w.bytes = diff
	w.over -= int(borrow)
	w.handles--
	w.streamBytes[w.stream[slot]] -= w.size[slot]
	w.poolBytes[w.pool[slot]] -= w.size[slot]
	w.born[slot] = 0
}

// live returns the live bytes, at most 2^64−1: a request near 2^64 in a program may push the sum past that.
func (w *walk) live() uint64 {
	if w.over > 0 {
		return math.MaxUint64
	}
	return w.bytes
}

// failed reports whether the recording saw the request of event i fail.
func (t *Trace) failed(i uint64) bool {
	return len(t.Recorded) > 0 && t.Recorded[i].Seen != 0 && t.Recorded[i].Status == StatusFailed
}

// step takes event i. freed, if not nil, is called for a block whose request and free both lie in the trace.
func (w *walk) step(i uint64, freed func(born, size uint64)) {
	ev := &w.t.Events[i]
	switch ev.Kind {
	case KindAlloc:
		if !w.t.failed(i) {
			w.add(ev.Slot, ev.Size, i+1, ev.Stream, ev.Pool)
		}
	case KindRealloc:
		w.drop(w.t.Extras[ev.Aux].Slot2) // also when it failed: no handle names the old block any longer
		if !w.t.failed(i) {
			w.add(ev.Slot, ev.Size, i+1, ev.Stream, ev.Pool)
		}
	case KindFree:
		if b := w.born[ev.Slot]; freed != nil && b != 0 && b != bornStart {
			freed(b-1, w.size[ev.Slot])
		}
		w.drop(ev.Slot)
	case KindReset:
		for slot := range w.born {
			w.drop(uint32(slot))
		}
	case KindCheckpoint:
		w.save(ev.Aux)
	case KindRestore:
		for slot := range w.born {
			w.drop(uint32(slot))
		}
		for _, b := range w.saved[ev.Aux] {
			w.add(b.slot, b.size, b.born, b.stream, b.pool)
		}
	}
}

func (w *walk) save(name uint32) {
	if w.saved == nil {
		w.saved = make(map[uint32][]savedBlock)
	}
	list := w.saved[name][:0]
	for slot, born := range w.born {
		if born != 0 {
			list = append(list, savedBlock{uint32(slot), w.stream[slot], w.pool[slot], w.size[slot], born})
		}
	}
	w.saved[name] = list
}
