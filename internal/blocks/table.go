package blocks

import "unsafe"

// None is the index that names no block.
const None uint32 = 0

// Block is one block of an address range. Addr and Size are bytes. Free is the owner's to set; the link fields L, R and P
// belong to the index that the block is in, if any.
type Block struct {
	Addr uint64
	Size uint64
	Max  uint64 // AddrTree: the largest Size in the subtree

	Prev, Next uint32 // neighbours in the range, None at its ends
	L, R, P    uint32 // children and parent, or links of a list
	pri        uint32 // priority in a treap, drawn once for each entry

	Gen  uint32 // counts the lives of the entry; part of a reference
	User uint32 // the owner's own: a segment, a stream
	Free bool   // the block is free
	Mark bool   // the owner's own
}

// Table is an array of blocks named by index. Make one with NewTable.
type Table struct {
	B     []Block // B[0] is a sentinel: never free, all zero but for R, to which Lists write. Appending moves the array: do not keep pointers over New
	spare uint32  // head of the recycled entries, linked by Next
	seed  uint32
	inUse int
}

// firstPriority starts the generator of treap priorities; any number but 0 serves.
const firstPriority = 2463534242

// NewTable returns a table with room for capacity blocks before it has to grow.
func NewTable(capacity int) *Table {
	t := &Table{B: make([]Block, 1, capacity+1)}
	t.Reset()
	return t
}

// Reset removes all blocks and keeps the memory. Generations start again.
func (t *Table) Reset() {
	t.B = t.B[:1]
	t.B[0] = Block{}
	t.spare, t.seed, t.inUse = None, firstPriority, 0
}

// Len returns the number of blocks in the table, without the sentinel.
func (t *Table) Len() int { return t.inUse }

// New returns the index of a fresh block that is linked to nothing.
func (t *Table) New(addr, size uint64) uint32 {
	i := t.entry()
	b := &t.B[i]
	b.Addr, b.Size, b.Max = addr, size, 0
	b.Prev, b.Next = None, None
	b.L, b.R, b.P = None, None, None
	b.User, b.Free, b.Mark = 0, false, false
	return i
}

// entry returns an entry, whose fields are what its last owner left but for pri and Gen.
func (t *Table) entry() uint32 {
	i := t.spare
	if i == None {
		t.B = append(t.B, Block{pri: t.priority(), Gen: 1})
		i = uint32(len(t.B) - 1)
	}
	t.spare = t.B[i].Next
	t.inUse++
	return i
}

// Release forgets block i, which is in no index and linked to nothing.
func (t *Table) Release(i uint32) {
	b := &t.B[i]
	b.Gen++
	b.Size = 0
	b.Next = t.spare
	t.spare = i
	t.inUse--
}

// SplitLow cuts the first size bytes off block i and returns a new block for them, linked before i and not free. Block i
// keeps its index and the rest, so that an index ordered by address need not move it. The new block inherits User.
func (t *Table) SplitLow(i uint32, size uint64) uint32 {
	n := t.entry()
	b, low := &t.B[i], &t.B[n]
	low.Addr, low.Size, low.Max = b.Addr, size, 0
	low.L, low.R, low.P = None, None, None
	low.User, low.Free, low.Mark = b.User, false, false
	b.Addr += size
	b.Size -= size
	low.Prev, low.Next = b.Prev, i
	if b.Prev != None {
		t.B[b.Prev].Next = n
	}
	b.Prev = n
	return n
}

// SplitHigh cuts block i after size bytes and returns a new block for the rest, linked after i and not free. The new block
// inherits User.
func (t *Table) SplitHigh(i uint32, size uint64) uint32 {
	n := t.entry()
	b, high := &t.B[i], &t.B[n]
	high.Addr, high.Size, high.Max = b.Addr+size, b.Size-size, 0
	high.L, high.R, high.P = None, None, None
	high.User, high.Free, high.Mark = b.User, false, false
	b.Size = size
	high.Prev, high.Next = i, b.Next
	if b.Next != None {
		t.B[b.Next].Prev = n
	}
	b.Next = n
	return n
}

// AbsorbNext joins the block that follows i, in no index, to block i and releases it.
func (t *Table) AbsorbNext(i uint32) {
	b := &t.B[i]
	j := b.Next
	gone := &t.B[j]
	b.Size += gone.Size
	b.Next = gone.Next
	if b.Next != None {
		t.B[b.Next].Prev = i
	}
	t.Release(j)
}

// AbsorbPrev joins the block before i, in no index, to block i and releases it. Block i keeps its index.
func (t *Table) AbsorbPrev(i uint32) {
	b := &t.B[i]
	j := b.Prev
	gone := &t.B[j]
	b.Addr = gone.Addr
	b.Size += gone.Size
	b.Prev = gone.Prev
	if b.Prev != None {
		t.B[b.Prev].Next = i
	}
	t.Release(j)
}

// Absorb joins block j, a neighbour of i in no index, to block i and releases j.
func (t *Table) Absorb(i, j uint32) {
	if t.B[i].Next == j {
		t.AbsorbNext(i)
	} else {
		t.AbsorbPrev(i)
	}
}

// Ref packs index and generation into a reference that outlives the block safely.
func (t *Table) Ref(i uint32) uint64 { return uint64(t.B[i].Gen)<<32 | uint64(i) }

// Deref returns the index that a reference names, or None when that block no longer exists.
func (t *Table) Deref(ref uint64) uint32 {
	i := uint32(ref)
	if uint64(i) >= uint64(len(t.B)) || t.B[i].Gen != uint32(ref>>32) || i == None {
		return None
	}
	return i
}

// priority draws the next treap priority: a xorshift generator (Marsaglia 2003, triple 13, 17, 5).
func (t *Table) priority() uint32 {
	x := t.seed
	x ^= x << 13
	x ^= x >> 17
	x ^= x << 5
	t.seed = x
	return x
}

// MetaBytes returns the memory that the table's array holds.
func (t *Table) MetaBytes() uint64 { return uint64(cap(t.B)) * uint64(unsafe.Sizeof(Block{})) }
