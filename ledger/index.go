package ledger

import "math/bits"

// leafCap is the number of entries of one leaf. 128 entries keep the move at an insertion to 1.5 KiB at most and the
// directory small: 50,000 blocks need 400 to 800 leaves, whose first addresses fit the first-level cache.
const leafCap = 128

// index maps addresses to ids, in address order, for any number of entries with equal addresses. It is a directory of
// sorted leaves: directory and leaf are searched by bisection, neighbours are found in constant time, and where[id]
// remembers the leaf of an entry, so that a removal needs no search of the directory.
type index struct {
	first  []uint64 // address of the first entry of each leaf, in order: the directory
	order  []uint32 // leaf of each directory entry
	leaves []leaf
	spare  []uint32 // unused leaves
	where  []uint32 // leaf of each id
	n      int
}

type leaf struct {
	n    int
	pos  int // place in the directory
	addr [leafCap]uint64
	id   [leafCap]uint32
}

// cursor is a place in the index; leaf < 0 is none.
type cursor struct{ dir, i int }

var noCursor = cursor{-1, 0}

func (x *index) reset() {
	for _, l := range x.order {
		x.leaves[l].n = 0
		x.spare = append(x.spare, l)
	}
	x.first, x.order, x.n = x.first[:0], x.order[:0], 0
}

// upper returns the number of elements of a sorted slice that are at most v. The comparisons are as good as random, so there is no branch
// on them: the borrow of v − a[i] becomes a number. Each step asks at three places at once and keeps a quarter: the three
// loads do not wait for each other, so 128 elements cost four waits instead of seven.
func upper(a []uint64, v uint64) int {
	lo, n := 0, len(a)
	for n > 3 {
		q := n >> 2
		w := a[lo : lo+n]
		_, above1 := bits.Sub64(v, w[q-1], 0)
		_, above2 := bits.Sub64(v, w[2*q-1], 0)
		_, above3 := bits.Sub64(v, w[3*q-1], 0)
		lo += q * (3 - int(above1+above2+above3))
		n -= 3 * q // what is left of the slice when all three were passed; never less than a quarter
	}
	passed := 0
	for _, x := range a[lo : lo+n] {
		_, above := bits.Sub64(v, x, 0)
		passed += 1 - int(above)
	}
	return lo + passed
}

// floor returns the last entry whose address is at most addr.
func (x *index) floor(addr uint64) cursor {
	d := upper(x.first, addr) - 1
	if d < 0 {
		return noCursor
	}
	l := &x.leaves[x.order[d]]
	return cursor{d, upper(l.addr[:l.n], addr) - 1}
}

// below returns the last entry whose address is less than addr.
func (x *index) below(addr uint64) cursor {
	if addr == 0 {
		return noCursor
	}
	return x.floor(addr - 1)
}

// id returns the id at c.
func (x *index) id(c cursor) uint32 { return x.leaves[x.order[c.dir]].id[c.i] }

// next returns the entry after c; after none comes the first.
func (x *index) next(c cursor) cursor {
	if c.dir < 0 {
		if len(x.order) == 0 {
			return noCursor
		}
		return cursor{0, 0}
	}
	if c.i+1 < x.leaves[x.order[c.dir]].n {
		return cursor{c.dir, c.i + 1}
	}
	if c.dir+1 < len(x.order) {
		return cursor{c.dir + 1, 0}
	}
	return noCursor
}

// prev returns the entry before c.
func (x *index) prev(c cursor) cursor {
	if c.i > 0 {
		return cursor{c.dir, c.i - 1}
	}
	if c.dir > 0 {
		return cursor{c.dir - 1, x.leaves[x.order[c.dir-1]].n - 1}
	}
	return noCursor
}

// find returns the place of id, whose address is addr.
func (x *index) find(addr uint64, id uint32) cursor {
	w := x.where[id]
	l := &x.leaves[w]
	i := upper(l.addr[:l.n], addr) - 1
	for l.id[i] != id {
		i--
	}
	return cursor{l.pos, i}
}

