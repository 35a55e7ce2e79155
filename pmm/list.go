package pmm

// listID names a list; a node is on at most one.
type listID uint8

const (
	noList   listID = 0
	freeBase listID = 1
	// One free list for each type, size and zero mark.
	evictBase = freeBase + listID(types)*SizesMax*2
	lazyList  = evictBase + listID(marks)
	listsMax  = lazyList + 1
)

// list is a FIFO: taken at the head, appended at the tail.
type list struct {
	head, tail int32
	n          int32
}

// freeListID returns the list of a type, size index and zero mark.
func freeListID(t Type, size uint8, zero bool) listID {
	id := freeBase + (listID(t)*SizesMax+listID(size))*2
	if zero {
		id++
	}
	return id
}

// unlink takes n off its list, if it is on one.
func (m *Model) unlink(n int32) {
	c := &m.nodes[n]
	if c.list == noList {
		return
	}
	l := &m.lists[c.list]
	if c.prev != 0 {
		m.nodes[c.prev].next = c.next
	} else {
		l.head = c.next
	}
	if c.next != 0 {
		m.nodes[c.next].prev = c.prev
	} else {
		l.tail = c.prev
	}
	l.n--
	c.next, c.prev, c.list = 0, 0, noList
}

// moveTail appends n to list id, taking it off the list it was on.
func (m *Model) moveTail(n int32, id listID) {
	m.unlink(n)
	c := &m.nodes[n]
	l := &m.lists[id]
	c.list = id
	c.prev = l.tail
	if l.tail != 0 {
		m.nodes[l.tail].next = n
	} else {
		l.head = n
	}
	l.tail = n
	l.n++
}

// rootPinned reports whether a root is pinned: itself, or a leaf below it.
func (m *Model) rootPinned(r *node) bool {
	return r.state == TempPinned || (r.state == Split && r.pinned > 0)
}

// updateLists is the only rule that moves chunks between lists (chunk_update_lists_locked): a user root that is pinned
// leaves its list, any other that is not FREE goes to the tail of USED; then the chunk itself goes to the tail of its free
// list when FREE, or off its list when pinned.
func (m *Model) updateLists(n int32) {
	c := &m.nodes[n]
	if c.typ == User {
		rn := rootOf(c.addr)
		r := &m.nodes[rn]
		if m.rootPinned(r) {
			m.unlink(rn)
		} else if r.state != Free {
			m.moveTail(rn, evictBase+listID(Used))
		}
	}
	switch c.state {
	case Free:
		m.moveTail(n, freeListID(c.typ, m.sizes[c.typ].index[c.log2], c.zero))
	case TempPinned:
		m.unlink(n)
	}
}
