package pagedkv

import (
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/trace"
)

// Heap hands out pages of [base, base+bytes). Make one with New.
type Heap struct {
	base, bytes uint64
	pageBytes   uint64
	prefixes    bool
	log         sdk.Log
	pages       []page // [0] is the null block and the sentinel of the free queue
	free        uint64 // pages in the queue
	cached      addrmap.Map
	owners      []owner   // [0] unused
	holdings    []holding // [0] unused
	spareOwner  uint32
	spareHold   uint32
	tag         uint32 // of the request in hand
	got         []uint32
	hits        uint64
	evictions   uint64
}

type page struct {
	prev, next uint32 // in the free queue
	users      uint32
	holders    uint32 // first holding of the page
	key        uint64 // what is remembered of it; 0: nothing
}

// owner is a live block.
type owner struct {
	addr  uint64
	pages uint32 // first holding: the last page of the block
	gen   uint32
	spare uint32
}

// holding is a page of a block.
type holding struct {
	page, owner        uint32
	nextOfOwner, other uint32 // the page before it in the block; the next holding of the page
}

// New returns an empty heap.
func New(base, bytes uint64, opt Options, log sdk.Log) *Heap {
	h := &Heap{base: base, bytes: bytes, pageBytes: opt.PageBytes, prefixes: opt.PrefixCache, log: log,
		pages: make([]page, bytes/opt.PageBytes), owners: make([]owner, 1), holdings: make([]holding, 1)}
	h.Reset()
	return h
}

// Reset frees everything: the queue is in order of the pages again and nothing is remembered.
func (h *Heap) Reset() {
	n := uint32(len(h.pages))
	for i := range n {
		h.pages[i] = page{prev: (i + n - 1) % n, next: (i + 1) % n}
	}
	h.free = uint64(n) - 1
	h.cached.Reset()
	h.holdings, h.spareHold = h.holdings[:1], 0
	for i := 1; i < len(h.owners); i++ {
		if h.owners[i].pages != 0 {
			h.dropOwner(uint32(i))
		}
	}
}

func (h *Heap) dropOwner(i uint32) {
	h.owners[i] = owner{gen: h.owners[i].gen + 1, spare: h.spareOwner}
	h.spareOwner = i
}

func (h *Heap) unlink(i uint32) {
	p := &h.pages[i]
	h.pages[p.prev].next, h.pages[p.next].prev = p.next, p.prev
	h.free--
}

// append puts page i at the tail of the queue.
func (h *Heap) append(i uint32) {
	last := h.pages[0].prev
	h.pages[i].prev, h.pages[i].next = last, 0
	h.pages[last].next, h.pages[0].prev = i, i
	h.free++
}

// key names a page by the tag and the position of its content.
func key(tag uint32, position uint64) uint64 { return uint64(tag)<<32 | position&(1<<32-1) }

// Alloc takes pages: those of its prefix that are remembered, then the head of the queue.
func (h *Heap) Alloc(size, align uint64) (addr, granted, ref uint64, ok bool) {
	n := (size-1)/h.pageBytes + 1
	if align > h.pageBytes || n > uint64(len(h.pages)) {
		return 0, 0, 0, false
	}
	hits := h.prefix(size / h.pageBytes)
	fresh := n - uint64(len(h.got))
	unused := uint64(0)
	for _, i := range h.got {
		if h.pages[i].users == 0 {
			unused++
		}
	}
	if fresh+unused > h.free {
		return 0, 0, 0, false
	}
	for _, i := range h.got {
		if h.pages[i].users == 0 {
			h.unlink(i)
		}
	}
	h.hits += uint64(hits)
	for range fresh {
		h.got = append(h.got, h.pop())
	}
	return h.enter(hits, size/h.pageBytes)
}

// prefix looks up the remembered pages of the request in hand, of which full are full.
func (h *Heap) prefix(full uint64) int {
	h.got = h.got[:0]
	if !h.prefixes || h.tag == 0 {
		return 0
	}
	for k := range full {
		i := h.cached.Get(key(h.tag, k))
		if i == 0 {
			break
		}
		h.got = append(h.got, i)
	}
	return len(h.got)
}

// pop takes the head of the queue and forgets what it held.
func (h *Heap) pop() uint32 {
	i := h.pages[0].next
	h.unlink(i)
	if k := h.pages[i].key; k != 0 {
		h.cached.Delete(k)
		h.pages[i].key = 0
		h.evictions++
	}
	return i
}

// enter makes a block of the pages in hand, of which the first hits were remembered, and remembers the full ones.
func (h *Heap) enter(hits int, full uint64) (addr, granted, ref uint64, ok bool) {
	h.noteShares(hits)
	h.noteExtents()
	o := h.spareOwner
	if o != 0 {
		h.spareOwner = h.owners[o].spare
	} else {
		o = uint32(len(h.owners))
		h.owners = append(h.owners, owner{gen: 1})
	}
	head := uint32(0)
	for k, i := range h.got {
		head = h.hold(holding{page: i, owner: o, nextOfOwner: head, other: h.pages[i].holders})
		p := &h.pages[i]
		p.holders = head
		p.users++
		if h.prefixes && h.tag != 0 && uint64(k) < full && p.key == 0 {
			p.key = key(h.tag, uint64(k))
			h.cached.Put(p.key, i)
		}
	}
	x := &h.owners[o]
	x.addr, x.pages = h.addr(h.got[0]), head
	return x.addr, uint64(len(h.got)) * h.pageBytes, uint64(x.gen)<<32 | uint64(o), true
}

