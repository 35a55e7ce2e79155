package blocks

import "math/bits"

const (
	// subBins is the number of bins a doubling of the size; 32 keeps the trees inside the bins small for the price of
	// 7 KiB an index.
	subBinsLog2 = 5
	subBins     = 1 << subBinsLog2
	// linearLog2 is the log2 of the size below which everything shares bin 0: device allocators have units of 256 bytes.
	linearLog2 = 8
	bins       = (64 - linearLog2) * subBins
	binWords   = bins / 64
)

// SizeIndex is an index of blocks ordered by (size, address); see the package comment. The zero SizeIndex is empty. All
// calls on one index take the same Table.
type SizeIndex struct {
	summary uint64 // bit w: words[w] is not 0
	words   [binWords]uint64
	roots   [bins]uint32
	n       int
	bytes   uint64
}

// Len returns the number of blocks in the index.
func (s *SizeIndex) Len() int { return s.n }

// Bytes returns the sum of the sizes of the blocks in the index.
func (s *SizeIndex) Bytes() uint64 { return s.bytes }

func binOf(size uint64) uint {
	m := uint(bits.Len64(size))
	if m <= linearLog2 {
		return 0
	}
	m--
	return (m-linearLog2)<<subBinsLog2 + uint(size>>(m-subBinsLog2))&(subBins-1)
}

// Insert adds block i, which is in no index.
func (s *SizeIndex) Insert(t *Table, i uint32) {
	n := &t.B[i]
	size, addr, pri := n.Size, n.Addr, n.pri
	bin := binOf(size)
	s.n++
	s.bytes += size
	if s.roots[bin] == None {
		s.words[bin/64] |= 1 << (bin % 64)
		s.summary |= 1 << (bin / 64)
		n.L, n.R, n.P = None, None, None
		s.roots[bin] = i
		return
	}
	parent, at, left := None, s.roots[bin], false
	for at != None && t.B[at].pri >= pri {
		b := &t.B[at]
		parent = at
		if left = before(size, addr, b); left {
			at = b.L
		} else {
			at = b.R
		}
	}
	l, r := splitBySize(t, at, size, addr)
	n.L, n.R, n.P = l, r, parent
	if l != None {
		t.B[l].P = i
	}
	if r != None {
		t.B[r].P = i
	}
	switch {
	case parent == None:
		s.roots[bin] = i
	case left:
		t.B[parent].L = i
	default:
		t.B[parent].R = i
	}
}

// Resized corrects the index after block i, which had old bytes, has changed its size and perhaps its address. A block that is
// alone in its bin and stays in it need not move.
func (s *SizeIndex) Resized(t *Table, i uint32, old uint64) {
	b := &t.B[i]
	size := b.Size
	if bin := binOf(size); bin == binOf(old) && s.roots[bin] == i && b.L == None && b.R == None {
		s.bytes += size - old
		return
	}
	b.Size = old
	s.Remove(t, i)
	b.Size = size
	s.Insert(t, i)
}

// Remove takes block i out of the index. Its address and size are those it was inserted with.
func (s *SizeIndex) Remove(t *Table, i uint32) {
	n := &t.B[i]
	s.n--
	s.bytes -= n.Size
	p := n.P
	m := merge(t, n.L, n.R)
	if m != None {
		t.B[m].P = p
	}
	switch {
	case p == None:
		bin := binOf(n.Size)
		s.roots[bin] = m
		if m == None {
			if s.words[bin/64] &^= 1 << (bin % 64); s.words[bin/64] == 0 {
				s.summary &^= 1 << (bin / 64)
			}
		}
	case t.B[p].L == i:
		t.B[p].L = m
	default:
		t.B[p].R = m
	}
	n.L, n.R, n.P = None, None, None
}

// BestFit returns the smallest block of at least size bytes, the lowest among equals, or None.
func (s *SizeIndex) BestFit(t *Table, size uint64) uint32 {
	bin := binOf(size)
	if i := lowerBound(t, s.roots[bin], size); i != None {
		return i
	}
	bin, ok := s.nextBin(bin + 1)
	if !ok {
		return None
	}
	return leftmost(t, s.roots[bin])
}

// Largest returns the size of the largest block, 0 when the index is empty.
func (s *SizeIndex) Largest(t *Table) uint64 {
	if s.n == 0 {
		return 0
	}
	w := bits.Len64(s.summary) - 1
	at := s.roots[w*64+bits.Len64(s.words[w])-1]
	for t.B[at].R != None {
		at = t.B[at].R
	}
	return t.B[at].Size
}

// nextBin returns the first occupied bin at or above bin.
func (s *SizeIndex) nextBin(bin uint) (uint, bool) {
	w := bin / 64
	if w >= binWords {
		return 0, false
	}
	if m := s.words[w] >> (bin % 64); m != 0 {
		return bin + uint(bits.TrailingZeros64(m)), true
	}
	m := s.summary &^ (1<<(w+1) - 1)
	if m == 0 {
		return 0, false
	}
	w = uint(bits.TrailingZeros64(m))
	return w*64 + uint(bits.TrailingZeros64(s.words[w])), true
}

// leftmost returns the first block of the non-empty tree at root.
func leftmost(t *Table, root uint32) uint32 {
	for t.B[root].L != None {
		root = t.B[root].L
	}
	return root
}

// before reports whether (size, addr) comes before block b.
func before(size, addr uint64, b *Block) bool {
	return size < b.Size || size == b.Size && addr < b.Addr
}

// lowerBound returns the first block of the tree with at least size bytes, or None.
func lowerBound(t *Table, at uint32, size uint64) uint32 {
	best := None
	for at != None {
		b := &t.B[at]
		if b.Size >= size {
			best, at = at, b.L
		} else {
			at = b.R
		}
	}
	return best
}

// splitBySize is splitByAddr for the order (size, address).
func splitBySize(t *Table, at uint32, size, addr uint64) (l, r uint32) {
	if at == None {
		return None, None
	}
	b := &t.B[at]
	if before(size, addr, b) {
		out, in := splitBySize(t, b.L, size, addr)
		b.L = in
		if in != None {
			t.B[in].P = at
		}
		return out, at
	}
	in, out := splitBySize(t, b.R, size, addr)
	b.R = in
	if in != None {
		t.B[in].P = at
	}
	return at, out
}

// merge joins two subtrees of which all blocks of l come before those of r.
func merge(t *Table, l, r uint32) uint32 {
	switch {
	case l == None:
		return r
	case r == None:
		return l
	case t.B[l].pri >= t.B[r].pri:
		m := merge(t, t.B[l].R, r)
		t.B[l].R = m
		t.B[m].P = l
		return l
	default:
		m := merge(t, l, t.B[r].L)
		t.B[r].L = m
		t.B[m].P = r
		return r
	}
}

// After returns the block that follows block i of the index in the order (size, address), or None.
func (s *SizeIndex) After(t *Table, i uint32) uint32 {
	if r := t.B[i].R; r != None {
		return leftmost(t, r)
	}
	bin := binOf(t.B[i].Size)
	for p := t.B[i].P; p != None; i, p = p, t.B[p].P {
		if t.B[p].L == i {
			return p
		}
	}
	bin, ok := s.nextBin(bin + 1)
	if !ok {
		return None
	}
	return leftmost(t, s.roots[bin])
}
