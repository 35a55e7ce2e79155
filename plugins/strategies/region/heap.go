package region

import (
	"math/bits"
	"unsafe"

	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

const (
	// UnitBytes is what sizes are rounded up to.
	UnitBytes = fit.UnitBytes
	// ownRegionShare is the part of a region above which a request gets one of its own: so at most an eighth of a region is
	// lost when it is closed.
	ownRegionShare = 8
)

// Heap places blocks in regions. Make one with New.
type Heap struct {
	backing     *fit.Heap
	regionBytes uint64
	regions     []region // [0] unused
	spare       uint32   // regions of the usual size
	spareOwn    uint32   // regions of one block
	open        uint32   // 0: none
	at          addrmap.Map
}

// region is a run of memory that is given back as a whole.
type region struct {
	addr, bytes uint64
	ref         uint64 // in the backing; 0: not in use
	next        uint64 // bytes handed out from addr
	gen         uint32
	live        uint32
	spare       uint32
	own         bool
	starts      []uint64 // bitmap of the units at which live blocks begin; a region of one block has one bit
}

// New returns an empty heap of [base, base+bytes) with regions of the given size.
func New(base, bytes, regionBytes uint64) *Heap {
	return &Heap{backing: fit.New(fit.Best, base, bytes), regionBytes: min(regionBytes, bytes), regions: make([]region, 1)}
}

// Reset frees everything.
func (h *Heap) Reset() {
	for i := 1; i < len(h.regions); i++ {
		if h.regions[i].ref != 0 {
			h.retire(uint32(i))
		}
	}
	h.open = 0
	h.at.Reset()
	h.backing.Reset()
}

// Alloc moves the pointer of the open region, or opens one.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := (size + UnitBytes - 1) &^ (UnitBytes - 1)
	if n > h.regionBytes/ownRegionShare || align > UnitBytes {
		i := h.take(n, align, true)
		return h.cut(i, n)
	}
	if h.open != 0 {
		if r := &h.regions[h.open]; n <= r.bytes-r.next {
			return h.cut(h.open, n)
		}
	}
	i := h.take(h.regionBytes, UnitBytes, false)
	if i == 0 { // no room for a region: perhaps for the block
		return h.cut(h.take(n, UnitBytes, true), n)
	}
	h.close()
	h.open = i
	return h.cut(i, n)
}

// close gives the open region back if it is empty; else it waits for its last block.
func (h *Heap) close() {
	if i := h.open; i != 0 {
		h.open = 0
		if h.regions[i].live == 0 {
			h.giveBack(i)
		}
	}
}

// cut hands out the next n bytes of region i; 0 is no region.
func (h *Heap) cut(i uint32, n uint64) (addr, granted, ref uint64, ok bool) {
	if i == 0 {
		return 0, 0, 0, false
	}
	r := &h.regions[i]
	addr = r.addr + r.next
	unit := r.next / UnitBytes
	r.starts[unit/64] |= 1 << (unit % 64)
	r.next += n
	r.live++
	return addr, n, uint64(r.gen)<<32 | uint64(i), true
}

// take opens a region; 0 when the backing has no room even after an empty open region was given back.
func (h *Heap) take(bytes, align uint64, own bool) uint32 {
	addr, granted, ref, ok := h.backing.Alloc(bytes, align)
	if !ok && h.open != 0 && h.regions[h.open].live == 0 {
		h.close()
		addr, granted, ref, ok = h.backing.Alloc(bytes, align)
	}
	if !ok {
		return 0
	}
	list := &h.spare
	if own {
		list = &h.spareOwn
	}
	i := *list
	if i != 0 {
		*list = h.regions[i].spare
	} else {
		i = uint32(len(h.regions))
		bits := uint64(1)
		if !own {
			bits = (h.regionBytes + UnitBytes - 1) / UnitBytes
		}
		h.regions = append(h.regions, region{gen: 1, own: own, starts: make([]uint64, (bits+63)/64)})
	}
	r := &h.regions[i]
	r.addr, r.bytes, r.ref, r.next, r.live = addr, granted, ref, 0, 0
	h.at.Put(addr, i)
	return i
}

