package trace

import "slices"

// Reserve makes room for that many more events, so that a builder in memory neither copies what it has while it grows nor
// keeps room it does not need. timed and seen say that the columns of At and of Saw will be used. A builder that writes a
// file needs no room and ignores the call; more events than reserved are no error.
func (b *Builder) Reserve(events int, timed, seen bool) {
	if b.file != nil || events <= 0 {
		return
	}
	b.cols.ev = slices.Grow(b.cols.ev, events)
	if timed {
		b.cols.ns = slices.Grow(b.cols.ns, events)
	}
	if seen {
		b.cols.rec = slices.Grow(b.cols.rec, events)
	}
}
