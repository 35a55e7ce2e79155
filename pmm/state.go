package pmm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrState is the error of a state that does not decode.
var ErrState = errors.New("pmm: not a state of this configuration")

// ownersUsual is how many owners AppendState can rename without allocating.
const ownersUsual = 64

// AppendState appends a canonical encoding of everything that decides what the model will do: trees, lists in order, marks,
// owners, pending work in order of issue, and armed injections. Two models with the same encoding behave alike for ever. Clocks, counts and
// sequence numbers are left out, owners are renamed in order of appearance (rename, when not nil, receives the old name of
// each new one), and a scrub queue must be empty. Meant for small models: it visits every chunk.
func (m *Model) AppendState(b []byte, rename *[]Block) []byte {
	var names [ownersUsual]Block
	known := names[:0]
	for i := range m.cfg.Roots {
		b = m.appendTree(b, int32(i+1), &known)
		if n := &m.nodes[i+1]; n.state == PMAOwned {
			free, _, _ := m.frames.RootState(i)
			b = binary.LittleEndian.AppendUint32(b, free)
			continue
		}
		for g := range GPUs {
			b = binary.AppendUvarint(b, m.workRank(i, g))
		}
	}
	for id := noList + 1; id < listsMax; id++ {
		l := &m.lists[id]
		if l.n == 0 {
			continue
		}
		b = binary.AppendUvarint(append(b, byte(id)), uint64(l.n))
		for n := l.head; n != 0; n = m.nodes[n].next {
			b = binary.LittleEndian.AppendUint32(b, uint32(m.nodes[n].addr>>minLog2))
		}
	}
	b = append(b, 0)
	for _, n := range [...]int32{m.inject.pmaEvict, m.inject.pin, m.inject.kmem} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if rename != nil {
		*rename = append((*rename)[:0], known...)
	}
	return b
}

// workRank places a root's pending work on a GPU among that of all roots: 0 is none, 1 the oldest. The order matters, since
// a wait for one piece finishes all that were issued before.
func (m *Model) workRank(root, gpu int) uint64 {
	seq := m.trackers[root][gpu]
	if seq <= m.completed[gpu] {
		return 0
	}
	rank := uint64(1)
	for i := range m.trackers {
		if s := m.trackers[i][gpu]; s > m.completed[gpu] && s < seq && m.nodes[i+1].state != PMAOwned {
			rank++
		}
	}
	return rank
}

// appendTree encodes a chunk in one byte of state and marks, an owner where there is one, and its children.
func (m *Model) appendTree(b []byte, n int32, known *[]Block) []byte {
	c := &m.nodes[n]
	head := byte(c.state) | byte(c.typ)<<3
	if c.zero {
		head |= 1 << 4
	}
	head |= byte(c.flags&(flagInEviction|flagInjectSplit|flagReferenced)) << 5
	if c.state == PMAOwned {
		return append(b, byte(PMAOwned))
	}
	b = append(b, head)
	if c.state == Split {
		for i := range int32(m.children(c.typ, c.log2)) {
			b = m.appendTree(b, c.child+i, known)
		}
		return b
	}
	if c.state == Allocated && c.typ == User {
		b = binary.AppendUvarint(b, renamed(c.block, known))
	}
	return b
}

// renamed returns an owner's place in the order of appearance.
func renamed(block Block, known *[]Block) uint64 {
	for i, k := range *known {
		if k == block {
			return uint64(i)
		}
	}
	*known = append(*known, block)
	return uint64(len(*known) - 1)
}

// LoadState makes m the model that AppendState encoded, with work pending anew where some was. It allocates nothing in the
// steady state and returns what is left of b.
func (m *Model) LoadState(b []byte) ([]byte, error) {
	m.clear()
	d := decoder{b: b}
	for i := range m.cfg.Roots {
		m.loadRoot(&d, i)
	}
	for id := d.byte(); id != 0 && !d.bad; id = d.byte() {
		if listID(id) >= listsMax {
			d.bad = true
			break
		}
		for range d.uvarint() {
			if d.bad {
				break
			}
			m.loadEntry(&d, listID(id))
		}
	}
	m.inject = injections{pmaEvict: int32(d.uvarint()), pin: int32(d.uvarint()), kmem: int32(d.uvarint())}
	if d.bad {
		return nil, fmt.Errorf("%w: %d bytes", ErrState, len(b))
	}
	return d.b, nil
}