func (h *Heap) giveBack(i uint32) {
	r := &h.regions[i]
	h.at.Delete(r.addr)
	h.backing.Free(r.addr, r.bytes, r.ref)
	h.retire(i)
}

// retire makes the record of region i ready for another.
func (h *Heap) retire(i uint32) {
	r := &h.regions[i]
	list := &h.spare
	if r.own {
		list = &h.spareOwn
	}
	clear(r.starts)
	r.ref, r.live = 0, 0
	r.gen++
	r.spare = *list
	*list = i
}

func (h *Heap) find(addr, ref uint64) *region {
	i := uint32(ref)
	if i == 0 || uint64(i) >= uint64(len(h.regions)) {
		return nil
	}
	r := &h.regions[i]
	if r.ref == 0 || r.gen != uint32(ref>>32) || addr < r.addr || addr >= r.addr+r.next || (addr-r.addr)%UnitBytes != 0 {
		return nil
	}
	unit := (addr - r.addr) / UnitBytes
	if unit/64 >= uint64(len(r.starts)) || r.starts[unit/64]>>(unit%64)&1 == 0 {
		return nil
	}
	return r
}

// Free counts down; the last block frees its whole region.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	r := h.find(addr, ref)
	if r == nil {
		return false
	}
	unit := (addr - r.addr) / UnitBytes
	r.starts[unit/64] &^= 1 << (unit % 64)
	if r.live--; r.live != 0 {
		return true
	}
	if i := uint32(ref); i == h.open {
		r.next = 0
	} else {
		h.giveBack(i)
	}
	return true
}

// Live reports whether ref names the live block at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool { return h.find(addr, ref) != nil }

// Inspect appends the segment: the blocks of the backing, with regions replaced by their blocks. What was freed in a region
// that still has a live block is shown as unmapped, since it serves no request.
func (h *Heap) Inspect(in *sdk.Inspection) {
	var back sdk.Inspection
	h.backing.Inspect(&back)
	seg := back.Segments[0]
	blocks := make([]sdk.InspectedBlock, 0, len(seg.Blocks))
	for _, b := range seg.Blocks {
		if i := h.at.Get(b.Addr); i != 0 && b.State == "live" {
			blocks = h.inspect(blocks, &h.regions[i], i == h.open)
			continue
		}
		blocks = append(blocks, b)
	}
	seg.Blocks = blocks
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, back.FreeLists...)
	in.MetaBytes += back.MetaBytes + uint64(cap(h.regions))*uint64(unsafe.Sizeof(region{}))
	for i := range h.regions {
		in.MetaBytes += uint64(len(h.regions[i].starts)) * 8
	}
}

// inspect appends the blocks of a region. Sizes are not kept: a live block is shown up to the next one or the pointer.
func (h *Heap) inspect(out []sdk.InspectedBlock, r *region, open bool) []sdk.InspectedBlock {
	first := len(out)
	for w, word := range r.starts {
		for ; word != 0; word &= word - 1 {
			addr := r.addr + uint64(w*64+bits.TrailingZeros64(word))*UnitBytes
			if n := len(out); n > first {
				out[n-1].Bytes = addr - out[n-1].Addr
			} else if addr > r.addr {
				out = append(out, sdk.InspectedBlock{Addr: r.addr, Bytes: addr - r.addr, State: "unmapped"})
			}
			out = append(out, sdk.InspectedBlock{Addr: addr, State: "live"})
		}
	}
	at := r.addr
	if n := len(out); n > first {
		at = r.addr + r.next
		out[n-1].Bytes = at - out[n-1].Addr
	}
	if end := r.addr + r.bytes; at < end {
		state := "unmapped"
		if open {
			state = "free"
		}
		out = append(out, sdk.InspectedBlock{Addr: at, Bytes: end - at, State: state})
	}
	return out
}

var _ arena.Heap = (*Heap)(nil)
