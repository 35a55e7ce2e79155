// Package holdback keeps freed blocks back until the streams that were recorded to use them have completed, for strategies that keep
// their free memory by stream and so need no care for the block's own one (PyTorch's record_stream).
package holdback

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// Holder holds blocks named by a number above 0 of the owner's choice. Make one with New.
type Holder struct {
	dev    backends.Streams // nil: the device has no events, nothing is held
	uses   []uint32         // by block: head of its list of using streams
	list   []use            // [0] unused
	spare  uint32
	events []uint32 // by block: events that it waits for; 0: not held
	queues []queue  // by stream
	held   int
}

type use struct {
	stream sdk.Stream
	next   uint32
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

// New returns a holder over the device's events.
func New(env *sdk.Env) *Holder {
	h := &Holder{list: make([]use, 1)}
	h.dev, _ = backends.As[backends.Streams](env.Device)
	return h
}

// Held returns the number of blocks held back.
func (h *Holder) Held() int { return h.held }

// Holds reports whether the block is held back.
func (h *Holder) Holds(block uint32) bool {
	return int(block) < len(h.events) && h.events[block] != 0
}

func (h *Holder) room(block uint32) {
	for int(block) >= len(h.uses) {
		h.uses = append(h.uses, 0)
		h.events = append(h.events, 0)
	}
}

// Use notes that the live block is used on a stream.
func (h *Holder) Use(block uint32, s sdk.Stream) {
	if h.dev == nil {
		return
	}
	h.room(block)
	for u := h.uses[block]; u != 0; u = h.list[u].next {
		if h.list[u].stream == s {
			return
		}
	}
	u := h.spare
	if u != 0 {
		h.spare = h.list[u].next
	} else {
		u = uint32(len(h.list))
		h.list = append(h.list, use{})
	}
	h.list[u] = use{s, h.uses[block]}
	h.uses[block] = u
}

// Put takes a freed block; false when no stream other than its own holds it back, so that the caller frees it at once.
func (h *Holder) Put(block uint32, own sdk.Stream) bool {
	if int(block) >= len(h.uses) {
		return false
	}
	for u := h.uses[block]; u != 0; u = h.uses[block] {
		if s := h.list[u].stream; s != own {
			h.record(block, s)
		}
		h.uses[block] = h.list[u].next
		h.list[u].next = h.spare
		h.spare = u
	}
	if h.events[block] == 0 {
		return false
	}
	h.held++
	return true
}

// record puts an event on the stream, unless the stream has already got there.
func (h *Holder) record(block uint32, s sdk.Stream) {
	e := h.dev.Record(s)
	if h.dev.Query(e) {
		h.dev.Drop(e)
		return
	}
	for int(s) >= len(h.queues) {
		h.queues = append(h.queues, queue{})
	}
	h.queues[s].push(queued{e, block})
	h.events[block]++
}

// Collect calls free for the blocks whose events have all completed.
func (h *Holder) Collect(free func(block uint32)) {
	if h.held == 0 {
		return
	}
	for q := range h.queues {
		for h.queues[q].size > 0 && h.dev.Query(h.queues[q].ring[h.queues[q].head].event) {
			h.pop(&h.queues[q], free)
		}
	}
}

// WaitAll waits for every event and calls free for all blocks; it reports whether there were any.
func (h *Holder) WaitAll(free func(block uint32)) bool {
	any := h.held > 0
	for q := range h.queues {
		for h.queues[q].size > 0 {
			h.dev.Wait(h.queues[q].ring[h.queues[q].head].event)
			h.pop(&h.queues[q], free)
		}
	}
	return any
}

func (h *Holder) pop(q *queue, free func(block uint32)) {
	e := q.pop()
	h.dev.Drop(e.event)
	if h.events[e.block]--; h.events[e.block] == 0 {
		h.held--
		free(e.block)
	}
}

// Close drops all events.
func (h *Holder) Close() {
	for q := range h.queues {
		for h.queues[q].size > 0 {
			h.dev.Drop(h.queues[q].pop().event)
		}
	}
}

func (q *queue) push(e queued) {
	if q.size == len(q.ring) {
		ring := make([]queued, max(16, 2*len(q.ring)))
		for i := range q.size {
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
