package cudaasync

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// stream is one stream's time line.
type stream struct {
	clock     []uint64 // vector clock: clock[a] is the position of stream a that this stream is behind; shorter = 0
	position  uint64   // operations of this stream so far: frees
	completed uint64   // position that the device is known to have reached
	pending   blocks.SizeIndex
	events    ring // one for each free whose completion is not known
}

// point is a free: its position and the device's event behind it.
type point struct {
	position uint64
	event    backends.EventID
}

// ring is a queue that grows.
type ring struct {
	buf        []point
	head, size int
}

func (q *ring) push(p point) {
	if q.size == len(q.buf) {
		buf := make([]point, max(16, 2*len(q.buf)))
		for i := range q.size {
			buf[i] = q.buf[(q.head+i)%len(q.buf)]
		}
		q.buf, q.head = buf, 0
	}
	q.buf[(q.head+q.size)%len(q.buf)] = p
	q.size++
}

func (q *ring) front() *point { return &q.buf[q.head] }

func (q *ring) pop() point {
	p := q.buf[q.head]
	q.head = (q.head + 1) % len(q.buf)
	q.size--
	return p
}

// of returns the stream, made at its first sight.
func (p *Pool) of(s sdk.Stream) *stream {
	for int(s) >= len(p.streams) {
		p.streams = append(p.streams, stream{})
	}
	return &p.streams[s]
}

// follow puts s behind everything that stream on has issued or is behind itself.
func (p *Pool) follow(s, on sdk.Stream) {
	p.of(max(s, on))
	to, from := &p.streams[s], &p.streams[on]
	for len(to.clock) < max(len(from.clock), int(on)+1) {
		to.clock = append(to.clock, 0)
	}
	for i, c := range from.clock {
		to.clock[i] = max(to.clock[i], c)
	}
	to.clock[on] = max(to.clock[on], from.position)
}

// StreamWait notes that s waits for what stream on has issued so far.
func (p *Pool) StreamWait(s, on sdk.Stream) trace.Status {
	if s != on {
		p.follow(s, on)
	}
	return trace.StatusOK
}

// wait makes s wait on the device for stream on.
func (p *Pool) wait(s, on sdk.Stream) {
	e := p.events.Record(on)
	p.events.StreamWait(s, e)
	p.events.Drop(e)
	p.follow(s, on)
}

// Use notes that a block is used on a stream; the free will wait for it.
func (p *Pool) Use(b *sdk.Block, s sdk.Stream) trace.Status {
	if p.events == nil || b.Size == 0 {
		return trace.StatusOK
	}
	i := p.table.Deref(b.Ref)
	if i == blocks.None || p.table.B[i].Free {
		return trace.StatusInvalid
	}
	for u := p.uses.head(i); u != 0; u = p.uses.list[u].next {
		if p.uses.list[u].stream == s {
			return trace.StatusOK
		}
	}
	p.uses.add(i, s)
	return trace.StatusOK
}

// uses holds, by block, what a list of streams has to do with it: the streams that use a live block, and then the points that
// a freed one waits for besides its own stream's.
type uses struct {
	heads []uint32 // by block
	list  []use    // [0] unused
	spare uint32
}

type use struct {
	stream   sdk.Stream
	position uint64
	next     uint32
}

func (u *uses) head(block uint32) uint32 {
	if int(block) < len(u.heads) {
		return u.heads[block]
	}
	return 0
}

func (u *uses) add(block uint32, s sdk.Stream) {
	for int(block) >= len(u.heads) {
		u.heads = append(u.heads, 0)
	}
	if len(u.list) == 0 {
		u.list = append(u.list, use{})
	}
	i := u.spare
	if i != 0 {
		u.spare = u.list[i].next
	} else {
		i = uint32(len(u.list))
		u.list = append(u.list, use{})
	}
	u.list[i] = use{stream: s, next: u.heads[block]}
	u.heads[block] = i
}

// drop forgets the list of a block.
func (u *uses) drop(block uint32) {
	for i := u.head(block); i != 0; {
		next := u.list[i].next
		u.list[i].next = u.spare
		u.spare = i
		u.heads[block] = next
		i = next
	}
}

// move appends the list of one block to that of another.
func (u *uses) move(from, to uint32) {
	for i := u.head(from); i != 0; i = u.heads[from] {
		u.heads[from] = u.list[i].next
		for int(to) >= len(u.heads) {
			u.heads = append(u.heads, 0)
		}
		u.list[i].next = u.heads[to]
		u.heads[to] = i
	}
}

// collect asks the device which frees it has completed.
func (p *Pool) collect() {
	for s := range p.streams {
		st := &p.streams[s]
		before := st.completed
		for st.events.size > 0 && p.events.Query(st.events.front().event) {
			pt := st.events.pop()
			p.events.Drop(pt.event)
			st.completed = pt.position
		}
		if st.completed != before {
			p.changed = true
		}
	}
	if p.changed {
		p.settle()
	}
}

// settle moves pending blocks whose free, and whatever it waited for, is complete to the common index.
func (p *Pool) settle() {
	p.changed = false
	for s := range p.streams {
		p.ready = p.ready[:0]
		st := &p.streams[s]
		if st.pending.Len() == 0 {
			continue
		}
		for i := st.pending.BestFit(p.table, 1); i != blocks.None; i = st.pending.After(p.table, i) {
			if p.freedAt[i] <= st.completed && p.usesComplete(i) {
				p.ready = append(p.ready, i)
			}
		}
		for _, i := range p.ready {
			st.pending.Remove(p.table, i)
			p.uses.drop(i)
			p.putCompleted(i)
		}
	}
}

func (p *Pool) usesComplete(i uint32) bool {
	for u := p.uses.head(i); u != 0; u = p.uses.list[u].next {
		if x := &p.uses.list[u]; p.of(x.stream).completed < x.position {
			return false
		}
	}
	return true
}

// Completed hears of progress: what the device says at a synchronisation counts, and then unused backing above the threshold
// goes back.
func (p *Pool) Completed(s sdk.Stream, all, hostWaited bool) trace.Status {
	if !hostWaited {
		return trace.StatusOK
	}
	if p.events != nil {
		p.collect()
	}
	p.release(p.opt.ReleaseThreshold)
	return trace.StatusOK
}