func (h *Heap) addr(i uint32) uint64 { return h.base + uint64(i)*h.pageBytes }

func (h *Heap) hold(x holding) uint32 {
	i := h.spareHold
	if i != 0 {
		h.spareHold = h.holdings[i].other
	} else {
		i = uint32(len(h.holdings))
		h.holdings = append(h.holdings, holding{})
	}
	h.holdings[i] = x
	return i
}

// noteShares says which of the first hits pages belong to live blocks, in runs of adjacent pages with the same oldest owner.
func (h *Heap) noteShares(hits int) {
	if h.log == nil {
		return
	}
	var run trace.Call
	runOwner := uint32(0)
	for _, i := range h.got[:hits] {
		o := h.oldest(i)
		if o != 0 && o == runOwner && h.addr(i) == run.Addr+run.Size {
			run.Size += h.pageBytes
			continue
		}
		if runOwner != 0 {
			h.log.Note(run)
		}
		run = trace.Call{Kind: trace.CallShare, Addr: h.addr(i), Size: h.pageBytes, Aux: h.owners[o].addr}
		runOwner = o
	}
	if runOwner != 0 {
		h.log.Note(run)
	}
}

// oldest returns the block that has used page i for the longest time, 0 when nobody uses it.
func (h *Heap) oldest(i uint32) (o uint32) {
	for k := h.pages[i].holders; k != 0; k = h.holdings[k].other {
		o = h.holdings[k].owner
	}
	return o
}

// noteExtents says where the block lies beyond its first run of adjacent pages.
func (h *Heap) noteExtents() {
	if h.log == nil {
		return
	}
	first, start := true, h.got[0]
	for k := 1; k <= len(h.got); k++ {
		if k < len(h.got) && h.got[k] == h.got[k-1]+1 {
			continue
		}
		if !first {
			h.log.Note(trace.Call{Kind: trace.CallExtent, Addr: h.addr(start), Size: uint64(h.got[k-1]-start+1) * h.pageBytes})
		}
		if k < len(h.got) {
			first, start = false, h.got[k]
		}
	}
}

// Free takes one user from each page, the last page first.
func (h *Heap) Free(addr, granted, ref uint64) bool {
	if !h.Live(addr, granted, ref) {
		return false
	}
	o := uint32(ref)
	for k := h.owners[o].pages; k != 0; {
		x := h.holdings[k]
		p := &h.pages[x.page]
		at := &p.holders
		for *at != k {
			at = &h.holdings[*at].other
		}
		*at = x.other
		if p.users--; p.users == 0 {
			h.append(x.page)
		}
		h.holdings[k] = holding{other: h.spareHold}
		h.spareHold = k
		k = x.nextOfOwner
	}
	h.dropOwner(o)
	return true
}

// Live reports whether ref names a live block that begins at addr.
func (h *Heap) Live(addr, granted, ref uint64) bool {
	o := uint32(ref)
	if o == 0 || uint64(o) >= uint64(len(h.owners)) {
		return false
	}
	x := &h.owners[o]
	return x.pages != 0 && x.gen == uint32(ref>>32) && x.addr == addr
}

// Inspect appends the segment, a block for each used page and each run of free ones, and the length of the queue. The null block is
// shown as unmapped.
func (h *Heap) Inspect(in *sdk.Inspection) {
	seg := sdk.InspectedSegment{Addr: h.base, Bytes: h.bytes}
	put := func(bytes uint64, state string) {
		if n := len(seg.Blocks); n > 0 && state != "live" && seg.Blocks[n-1].State == state {
			seg.Blocks[n-1].Bytes += bytes
			return
		}
		at := h.base
		if n := len(seg.Blocks); n > 0 {
			at = seg.Blocks[n-1].Addr + seg.Blocks[n-1].Bytes
		}
		seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: at, Bytes: bytes, State: state})
	}
	for i := range h.pages {
		switch {
		case i == 0:
			put(h.pageBytes, "unmapped")
		case h.pages[i].users != 0:
			put(h.pageBytes, "live")
		default:
			put(h.pageBytes, "free")
		}
	}
	if rest := h.bytes % h.pageBytes; rest != 0 {
		put(rest, "unmapped")
	}
	in.Segments = append(in.Segments, seg)
	in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "free-queue", Len: h.free, Bytes: h.free * h.pageBytes})
	in.Counters["prefix_hit_pages"], in.Counters["evicted_pages"] = h.hits, h.evictions
	in.MetaBytes += uint64(cap(h.pages))*uint64(unsafe.Sizeof(page{})) + uint64(cap(h.owners))*uint64(unsafe.Sizeof(owner{})) +
		uint64(cap(h.holdings))*uint64(unsafe.Sizeof(holding{}))
}

// queue lists the free queue from its head.
func (h *Heap) queue() (ids []uint32) {
	for i := h.pages[0].next; i != 0; i = h.pages[i].next {
		ids = append(ids, i)
	}
	return slices.Clip(ids)
}

var _ arena.Heap = (*Heap)(nil)
