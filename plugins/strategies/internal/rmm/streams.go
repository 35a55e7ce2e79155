package rmm

import "github.com/gpubench/gpubench/backends"

// UnitBytes is what sizes are rounded up to (CUDA_ALLOCATION_ALIGNMENT).
const UnitBytes = 256

// MaxRequestBytes bounds a request so that rounding cannot overflow.
const MaxRequestBytes = 1 << 61

// RoundUp rounds up to units.
func RoundUp(n uint64) uint64 { return (n + UnitBytes - 1) &^ (UnitBytes - 1) }

// store is what the base needs of a resource: one free list a stream.
type store interface {
	// take takes a block of size bytes out of a list and leaves the rest of it there; false when none fits.
	take(list backends.Stream, size uint64) (block uint32, ok bool)
	// merge moves all blocks of one list into another.
	merge(from, to backends.Stream)
	// expand puts memory taken anew into a list, enough for size bytes.
	expand(list backends.Stream, size uint64) bool
}

// base is the stream-ordered base.
type base struct {
	dev   backends.Streams // nil: the device has no streams
	state []streamState    // by stream
	order []backends.Stream
}

type streamState struct {
	seen   bool
	exists bool // has a free list, empty perhaps
	event  backends.EventID
}

// see makes the stream's event if it has none (get_event).
func (b *base) see(s backends.Stream) *streamState {
	for int(s) >= len(b.state) {
		b.state = append(b.state, streamState{})
	}
	st := &b.state[s]
	if !st.seen {
		st.seen = true
		b.order = append(b.order, s)
		if b.dev != nil {
			st.event = b.dev.Record(s)
		}
	}
	return st
}

// acquire is do_allocate: steps 1 to 4 of the package comment.
func (b *base) acquire(st store, s backends.Stream, size uint64) (uint32, bool) {
	own := b.see(s)
	if own.exists {
		if i, ok := st.take(s, size); ok {
			return i, true
		}
	}
	own.exists = true
	for _, other := range b.order {
		if o := &b.state[other]; other != s && o.exists {
			if i, ok := st.take(other, size); ok {
				b.wait(s, o)
				return i, true
			}
		}
	}
	for _, other := range b.order {
		if o := &b.state[other]; other != s && o.exists {
			b.wait(s, o)
			st.merge(other, s)
			o.exists = false
			if i, ok := st.take(s, size); ok {
				return i, true
			}
		}
	}
	if !st.expand(s, size) {
		return 0, false
	}
	return st.take(s, size)
}

func (b *base) wait(s backends.Stream, o *streamState) {
	if b.dev != nil {
		b.dev.StreamWait(s, o.event)
	}
}

// released notes that a block was freed on the stream (do_deallocate): the event is recorded behind all work so far.
func (b *base) released(s backends.Stream) {
	st := b.see(s)
	st.exists = true
	if b.dev != nil {
		b.dev.Drop(st.event)
		st.event = b.dev.Record(s)
	}
}

// reset drops the events and forgets the streams.
func (b *base) reset() {
	for i := range b.state {
		if b.dev != nil && b.state[i].seen {
			b.dev.Drop(b.state[i].event)
		}
	}
	b.state, b.order = b.state[:0], b.order[:0]
}
