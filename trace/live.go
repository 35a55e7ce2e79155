package trace

import "math/bits"

// liveEntry is what a builder knows of a live handle.
type liveEntry struct {
	handle Handle // 0 = empty
	slot   uint32
	stream uint16 // the stream that allocated it
	pool   uint16
}

// liveTable maps live handles to their entries: open addressing with linear probing and deletion by shifting back, so
// that it holds no tombstones however long the trace runs. Load stays at or below one half.
type liveTable struct {
	entries []liveEntry // power of two
	shift   uint8       // 64 - log2(len(entries))
	count   int
}

const liveTableMin = 64

func (t *liveTable) home(h Handle) int {
	return int(uint64(h) * 0x9E3779B97F4A7C15 >> t.shift) // Fibonacci hashing: 2^64 / golden ratio
}

// get returns the entry of h, nil when h is not live. The pointer is valid until the next put or del.
func (t *liveTable) get(h Handle) *liveEntry {
	if t.count == 0 {
		return nil
	}
	mask := len(t.entries) - 1
	for i := t.home(h); ; i = (i + 1) & mask {
		e := &t.entries[i]
		if e.handle == h {
			return e
		}
		if e.handle == 0 {
			return nil
		}
	}
}

// put adds an entry whose handle is not in the table.
func (t *liveTable) put(e liveEntry) {
	if 2*(t.count+1) > len(t.entries) {
		t.grow()
	}
	mask := len(t.entries) - 1
	i := t.home(e.handle)
	for t.entries[i].handle != 0 {
		i = (i + 1) & mask
	}
	t.entries[i] = e
	t.count++
}

func (t *liveTable) grow() {
	old := t.entries
	n := max(2*len(old), liveTableMin)
	t.entries = make([]liveEntry, n)
	t.shift = uint8(64 - bits.Len(uint(n)-1))
	t.count = 0
	for _, e := range old {
		if e.handle != 0 {
			t.put(e)
		}
	}
}

// del removes the entry that get returned.
func (t *liveTable) del(e *liveEntry) {
	mask := len(t.entries) - 1
	hole := t.home(e.handle)
	for t.entries[hole].handle != e.handle {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.entries[i].handle != 0; i = (i + 1) & mask {
		// An entry may move back into the hole unless its home lies cyclically in (hole, i].
		if (i-t.home(t.entries[i].handle))&mask >= (i-hole)&mask {
			t.entries[hole] = t.entries[i]
			hole = i
		}
	}
	t.entries[hole] = liveEntry{}
	t.count--
}

func (t *liveTable) clone() liveTable {
	c := *t
	c.entries = append([]liveEntry(nil), t.entries...)
	return c
}

// each calls f for every live handle, in no particular order.
func (t *liveTable) each(f func(liveEntry)) {
	for _, e := range t.entries {
		if e.handle != 0 {
			f(e)
		}
	}
}

// usedSet remembers which handles have ever named an object. Handles that arrive as 1, 2, 3, … cost nothing; any other
// order costs one bit each in pages of 512.
type usedSet struct {
	dense Handle // every handle up to this one is used
	pages map[Handle]*[8]uint64
	last  *[8]uint64 // the page looked at last
	lastN Handle
}

func (u *usedSet) page(h Handle, make_ bool) *[8]uint64 {
	n := h >> 9
	if u.last != nil && u.lastN == n {
		return u.last
	}
	p := u.pages[n]
	if p == nil && make_ {
		if u.pages == nil {
			u.pages = make(map[Handle]*[8]uint64)
		}
		p = new([8]uint64)
		u.pages[n] = p
	}
	if p != nil {
		u.last, u.lastN = p, n
	}
	return p
}

// has reports whether h was added.
func (u *usedSet) has(h Handle) bool {
	if h <= u.dense {
		return true
	}
	p := u.page(h, false)
	return p != nil && p[h>>6&7]>>(h&63)&1 == 1
}

// add marks h as used.
func (u *usedSet) add(h Handle) {
	if h == u.dense+1 {
		u.dense = h
		return
	}
	if h > u.dense {
		u.page(h, true)[h>>6&7] |= 1 << (h & 63)
	}
}
