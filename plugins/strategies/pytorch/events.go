package pytorch

import (
	"github.com/gpubench/gpubench/backends"
)

// pendingEvent is an event recorded on a stream that used a block which the program has freed since.
type pendingEvent struct {
	id    backends.EventID
	block uint32
}

// eventQueue is the queue of one stream: a ring that grows and never shrinks.
type eventQueue struct {
	ring  []pendingEvent // length is 0 or a power of two
	head  uint32
	count uint32
}

func (q *eventQueue) push(e pendingEvent) {
	if int(q.count) == len(q.ring) {
		ring := make([]pendingEvent, max(16, 2*len(q.ring)))
		for k := range q.count {
			ring[k] = *q.at(k)
		}
		q.ring, q.head = ring, 0
	}
	*q.at(q.count) = e
	q.count++
}

func (q *eventQueue) at(k uint32) *pendingEvent {
	return &q.ring[(q.head+k)&uint32(len(q.ring)-1)]
}

func (q *eventQueue) pop() pendingEvent {
	e := *q.at(0)
	q.head++
	q.count--
	return e
}

// insertEvents is insert_events: an event on every other stream that used the block, now.
func (a *Allocator) insertEvents(i uint32) {
	b := &a.blocks[i]
	for u := b.uses; u != 0; {
		n := a.useNodes[u]
		for int(n.stream) >= len(a.queues) {
			a.queues = append(a.queues, eventQueue{})
		}
		e := pendingEvent{block: i}
		if a.ev != nil {
			e.id = a.ev.Record(n.stream)
		}
		a.queues[n.stream].push(e)
		b.events++
		a.waiting++
		a.useNodes[u].next = a.spareUses
		a.spareUses = u
		u = n.next
	}
	b.uses = 0
	b.state = blockPending
}

// insertDeferred is insert_events_deferred_until_no_capture: uses recorded during a capture are the graph's own affair
// and are forgotten (remove_cudagraph_stream_uses); the others get their events now.
func (a *Allocator) insertDeferred() {
	if len(a.deferred) == 0 {
		return
	}
	for _, i := range a.deferred {
		a.waiting--
		b := &a.blocks[i]
		link := &b.uses
		for u := *link; u != 0; u = *link {
			n := &a.useNodes[u]
			if !n.capture {
				link = &n.next
				continue
			}
			*link = n.next
			n.next = a.spareUses
			a.spareUses = u
		}
		a.insertEvents(i)
		if b.events == 0 {
			a.freeBlock(i)
		}
	}
	a.deferred = a.deferred[:0]
}

// complete takes the head event off a queue and frees its block if it was the last one.
func (a *Allocator) complete(q *eventQueue) {
	e := q.pop()
	if a.ev != nil {
		a.ev.Drop(e.id)
	}
	a.waiting--
	b := &a.blocks[e.block]
	if b.events--; b.events == 0 {
		a.freeBlock(e.block)
	}
}

// processEvents is process_events: each queue up to its first event that has not completed.
func (a *Allocator) processEvents() {
	a.insertDeferred()
	for k := range a.queues {
		q := &a.queues[k]
		for q.count > 0 && (a.ev == nil || a.ev.Query(q.at(0).id)) {
			a.complete(q)
		}
	}
}

// synchronizeEvents is synchronize_and_free_events: wait for every event.
func (a *Allocator) synchronizeEvents() {
	a.st.counts.SyncAllStreams++
	a.insertDeferred()
	for k := range a.queues {
		q := &a.queues[k]
		for q.count > 0 {
			if a.ev != nil {
				a.ev.Wait(q.at(0).id)
			}
			a.complete(q)
		}
	}
}
