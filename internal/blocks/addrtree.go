package blocks

// AddrTree is an index of blocks ordered by address; see the package comment. The zero AddrTree is empty. All calls on one
// tree take the same Table.
type AddrTree struct {
	root uint32
}

// Empty reports whether no block is in the tree.
func (a *AddrTree) Empty() bool { return a.root == None }

// Largest returns the size of the largest block in the tree, 0 when it is empty.
func (a *AddrTree) Largest(t *Table) uint64 { return t.B[a.root].Max }

// Insert adds block i, which is in no index.
func (a *AddrTree) Insert(t *Table, i uint32) {
	n := &t.B[i]
	addr, size, pri := n.Addr, n.Size, n.pri
	parent, at, left := None, a.root, false
	for at != None && t.B[at].pri >= pri {
		b := &t.B[at]
		if size > b.Max {
			b.Max = size
		}
		parent = at
		if left = addr < b.Addr; left {
			at = b.L
		} else {
			at = b.R
		}
	}
	l, r := splitByAddr(t, at, addr)
	n.L, n.R, n.P = l, r, parent
	n.Max = max(size, t.B[l].Max, t.B[r].Max)
	if l != None {
		t.B[l].P = i
	}
	if r != None {
		t.B[r].P = i
	}
	switch {
	case parent == None:
		a.root = i
	case left:
		t.B[parent].L = i
	default:
		t.B[parent].R = i
	}
}

// Remove takes block i out of the tree.
func (a *AddrTree) Remove(t *Table, i uint32) {
	n := &t.B[i]
	m := mergeMax(t, n.L, n.R)
	p := n.P
	if m != None {
		t.B[m].P = p
	}
	switch {
	case p == None:
		a.root = m
	case t.B[p].L == i:
		t.B[p].L = m
	default:
		t.B[p].R = m
	}
	n.L, n.R, n.P = None, None, None
	fixUp(t, p)
}

// Update corrects the tree after block i has changed its address or size without passing another block of the tree.
func (a *AddrTree) Update(t *Table, i uint32) { fixUp(t, i) }

// FirstFit returns the block with the lowest address among those of at least size bytes, or None.
func (a *AddrTree) FirstFit(t *Table, size uint64) uint32 { return leftmostFit(t, a.root, size) }

// FirstFitFrom returns the block with the lowest address among those of at least size bytes that start at or above from,
// or None.
func (a *AddrTree) FirstFitFrom(t *Table, from, size uint64) uint32 {
	// Descend to the split point, remembering the lowest ancestor whose own block or right subtree can serve: every
	// candidate that is remembered later has a lower address.
	best := None
	for at := a.root; at != None; {
		b := &t.B[at]
		if b.Max < size {
			break
		}
		if b.Addr < from {
			at = b.R
			continue
		}
		if b.Size >= size || t.B[b.R].Max >= size {
			best = at
		}
		at = b.L
	}
	if best == None || t.B[best].Size >= size {
		return best
	}
	return leftmostFit(t, t.B[best].R, size)
}

// WorstFit returns the lowest of the largest blocks, or None when it is smaller than size.
func (a *AddrTree) WorstFit(t *Table, size uint64) uint32 {
	if largest := t.B[a.root].Max; largest >= size && largest > 0 {
		return leftmostFit(t, a.root, largest)
	}
	return None
}

// Floor returns the last block that starts at or below addr, or None.
func (a *AddrTree) Floor(t *Table, addr uint64) uint32 {
	best := None
	for at := a.root; at != None; {
		if b := &t.B[at]; b.Addr <= addr {
			best, at = at, b.R
		} else {
			at = b.L
		}
	}
	return best
}

func leftmostFit(t *Table, at uint32, size uint64) uint32 {
	if t.B[at].Max < size {
		return None
	}
	for at != None {
		b := &t.B[at]
		switch {
		case b.L != None && t.B[b.L].Max >= size:
			at = b.L
		case b.Size >= size:
			return at
		default:
			at = b.R
		}
	}
	return None
}

// fixUp recomputes Max from at upwards and stops where nothing changes.
func fixUp(t *Table, at uint32) {
	for at != None {
		b := &t.B[at]
		m := max(b.Size, t.B[b.L].Max, t.B[b.R].Max)
		if m == b.Max {
			return
		}
		b.Max = m
		at = b.P
	}
}

// splitByAddr splits the subtree into blocks below and above addr. The parents of the two roots are the caller's to set.
// Expected depth of the recursion is constant (Seidel and Aragon 1996: fewer than two rotations an insertion).
func splitByAddr(t *Table, at uint32, addr uint64) (l, r uint32) {
	if at == None {
		return None, None
	}
	b := &t.B[at]
	if b.Addr < addr {
		in, out := splitByAddr(t, b.R, addr)
		b.R = in
		if in != None {
			t.B[in].P = at
		}
		b.Max = max(b.Size, t.B[b.L].Max, t.B[in].Max)
		return at, out
	}
	out, in := splitByAddr(t, b.L, addr)
	b.L = in
	if in != None {
		t.B[in].P = at
	}
	b.Max = max(b.Size, t.B[b.R].Max, t.B[in].Max)
	return out, at
}

// mergeMax joins two subtrees of which all blocks of l lie before those of r.
func mergeMax(t *Table, l, r uint32) uint32 {
	switch {
	case l == None:
		return r
	case r == None:
		return l
	case t.B[l].pri >= t.B[r].pri:
		b := &t.B[l]
		m := mergeMax(t, b.R, r)
		b.R = m
		t.B[m].P = l
		b.Max = max(b.Size, t.B[b.L].Max, t.B[m].Max)
		return l
	default:
		b := &t.B[r]
		m := mergeMax(t, l, b.L)
		b.L = m
		t.B[m].P = r
		b.Max = max(b.Size, t.B[b.R].Max, t.B[m].Max)
		return r
	}
}
