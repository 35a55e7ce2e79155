// Package addrmap is a hash table from addresses to small indexes, for the hot paths of devices and strategies that must
// find a block by its address.
//
// Structure: one power-of-two array of (key, value) pairs, linear probing, multiplicative (Fibonacci) hashing, and removal
// by shifting later entries back, so that there are no tombstones and a table under churn neither degrades nor allocates.
// It is kept at most three quarters full. Lookups, inserts and removals are O(1) expected; the array only ever grows.
//
// Weak case: keys chosen to collide under the fixed multiplier make it linear. Addresses come from our own models and from
// devices, not from an adversary.
package addrmap

// Map maps addresses to non-zero indexes. The zero Map is empty and ready.
type Map struct {
	slots []slot
	n     int
	shift uint8
}

type slot struct {
	key uint64
	val uint32 // 0 = empty
}

const (
	minSlotsLog2 = 4
	// hashMultiplier is 2^64 divided by the golden ratio, made odd (Knuth, The Art of Computer Programming, 6.4).
	hashMultiplier = 0x9E3779B97F4A7C15
)

// Len returns the number of entries.
func (m *Map) Len() int { return m.n }

// Get returns the index stored at key, or 0.
func (m *Map) Get(key uint64) uint32 {
	if m.n == 0 {
		return 0
	}
	mask := uint64(len(m.slots) - 1)
	for i := m.home(key); ; i = (i + 1) & mask {
		s := &m.slots[i]
		if s.val == 0 || s.key == key {
			return s.val
		}
	}
}

// Put stores val, which must not be 0, at key, replacing what was there.
func (m *Map) Put(key uint64, val uint32) {
	if val == 0 {
		panic("addrmap: value 0 means empty")
	}
	if 4*(m.n+1) > 3*len(m.slots) {
		m.grow()
	}
	mask := uint64(len(m.slots) - 1)
	for i := m.home(key); ; i = (i + 1) & mask {
		s := &m.slots[i]
		if s.val == 0 {
			*s = slot{key, val}
			m.n++
			return
		}
		if s.key == key {
			s.val = val
			return
		}
	}
}

// Delete removes key and returns what was stored there, or 0.
func (m *Map) Delete(key uint64) uint32 {
	if m.n == 0 {
		return 0
	}
	mask := uint64(len(m.slots) - 1)
	i := m.home(key)
	for m.slots[i].key != key || m.slots[i].val == 0 {
		if m.slots[i].val == 0 {
			return 0
		}
		i = (i + 1) & mask
	}
	val := m.slots[i].val
	m.n--
	// Close the hole: an entry further on moves back unless its home lies cyclically after the hole.
	for j := (i + 1) & mask; m.slots[j].val != 0; j = (j + 1) & mask {
		if home := m.home(m.slots[j].key); (j-home)&mask >= (j-i)&mask {
			m.slots[i] = m.slots[j]
			i = j
		}
	}
	m.slots[i] = slot{}
	return val
}

// Reset removes all entries and keeps the array.
func (m *Map) Reset() {
	clear(m.slots)
	m.n = 0
}

func (m *Map) home(key uint64) uint64 { return key * hashMultiplier >> m.shift }

func (m *Map) grow() {
	old := m.slots
	size := max(1<<minSlotsLog2, 2*len(old))
	m.slots = make([]slot, size)
	m.shift = 64
	for s := size; s > 1; s >>= 1 {
		m.shift--
	}
	m.n = 0
	for _, s := range old {
		if s.val != 0 {
			m.Put(s.key, s.val)
		}
	}
}
