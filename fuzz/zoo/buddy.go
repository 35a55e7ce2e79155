package zoo

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	buddyUnitBytes  = 256
	buddyOrders     = 40
	buddyNodesFirst = 8        // blocks beyond the roots whose records need no memory of the device
	buddyNodesPage  = 64       // records in a page of them
	buddyPageBytes  = 64 << 10 // as asked of the device
	buddyMetaDivide = 4096     // one byte of bitmap, at the end of the arena, for so many bytes: a bit for two units
)

// buddy is the binary buddy allocator. The arena is cut into roots, powers of two from the largest down; the records of blocks
// beyond the first few lie in pages of device memory, so that a split can fail half-way, as in a kernel.
type buddy struct {
	dev    backends.Device
	bug    bug
	base   uint64 // of the blocks
	arena  uint64 // address of the segment
	bytes  uint64 // of the segment
	usable uint64
	free   [buddyOrders][]uint64 // offsets
	live   map[uint64]buddyBlock // by offset
	nodes  int                   // blocks beyond the roots, live and free
	pages  []uint64              // addresses of pages of records
	serial uint64
}

type buddyBlock struct {
	order  int
	serial uint64
}

func openBuddy(env *sdk.Env, g bug) (sdk.Strategy, error) {
	b := &buddy{dev: env.Device, bug: g}
	b.bytes = down(min(env.CapacityBytes, env.Device.Info().TotalBytes), buddyUnitBytes)
	if b.bytes < 2*buddyUnitBytes || b.bytes > buddyUnitBytes<<(buddyOrders-2) {
		return nil, fmt.Errorf("buddy: an arena of %d bytes; between %d and %d are possible", b.bytes, 2*buddyUnitBytes, uint64(buddyUnitBytes)<<(buddyOrders-2))
	}
	addr, st := b.dev.Malloc(b.bytes)
	if st != trace.CallOK {
		return nil, fmt.Errorf("buddy: an arena of %d bytes: %w", b.bytes, st.Err())
	}
	b.arena = addr
	b.fill()
	return b, nil
}

// fill makes the free roots.
func (b *buddy) fill() {
	b.base = b.arena
	bitmap := up(b.bytes/buddyMetaDivide+1, buddyUnitBytes)
	b.usable = b.bytes - bitmap
	switch {
	case b.bug == metadataTwice && b.usable > bitmap:
		b.usable -= bitmap
	case b.bug == metadataCounted: // the bitmap has bits for its own bytes, and for as many behind it
		b.usable += 2 * bitmap
	case b.bug == baseUnaligned: // a header at the beginning, behind which blocks are aligned to each other only
		b.base += buddyUnitBytes
		b.usable -= buddyUnitBytes
	}
	b.live = map[uint64]buddyBlock{}
	b.nodes = 0
	for k := range b.free {
		b.free[k] = b.free[k][:0]
	}
	units, at := b.usable/buddyUnitBytes, uint64(0)
	for k := bits.Len64(units) - 1; k >= 0; k-- {
		if units>>k&1 == 0 {
			continue
		}
		if b.bug != lastRootLost || at == 0 || units&(1<<k-1) != 0 {
			b.put(at, k)
		}
		at += buddyUnitBytes << k
	}
}

func (b *buddy) put(at uint64, k int) { b.free[k] = append(b.free[k], at) }

func (b *buddy) take(at uint64, k int) {
	if i := slices.Index(b.free[k], at); i >= 0 {
		b.free[k] = slices.Delete(b.free[k], i, i+1)
	}
}

// orderOf is the order of the smallest block of size bytes.
func orderOf(size uint64) int { return bits.Len64((size - 1) / buddyUnitBytes) }

// Alloc takes the lowest free block of the smallest order that has one, and halves it down to the order wanted.
func (b *buddy) Alloc(r *sdk.Request, out *sdk.Block) trace.Status {
	if r.Size == 0 {
		*out = sdk.Block{}
		return trace.StatusOK
	}
	order := orderOf(max(r.Size, r.Align))
	from := order
	for from < buddyOrders && len(b.free[from]) == 0 {
		from++
	}
	if from >= buddyOrders {
		return trace.StatusFailed
	}
	at := slices.Min(b.free[from])
	b.take(at, from)
	granted := from
	for k := from; k > order; k-- {
		if !b.record() {
			b.rollBack(at, k, from)
			return trace.StatusFailed
		}
		b.put(at+buddyUnitBytes<<(k-1), k-1)
		if b.bug != splitKeepsSize || k-1 > order {
			granted = k - 1
		}
	}
	b.serial++
	b.live[at] = buddyBlock{order, b.serial}
	*out = sdk.Block{Addr: b.base + at, Size: buddyUnitBytes << granted, Ref: b.serial}
	return trace.StatusOK
}