// insertAfter puts an entry behind c, which must be the place floor or below gave for its address.
func (x *index) insertAfter(c cursor, addr uint64, id uint32) {
	for int(id) >= len(x.where) {
		x.where = append(x.where, 0)
	}
	x.n++
	if len(x.order) == 0 {
		x.addLeaf(0, addr)
	}
	d, i := c.dir, c.i+1
	if d < 0 {
		d, i = 0, 0
	}
	l := &x.leaves[x.order[d]]
	if l.n == leafCap {
		x.split(d)
		l = &x.leaves[x.order[d]]
		if i > l.n {
			i -= l.n
			d++
			l = &x.leaves[x.order[d]]
		}
	}
	copy(l.addr[i+1:l.n+1], l.addr[i:l.n])
	copy(l.id[i+1:l.n+1], l.id[i:l.n])
	l.addr[i], l.id[i] = addr, id
	l.n++
	x.where[id] = x.order[d]
	if i == 0 {
		x.first[d] = addr
	}
}

// addLeaf puts an empty leaf at place d of the directory.
func (x *index) addLeaf(d int, first uint64) {
	var w uint32
	if k := len(x.spare); k > 0 {
		w = x.spare[k-1]
		x.spare = x.spare[:k-1]
	} else {
		w = uint32(len(x.leaves))
		x.leaves = append(x.leaves, leaf{})
	}
	x.leaves[w].n = 0
	x.first = append(x.first, 0)
	x.order = append(x.order, 0)
	copy(x.first[d+1:], x.first[d:])
	copy(x.order[d+1:], x.order[d:])
	x.first[d], x.order[d] = first, w
	x.renumber(d)
}

func (x *index) renumber(from int) {
	for d := from; d < len(x.order); d++ {
		x.leaves[x.order[d]].pos = d
	}
}

// split moves the upper half of leaf d into a new leaf behind it.
func (x *index) split(d int) {
	const half = leafCap / 2
	x.addLeaf(d+1, x.leaves[x.order[d]].addr[half])
	w := x.order[d+1]
	from, to := &x.leaves[x.order[d]], &x.leaves[w]
	to.n = copy(to.addr[:], from.addr[half:from.n])
	copy(to.id[:], from.id[half:from.n])
	from.n = half
	for _, id := range to.id[:to.n] {
		x.where[id] = w
	}
}

// remove takes out the entry at c. A leaf that becomes empty is given up; one that is less than a quarter full joins a
// neighbour where both together fill at most half of a leaf, so the number of leaves stays bounded by the entries.
func (x *index) remove(c cursor) {
	l := &x.leaves[x.order[c.dir]]
	copy(l.addr[c.i:l.n-1], l.addr[c.i+1:l.n])
	copy(l.id[c.i:l.n-1], l.id[c.i+1:l.n])
	l.n--
	x.n--
	if l.n == 0 {
		x.dropLeaf(c.dir)
		return
	}
	if c.i == 0 {
		x.first[c.dir] = l.addr[0]
	}
	if l.n >= leafCap/4 {
		return
	}
	if c.dir+1 < len(x.order) && l.n+x.leaves[x.order[c.dir+1]].n <= leafCap/2 {
		x.join(c.dir)
	} else if c.dir > 0 && l.n+x.leaves[x.order[c.dir-1]].n <= leafCap/2 {
		x.join(c.dir - 1)
	}
}

// join appends leaf d+1 to leaf d.
func (x *index) join(d int) {
	w := x.order[d]
	to, from := &x.leaves[w], &x.leaves[x.order[d+1]]
	for _, id := range from.id[:from.n] {
		x.where[id] = w
	}
	copy(to.addr[to.n:], from.addr[:from.n])
	copy(to.id[to.n:], from.id[:from.n])
	to.n += from.n
	x.dropLeaf(d + 1)
}

func (x *index) dropLeaf(d int) {
	x.leaves[x.order[d]].n = 0
	x.spare = append(x.spare, x.order[d])
	x.first = append(x.first[:d], x.first[d+1:]...)
	x.order = append(x.order[:d], x.order[d+1:]...)
	x.renumber(d)
}
