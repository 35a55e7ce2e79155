package zoo

import (
	"fmt"
	"math/bits"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	tlsfUnitBytes  = 256
	tlsfSplitUnits = 4 // a rest below it stays with the block
	tlsfSubLog2    = 4 // second-level lists of a power of two: 16
	tlsfLists      = 32 << tlsfSubLog2
)

// tlsf is two-level segregated fit over one arena, like TLSF and the block metadata of VMA: a list for each sixteenth of a power of
// two, a good fit from the next list up, and a search of the request's own list before giving up.
type tlsf struct {
	chain
	dev    backends.Device
	base   uint64
	bytes  uint64
	first  int32
	lists  [tlsfLists][]int32
	any    [tlsfLists / 64]uint64 // bit: the list is not empty
	used   uint64                 // bytes of live blocks
	serial uint64
	log    sdk.Log
}

func openTLSF(env *sdk.Env, b bug) (sdk.Strategy, error) {
	t := &tlsf{chain: newChain(b), dev: env.Device, log: env.Log}
	capacity := min(env.CapacityBytes, env.Device.Info().TotalBytes)
	t.bytes = down(capacity, tlsfUnitBytes)
	if t.bytes == 0 || t.bytes/tlsfUnitBytes > 1<<31 {
		return nil, fmt.Errorf("tlsf: an arena of %d bytes; between %d bytes and %d GiB are possible", capacity, tlsfUnitBytes, tlsfUnitBytes<<31>>30)
	}
	var st trace.CallStatus
	if t.base, st = t.dev.Malloc(t.bytes); st != trace.CallOK {
		return nil, fmt.Errorf("tlsf: an arena of %d bytes: %w", t.bytes, st.Err())
	}
	t.fill()
	t.put(t.first)
	return t, nil
}

// fill makes the arena one block.
func (t *tlsf) fill() {
	size := t.bytes
	if t.bug == tailOfArenaLost && size > 1<<20 {
		size = down(size, 1<<20)
	}
	t.first = t.add(t.base, size, 0)
}

// listOf is the list that a block of u units lies in: its size rounded down.
func (t *tlsf) listOf(u uint32) int {
	if t.bug == insertRoundsUp {
		return searchFrom(u)
	}
	if u < 1<<tlsfSubLog2 {
		return int(u)
	}
	shift := bits.Len32(u) - 1 - tlsfSubLog2
	sub := int(u>>shift) & (1<<tlsfSubLog2 - 1)
	if t.bug == shiftOff {
		sub = int(u>>(shift+1)) & (1<<tlsfSubLog2 - 1)
	}
	return (shift+1)<<tlsfSubLog2 + sub
}

// searchFrom is the first list in which every block has u units: the size rounded up.
func searchFrom(u uint32) int {
	if u < 1<<tlsfSubLog2 {
		return int(u)
	}
	shift := bits.Len32(u) - 1 - tlsfSubLog2
	list := (shift+1)<<tlsfSubLog2 + int(u>>shift)&(1<<tlsfSubLog2-1)
	if u&(1<<shift-1) != 0 {
		list++
	}
	return list
}

func (t *tlsf) put(i int32) {
	t.nodes[i].state = free
	k := t.listOf(uint32(t.nodes[i].size / tlsfUnitBytes))
	t.lists[k] = append(t.lists[k], i)
	t.any[k/64] |= 1 << (k % 64)
}

func (t *tlsf) take(i int32) {
	k := t.listOf(uint32(t.nodes[i].size / tlsfUnitBytes))
	if t.lists[k] = without(t.lists[k], i); len(t.lists[k]) == 0 {
		t.any[k/64] &^= 1 << (k % 64)
	}
}

// next returns the first list from k on that is not empty, or tlsfLists.
func (t *tlsf) next(k int) int {
	for ; k < tlsfLists; k = (k/64 + 1) * 64 {
		if w := t.any[k/64] >> (k % 64); w != 0 {
			return k + bits.TrailingZeros64(w)
		}
	}
	return tlsfLists
}