// clear gives all memory back, keeping the arena.
func (m *Model) clear() {
	m.nodes = m.nodes[:m.cfg.Roots+1]
	for i := 1; i <= m.cfg.Roots; i++ {
		m.nodes[i] = node{addr: uint64(i-1) * RootBytes, log2: rootLog2, block: NoBlock}
	}
	m.lists = [listsMax]list{}
	m.cache = [cacheLevels]int32{}
	clear(m.trackers)
	m.pinnedRoots, m.inEviction, m.now = 0, 0, 0
	m.issued, m.completed = Tracker{RootsMax + 1, RootsMax + 1}, Tracker{} // above every rank of pending work
	m.stats = Stats{}
	m.frames.Reset()
}

// decoder reads bytes and remembers when they ran out.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	if len(d.b) < 4 {
		d.bad = true
		d.b = nil
		return 0
	}
	v := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
	return v
}

func (m *Model) loadRoot(d *decoder, i int) {
	m.loadTree(d, int32(i+1))
	n := &m.nodes[i+1]
	if n.state == PMAOwned {
		m.frames.LoadRoot(i, d.uint32(), false)
		return
	}
	m.frames.LoadRoot(i, 0, n.typ == User && m.cfg.Oversubscription)
	for g := range m.trackers[i] {
		m.trackers[i][g] = min(d.uvarint(), uint64(m.cfg.Roots))
	}
	if n.flags&flagInEviction != 0 {
		m.inEviction++
	}
}

func (m *Model) loadTree(d *decoder, n int32) {
	head := d.byte()
	c := &m.nodes[n]
	c.state, c.typ, c.zero = State(head&7), Type(head>>3&1), head>>4&1 == 1
	c.flags = nodeFlags(head >> 5)
	if c.state >= states || d.bad {
		d.bad = true
		c.state = PMAOwned
		return
	}
	switch {
	case c.state == Split:
		m.loadChildren(d, n)
	case c.state == Allocated && c.typ == User:
		c.block = Block(d.uvarint() & 0x7fffffff)
	case c.state == TempPinned && c.parent == 0:
		m.pinnedRoots++
	case c.state == TempPinned:
		m.nodes[rootOf(c.addr)].pinned++
	}
	if c.state != Free && c.parent != 0 {
		m.nodes[c.parent].allocated++
	}
}

func (m *Model) loadChildren(d *decoder, n int32) {
	c := m.nodes[n]
	if m.sizes[c.typ].index[c.log2] == 0 {
		d.bad = true
		return
	}
	count := m.children(c.typ, c.log2)
	level := 0
	for 1<<level < count {
		level++
	}
	first := m.takeFamily(level)
	m.nodes[n].child = first
	for i := range int32(count) {
		m.nodes[first+i] = node{
			addr: c.addr + uint64(i)<<(c.log2-uint8(level)), parent: n, log2: c.log2 - uint8(level), block: NoBlock,
		}
	}
	for i := range int32(count) {
		m.loadTree(d, first+i)
	}
}

func (m *Model) loadEntry(d *decoder, id listID) {
	addr := uint64(d.uint32()) << minLog2
	if addr >= uint64(m.cfg.Roots)*RootBytes {
		d.bad = true
		return
	}
	n := rootOf(addr)
	if id < evictBase || id == lazyList {
		for m.nodes[n].state == Split {
			c := &m.nodes[n]
			n = c.child + int32((addr-c.addr)>>m.nodes[c.child].log2)
		}
	}
	m.moveTail(n, id)
}

// CopyFrom makes m equal to another model of the same configuration, except for audits and the Evictor. It allocates nothing
// in the steady state.
func (m *Model) CopyFrom(o *Model) {
	m.nodes = append(m.nodes[:0], o.nodes...)
	m.lists, m.cache = o.lists, o.cache
	copy(m.trackers, o.trackers)
	m.pinnedRoots, m.inEviction, m.now = o.pinnedRoots, o.inEviction, o.now
	m.issued, m.completed, m.inject = o.issued, o.completed, o.inject
	m.stats = o.stats
	m.frames.CopyFrom(o.frames)
}
