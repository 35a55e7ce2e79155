package trace

import "slices"

// columns are the records not yet flushed (into a file) or all of them (in memory).
type columns struct {
	ev  []Event
	ns  []int64
	rec []Recorded
	ex  []Extra
	seg []SegmentEvent

	timed, seen    bool   // the optional columns exist
	evOut, exOut   uint64 // records flushed before
	zeroNs, zeroRc uint64 // leading records of a column that began late, not yet written
}

func (c *columns) events() uint64 { return c.evOut + uint64(len(c.ev)) }
func (c *columns) extras() uint64 { return c.exOut + uint64(len(c.ex)) }

// push appends an event; a column begins with its first value, all before it being zero.
func (c *columns) push(ev *Event, timed bool, ns int64, seen bool, rec Recorded) {
	if timed || c.timed {
		if !c.timed {
			c.timed = true
			c.zeroNs = c.evOut
			c.ns = append(c.ns, make([]int64, len(c.ev))...)
		}
		c.ns = append(room(c.ns), ns)
	}
	if seen || c.seen {
		if !c.seen {
			c.seen = true
			c.zeroRc = c.evOut
			c.rec = append(c.rec, make([]Recorded, len(c.ev))...)
		}
		c.rec = append(room(c.rec), rec)
	}
	c.ev = append(room(c.ev), *ev)
}

// room returns s with place for one more record. It doubles, where append grows by a quarter: most of the cost of a large
// trace in memory is copying it as it grows.
func room[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return slices.Grow(s, max(len(s), 256))
}

// flushed forgets the records, which are on disk.
func (c *columns) flushed() {
	c.evOut += uint64(len(c.ev))
	c.exOut += uint64(len(c.ex))
	c.ev, c.ns, c.rec, c.ex, c.seg = c.ev[:0], c.ns[:0], c.rec[:0], c.ex[:0], c.seg[:0]
	c.zeroNs, c.zeroRc = 0, 0
}

// table interns values in order of first use.
type table[T comparable] struct {
	list  []T
	index map[T]uint32
	last  T
	lastI uint32
}

func (t *table[T]) add(v T) uint32 {
	if t.index == nil {
		t.index = make(map[T]uint32)
	}
	i := uint32(len(t.list))
	t.list = append(t.list, v)
	t.index[v] = i
	return i
}

// intern returns the index of v; fresh says that it was added now.
func (t *table[T]) intern(v T) (i uint32, fresh bool) {
	if len(t.list) > 0 && v == t.last {
		return t.lastI, false
	}
	i, ok := t.index[v]
	if !ok {
		i = t.add(v)
	}
	t.last, t.lastI = v, i
	return i, !ok
}