// record makes room for the record of one more block.
func (b *buddy) record() bool {
	if b.nodes >= buddyNodesFirst+buddyNodesPage*len(b.pages) {
		page, st := b.dev.Malloc(buddyPageBytes)
		if st != trace.CallOK {
			return false
		}
		b.pages = append(b.pages, page)
	}
	b.nodes++
	return true
}

// rollBack puts a block together again that was to be split further than it could.
func (b *buddy) rollBack(at uint64, k, from int) {
	if b.bug == rollBackOneOnly { // its buddies are free again, the block itself is forgotten
		return
	}
	for ; k < from; k++ {
		b.take(at+buddyUnitBytes<<k, k)
		b.nodes--
	}
	b.put(at, from)
}

// Free merges the block with its buddies.
func (b *buddy) Free(blk *sdk.Block, _ sdk.Stream) trace.Status {
	if blk.Ref == 0 {
		return trace.StatusOK
	}
	at := blk.Addr - b.base
	l, ok := b.live[at]
	if !ok || l.serial != blk.Ref {
		return trace.StatusInvalid
	}
	delete(b.live, at)
	k := l.order
	for k < buddyOrders-1 && b.isFree(at^buddyUnitBytes<<k, k) {
		b.take(at^buddyUnitBytes<<k, k)
		if b.bug != mergeKeepsSelf {
			at &^= buddyUnitBytes << k
		}
		k++
		b.nodes--
	}
	b.put(at, k)
	return trace.StatusOK
}

// isFree reports whether a block is free.
func (b *buddy) isFree(at uint64, k int) bool {
	if at >= b.usable && b.bug == mergeBeyondTop { // the bits behind the end of the bitmap are 0, as those of free blocks
		return k < buddyOrders-2
	}
	return slices.Contains(b.free[k], at)
}

// FreeWrong refuses a free of what is not live.
func (b *buddy) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusInvalid }

// Trim gives pages of records back that are not needed.
func (b *buddy) Trim() trace.Status {
	for n := len(b.pages); n > 0 && b.nodes <= buddyNodesFirst+buddyNodesPage*(n-1); n-- {
		b.dev.Free(b.pages[n-1])
		b.pages = b.pages[:n-1]
	}
	return trace.StatusOK
}

// Reset frees everything.
func (b *buddy) Reset() trace.Status {
	b.fill()
	return b.Trim()
}

// Close gives arena and pages back.
func (b *buddy) Close() error {
	b.Reset()
	if st := b.dev.Free(b.arena); st != trace.CallOK {
		return fmt.Errorf("buddy: giving the arena back: %w", st.Err())
	}
	return nil
}

// Inspect shows the blocks in address order; the bitmap behind them is shown as pending, since nobody can have it.
func (b *buddy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{"blocks": uint64(b.nodes)}, MetaBytes: uint64(b.nodes) * 64}
	seg := sdk.InspectedSegment{Addr: b.arena, Bytes: b.bytes}
	show := func(at, bytes uint64, state string) {
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: at, Bytes: bytes, State: state})
	}
	for k := range b.free {
		for _, at := range b.free[k] {
			show(b.base+at, buddyUnitBytes<<k, "free")
		}
		if n := uint64(len(b.free[k])); n > 0 {
			in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: fmt.Sprintf("order %d", k), Len: n, Bytes: n * buddyUnitBytes << k})
		}
	}
	for at, l := range b.live {
		show(b.base+at, buddyUnitBytes<<l.order, "live")
	}
	bitmap := up(b.bytes/buddyMetaDivide+1, buddyUnitBytes)
	show(b.arena+b.bytes-bitmap, bitmap, "pending")
	slices.SortFunc(seg.Blocks, func(x, y sdk.InspectedBlock) int {
		if x.Addr < y.Addr {
			return -1
		}
		return 1
	})
	in.Segments = append(in.Segments, seg)
	return in
}
