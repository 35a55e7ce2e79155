package drmbuddy

import "math/bits"

// The two trees of free blocks.
const (
	dirty = 0
	clean = 1 // memory known to be zero; the original calls it clear
)

// node is a block of the buddy system: number i of an order is the chunks [i<<order, (i+1)<<order). clean tells the state of an allocated one.
type node struct {
	i     uint64
	order int
	clean bool
}

func (n node) start() uint64 { return n.i << n.order }
func (n node) size() uint64  { return 1 << n.order }
func (n node) end() uint64   { return (n.i + 1) << n.order }

// buddies is the buddy system over a number of chunks.
type buddies struct {
	chunks   uint64
	maxOrder int
	roots    []node
	free     [2][]bitset // by tree and order
	used     []bitset    // by order: allocated blocks
	clear    uint64      // chunks in the clean tree
	stack    []node      // scratch of takeRange
}

func newBuddies(chunks uint64) *buddies {
	b := &buddies{chunks: chunks, maxOrder: bits.Len64(chunks) - 1}
	for order := 0; order <= b.maxOrder; order++ {
		bound := (chunks >> order) + 1
		b.free[dirty] = append(b.free[dirty], bitset{bound: bound})
		b.free[clean] = append(b.free[clean], bitset{bound: bound})
		b.used = append(b.used, bitset{bound: bound})
	}
	b.reset()
	return b
}

// reset frees everything; memory is dirty at the start.
func (b *buddies) reset() {
	for order := range b.used {
		b.free[dirty][order].reset()
		b.free[clean][order].reset()
		b.used[order].reset()
	}
	b.roots, b.clear = b.roots[:0], 0
	for at, left := uint64(0), b.chunks; left != 0; {
		order := bits.Len64(left) - 1
		n := node{i: at >> order, order: order}
		b.roots = append(b.roots, n)
		b.putFree(n)
		at += n.size()
		left -= n.size()
	}
}

func treeOf(clear bool) int {
	if clear {
		return clean
	}
	return dirty
}

func (b *buddies) putFree(n node) {
	b.free[treeOf(n.clean)][n.order].add(n.i)
	if n.clean {
		b.clear += n.size()
	}
}

func (b *buddies) takeFree(n node) {
	b.free[treeOf(n.clean)][n.order].remove(n.i)
	if n.clean {
		b.clear -= n.size()
	}
}

// stateOf returns the free block of that order and number.
func (b *buddies) stateOf(order int, i uint64) (n node, free bool) {
	if b.free[dirty][order].has(i) {
		return node{i: i, order: order}, true
	}
	return node{i: i, order: order, clean: true}, b.free[clean][order].has(i)
}

// split halves a free block; both halves are free and of its state.
func (b *buddies) split(n node) (left, right node) {
	b.takeFree(n)
	left = node{i: 2 * n.i, order: n.order - 1, clean: n.clean}
	right = node{i: 2*n.i + 1, order: n.order - 1, clean: n.clean}
	b.putFree(left)
	b.putFree(right)
	return left, right
}

// use marks a free block allocated.
func (b *buddies) use(n node) {
	b.takeFree(n)
	b.used[n.order].add(n.i)
}

// give frees an allocated block and merges it.
func (b *buddies) give(n node) {
	b.used[n.order].remove(n.i)
	b.merge(n, false)
}

// merge puts a block that is in no set among the free ones, merged with its buddies as long as these are free and, unless
// forced, of the same state; a forced merge makes dirty memory. It returns the order reached.
func (b *buddies) merge(n node, force bool) int {
	for n.order < b.maxOrder {
		buddy, free := b.stateOf(n.order, n.i^1)
		if !free || !force && buddy.clean != n.clean {
			break
		}
		b.takeFree(buddy)
		n = node{i: n.i / 2, order: n.order + 1, clean: n.clean && !force}
	}
	b.putFree(n)
	return n.order
}

// forceMerge merges free buddies of unlike state until a block of the order exists; false when it cannot.
func (b *buddies) forceMerge(order int) bool {
	if order == 0 || order > b.maxOrder {
		return false
	}
	for tree := range b.free {
		for o := order - 1; o >= 0; o-- {
			set := &b.free[tree][o]
			for i, ok := set.highest(); ok; i, ok = set.below(i) {
				if _, free := b.stateOf(o, i^1); !free {
					continue
				}
				n := node{i: i, order: o, clean: tree == clean}
				b.takeFree(n)
				if b.merge(n, true) >= order {
					return true
				}
			}
		}
	}
	return false
}

// find returns the free block that serves the order from a tree: the highest of the smallest sufficient order, or with
// topdown the highest of all sufficient orders.
func (b *buddies) find(order, tree int, topdown bool) (best node, ok bool) {
	for o := order; o <= b.maxOrder; o++ {
		i, found := b.free[tree][o].highest()
		if !found {
			continue
		}
		n := node{i: i, order: o, clean: tree == clean}
		if !topdown {
			return n, true
		}
		if !ok || n.start() > best.start() {
			best, ok = n, true
		}
	}
	return best, ok
}

// take allocates one block of the order.
func (b *buddies) take(order int, clear, topdown bool) (node, bool) {
	if order > b.maxOrder {
		return node{}, false
	}
	n, ok := b.find(order, treeOf(clear), topdown)
	if !ok {
		if n, ok = b.find(order, treeOf(!clear), false); !ok {
			return node{}, false
		}
	}
	for n.order > order {
		_, n = b.split(n)
	}
	b.use(n)
	return n, true
}

// takeRange allocates exactly the chunks [start, start+size) below the given blocks, which are in ascending order, and appends
// the pieces in ascending order. When something in the range is not free it stops there: filled chunks from start are
// allocated then, the pieces appended, and ok is false.
func (b *buddies) takeRange(below []node, start, size uint64, pieces []node) (out []node, filled uint64, ok bool) {
	end := start + size
	b.stack = b.stack[:0]
	for k := len(below) - 1; k >= 0; k-- {
		b.stack = append(b.stack, below[k])
	}
	for len(b.stack) > 0 {
		n := b.stack[len(b.stack)-1]
		b.stack = b.stack[:len(b.stack)-1]
		if n.end() <= start || n.start() >= end {
			continue
		}
		if b.used[n.order].has(n.i) {
			return pieces, filled, false
		}
		state, free := b.stateOf(n.order, n.i)
		if n.start() >= start && n.end() <= end {
			if free {
				b.use(state)
				pieces = append(pieces, state)
				filled += n.size()
				continue
			}
			if b.clear == 0 { // free halves of one state would have merged: something below is allocated
				return pieces, filled, false
			}
		}
		if free {
			b.split(state)
		}
		b.stack = append(b.stack, node{i: 2*n.i + 1, order: n.order - 1}, node{i: 2 * n.i, order: n.order - 1})
	}
	return pieces, filled, filled == size
}

func (b *buddies) metaBytes() (n uint64) {
	for order := range b.used {
		n += b.used[order].metaBytes() + b.free[dirty][order].metaBytes() + b.free[clean][order].metaBytes()
	}
	return n
}
