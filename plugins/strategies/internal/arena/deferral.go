package arena

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// deferral keeps freed blocks until the streams that may still use them have completed.
type deferral struct {
	dev     backends.Streams // nil: the device has no events, nothing is deferred
	many    bool             // the trace has several streams: every free waits for the freeing stream
	active  bool             // many, or a use was recorded
	pending int              // freed blocks that wait

	used   addrmap.Map // address of a live block -> head of its list of using streams
	uses   []use       // [0] unused
	spareU uint32
	blocks []waiting // [0] unused
	spareB uint32
	queues []queue // by stream
}

// use is one stream in the list of streams that used a block besides its own.
type use struct {
	stream sdk.Stream
	next   uint32
}

// waiting is a freed block with the number of events that it still waits for.
type waiting struct {
	addr, granted, ref uint64
	events             int
	next               uint32 // of the spare list
}

// queue holds the events recorded on one stream, oldest first: a ring that grows.
type queue struct {
	ring       []queued
	head, size int
}

type queued struct {
	event backends.EventID
	block uint32
}

func (d *deferral) init(env *sdk.Env) {
	d.dev, _ = backends.As[backends.Streams](env.Device)
	d.many = d.dev != nil && len(env.Streams) > 1
	d.active = d.many
	d.uses = make([]use, 1)
	d.blocks = make([]waiting, 1)
	d.queues = make([]queue, len(env.Streams))
}

// use records that the live block at addr is used on the stream.
func (d *deferral) use(addr uint64, stream sdk.Stream) {
	if d.dev == nil {
		return
	}
	d.active = true
	head := d.used.Get(addr)
	for u := head; u != 0; u = d.uses[u].next {
		if d.uses[u].stream == stream {
			return
		}
	}
	u := d.spareU
	if u != 0 {
		d.spareU = d.uses[u].next
	} else {
		u = uint32(len(d.uses))
		d.uses = append(d.uses, use{})
	}
	d.uses[u] = use{stream, head}
	d.used.Put(addr, u)
}

// put takes a freed block; false when no stream holds it back, so that the caller frees it at once.
func (d *deferral) put(b *sdk.Block, stream sdk.Stream) bool {
	head := d.used.Delete(b.Addr)
	if head == 0 && !d.many {
		return false
	}
	i := d.spareB
	if i != 0 {
		d.spareB = d.blocks[i].next
	} else {
		i = uint32(len(d.blocks))
		d.blocks = append(d.blocks, waiting{})
	}
	d.blocks[i] = waiting{addr: b.Addr, granted: b.Size, ref: b.Ref}
	d.record(i, stream)
	for head != 0 {
		u := head
		head = d.uses[u].next
		if d.uses[u].stream != stream {
			d.record(i, d.uses[u].stream)
		}
		d.uses[u].next = d.spareU
		d.spareU = u
	}
	if d.blocks[i].events == 0 {
		d.release(i)
		return false
	}
	d.pending++
	return true
}

// record puts an event on the stream that block i waits for, unless the stream has already got there.
func (d *deferral) record(i uint32, stream sdk.Stream) {
	e := d.dev.Record(stream)
	if d.dev.Query(e) {
		d.dev.Drop(e)
		return
	}
	for int(stream) >= len(d.queues) {
		d.queues = append(d.queues, queue{})
	}
	d.queues[stream].push(queued{e, i})
	d.blocks[i].events++
}

func (d *deferral) release(i uint32) {
	d.blocks[i] = waiting{next: d.spareB}
	d.spareB = i
}

// collect frees the blocks whose events have all completed.
func (d *deferral) collect(s *Strategy) {
	for q := range d.queues {
		for d.queues[q].size > 0 && d.dev.Query(d.queues[q].front().event) {
			d.pop(s, q)
		}
	}
}

// waitAll waits for every pending event and frees the blocks.
func (d *deferral) waitAll(s *Strategy) {
	for q := range d.queues {
		for d.queues[q].size > 0 {
			d.dev.Wait(d.queues[q].front().event)
			d.pop(s, q)
		}
	}
}

// pop drops the oldest event of queue q, which has completed, and frees its block if that was the last one.
func (d *deferral) pop(s *Strategy, q int) {
	e := d.queues[q].pop()
	d.dev.Drop(e.event)
	b := &d.blocks[e.block]
	if b.events--; b.events == 0 {
		s.freeNow(b.addr, b.granted, b.ref)
		d.release(e.block)
		d.pending--
	}
}

// holds reports whether the block was freed and is still pending. It looks through all pending blocks.
func (d *deferral) holds(b *sdk.Block) bool {
	if d.pending == 0 {
		return false
	}
	for i := range d.blocks {
		if w := &d.blocks[i]; w.events > 0 && w.addr == b.Addr && w.ref == b.Ref {
			return true
		}
	}
	return false
}

// reset forgets all blocks and drops all events.
func (d *deferral) reset() {
	for q := range d.queues {
		for d.queues[q].size > 0 {
			d.dev.Drop(d.queues[q].pop().event)
		}
	}
	d.used.Reset()
	d.uses, d.blocks = d.uses[:1], d.blocks[:1]
	d.spareU, d.spareB, d.pending = 0, 0, 0
	d.active = d.many
}

// inspect marks the pending blocks, which the heaps know as live.
func (d *deferral) inspect(in *sdk.Inspection) {
	if d.pending == 0 {
		return
	}
	type span struct{ addr, bytes uint64 }
	var waits []span
	for i := range d.blocks {
		if b := &d.blocks[i]; b.events > 0 {
			waits = append(waits, span{b.addr, b.granted})
		}
	}
	slices.SortFunc(waits, func(a, b span) int { return cmp.Compare(a.addr, b.addr) })
	for _, seg := range in.Segments {
		for i := range seg.Blocks {
			b := &seg.Blocks[i]
			// An aligned address may lie behind the first byte of the heap's block, and a heap of pages shows a block as several.
			k := sort.Search(len(waits), func(k int) bool { return waits[k].addr+waits[k].bytes > b.Addr })
			if b.State == "live" && k < len(waits) && waits[k].addr < b.Addr+b.Bytes {
				b.State = "pending"
			}
		}
	}
}

func (q *queue) front() *queued { return &q.ring[q.head] }

func (q *queue) push(e queued) {
	if q.size == len(q.ring) {
		ring := make([]queued, max(16, 2*len(q.ring)))
		for i := 0; i < q.size; i++ {
			ring[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.size)%len(q.ring)] = e
	q.size++
}

func (q *queue) pop() queued {
	e := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.size--
	return e
}