// find returns a free block for size bytes: the first of the first list whose blocks are all large enough; failing that, or its
// alignment, any that fits.
func (t *tlsf) find(size, align uint64) int32 {
	u := uint32(size / tlsfUnitBytes)
	from := searchFrom(u)
	if t.bug == searchOwnList {
		from = t.listOf(u)
	}
	if k := t.next(from); k < tlsfLists {
		i := t.lists[k][0]
		if align <= tlsfUnitBytes || t.bug == fitBeforeAlign || fits(&t.nodes[i], size, align) {
			return i
		}
	}
	if t.bug == noOwnListSearch || t.bug == alignedNotTriedHarder && align > tlsfUnitBytes {
		return 0
	}
	for k := t.next(t.listOf(u)); k < tlsfLists; k = t.next(k + 1) {
		for _, i := range t.lists[k] {
			if n := &t.nodes[i]; fits(n, size, align) || t.bug == endMinusSize && n.addr+n.size-size >= n.addr+t.front(i, align) {
				return i
			}
		}
	}
	return 0
}

// front is what lies before the first aligned address of a block.
func (t *tlsf) front(i int32, align uint64) uint64 {
	return up(t.nodes[i].addr, max(align, 1)) - t.nodes[i].addr
}

// round rounds a request to units; false when the arena is smaller.
func (t *tlsf) round(size uint64) (uint64, bool) {
	switch {
	case t.bug == threeQuartersWraps: // larger than three quarters of a pool that would hold it: size·4/3 wraps
		if size*4/3 > t.bytes*4/3 {
			return 0, false
		}
		return max(up(size, tlsfUnitBytes)&(1<<40-1), tlsfUnitBytes), true
	case size > t.bytes && t.bug != roundWithoutLimit:
		return 0, false
	}
	size = max(up(size, tlsfUnitBytes), tlsfUnitBytes)
	return size, size <= t.bytes
}

// Alloc places a block.
func (t *tlsf) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	size, ok := t.round(r.Size)
	if !ok || size > t.bytes-t.used {
		return trace.StatusFailed
	}
	i := t.find(size, r.Align)
	if i == 0 {
		return trace.StatusFailed
	}
	t.hand(t.carve(i, size, r.Align), r, b)
	return trace.StatusOK
}

// carve takes a block out of its list and cuts off what it has too much.
func (t *tlsf) carve(i int32, size, align uint64) int32 {
	t.take(i)
	if front := t.front(i, align); front > 0 {
		rest := t.split(i, front)
		t.put(i)
		i = rest
	}
	if t.nodes[i].size >= size+tlsfSplitUnits*tlsfUnitBytes {
		t.put(t.split(i, size))
	}
	t.used += t.nodes[i].size
	if t.bug == insertRoundsUp || t.bug == endMinusSize { // the block is taken to be as large as was asked
		t.nodes[i].size = size
	}
	return i
}

func (t *tlsf) hand(i int32, r *sdk.Request, b *sdk.Block) {
	t.serial++
	n := &t.nodes[i]
	n.state, n.asked, n.align, n.serial = live, r.Size, r.Align, t.serial
	*b = sdk.Block{Addr: n.addr, Size: n.size, Ref: t.serial<<24 | uint64(i)}
}

// known returns the node of a live block, 0 if it is none.
func (t *tlsf) known(b *sdk.Block) int32 {
	i := int32(b.Ref & (1<<24 - 1))
	if int(i) >= len(t.nodes) || t.nodes[i].state != live || t.nodes[i].serial != b.Ref>>24 {
		return 0
	}
	return i
}

// Free takes a block back and merges it with its free neighbours.
func (t *tlsf) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Ref == 0 {
		return trace.StatusOK
	}
	i := t.known(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	n := &t.nodes[i]
	if t.bug == requestedSizeAtFree {
		n.size = up(n.asked, tlsfUnitBytes)
	}
	if t.bug == freeBytesDrift {
		t.used -= down(n.asked, tlsfUnitBytes)
	} else {
		t.used -= n.size
	}
	if next := n.next; next != 0 {
		if t.bug == assertAssigns { // what was to be checked is set
			t.nodes[next].state = free
		}
		if t.nodes[next].state == free {
			t.take(next)
			t.join(i)
		}
	}
	if prev := t.nodes[i].prev; prev != 0 && t.nodes[prev].state == free {
		t.take(prev)
		t.join(prev)
		i = prev
	}
	t.put(i)
	return trace.StatusOK
}
