package cudaasync

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	pageBytes = 2 << 20
	// maxRequestBytes bounds a request so that rounding cannot overflow; no device is as large.
	maxRequestBytes = 1 << 61
)

// Pool is a memory pool of the device.
type Pool struct {
	dev    backends.Device
	events backends.Streams // nil: the device has none, or the trace has one stream and nothing waits
	opt    Options
	limit  uint64

	table    *blocks.Table
	common   blocks.SizeIndex // completed blocks
	segments []segment
	freedAt  []uint64 // by block: the position of its free
	streams  []stream
	uses     uses
	changed  bool
	ready    []uint32 // scratch of settle

	reserved, used         uint64 // used: bytes of live blocks
	reservedHigh, usedHigh uint64
	internalDependencies   uint64
}

// segment is backing from the device: blocks linked in address order from first.
type segment struct {
	addr, bytes uint64
	first       uint32
}

func newPool(env *sdk.Env, opt Options) *Pool {
	p := &Pool{dev: env.Device, opt: opt, limit: env.CapacityBytes, table: blocks.NewTable(64)}
	if len(env.Streams) > 1 {
		p.events, _ = backends.As[backends.Streams](env.Device)
	}
	return p
}

// Alloc serves a request by the rules of the package comment.
func (p *Pool) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > maxRequestBytes || r.Align > pageBytes {
		return trace.StatusFailed
	}
	n := (r.Size + UnitBytes - 1) &^ (UnitBytes - 1)
	need := n
	if r.Align > UnitBytes { // a block large enough for the gap in front, whatever its address
		need += r.Align - UnitBytes
	}
	if i, from := p.find(r.Stream, need); i != blocks.None {
		p.take(i, from, n, r.Align, b)
		return trace.StatusOK
	}
	if i := p.grow(need); i != blocks.None {
		p.take(i, &p.common, n, r.Align, b)
		return trace.StatusOK
	}
	if p.opt.AllowInternalDependencies && p.events != nil {
		if i, on := p.anyStream(need); i != blocks.None {
			p.wait(r.Stream, on)
			p.internalDependencies++
			p.take(i, &p.streams[on].pending, n, r.Align, b)
			return trace.StatusRecovered
		}
	}
	return trace.StatusFailed
}

// find follows the rules that need neither memory nor a new wait.
func (p *Pool) find(s sdk.Stream, need uint64) (uint32, *blocks.SizeIndex) {
	if p.events == nil {
		return p.common.BestFit(p.table, need), &p.common
	}
	own := &p.of(s).pending
	i, j := own.BestFit(p.table, need), p.common.BestFit(p.table, need)
	if i != blocks.None && (j == blocks.None || p.better(i, j)) {
		return i, own
	}
	if j != blocks.None {
		return j, &p.common
	}
	if p.opt.FollowEventDependencies {
		if i, from := p.findDependent(s, need); i != blocks.None {
			return i, from
		}
	}
	if p.opt.AllowOpportunistic {
		p.collect()
		return p.common.BestFit(p.table, need), &p.common
	}
	return blocks.None, nil
}

// better reports whether block i comes before block j in the order (size, address).
func (p *Pool) better(i, j uint32) bool {
	a, b := &p.table.B[i], &p.table.B[j]
	return a.Size < b.Size || a.Size == b.Size && a.Addr < b.Addr
}

// findDependent looks for a block whose free s is ordered behind.
func (p *Pool) findDependent(s sdk.Stream, need uint64) (best uint32, from *blocks.SizeIndex) {
	for on, position := range p.streams[s].clock {
		if position == 0 || on == int(s) {
			continue
		}
		x := &p.streams[on].pending
		for i := x.BestFit(p.table, need); i != blocks.None; i = x.After(p.table, i) {
			if p.freedAt[i] <= position {
				if best == blocks.None || p.better(i, best) {
					best, from = i, x
				}
				break
			}
		}
	}
	return best, from
}

// anyStream looks through the pending blocks of all streams.
func (p *Pool) anyStream(need uint64) (best uint32, on sdk.Stream) {
	for s := range p.streams {
		i := p.streams[s].pending.BestFit(p.table, need)
		if i != blocks.None && (best == blocks.None || p.better(i, best)) {
			best, on = i, sdk.Stream(s)
		}
	}
	return best, on
}

// take cuts n bytes from free block i, which is in an index, behind the gap that an alignment costs. What is left stays in
// that index.
func (p *Pool) take(i uint32, from *blocks.SizeIndex, n, align uint64, b *sdk.Block) {
	from.Remove(p.table, i)
	if align > UnitBytes {
		if gap := -p.table.B[i].Addr & (align - 1); gap != 0 {
			rest := p.split(i, gap)
			from.Insert(p.table, i)
			i = rest
		}
	}
	if p.table.B[i].Size > n {
		from.Insert(p.table, p.split(i, n))
	}
	p.uses.drop(i)
	x := &p.table.B[i]
	x.Free, x.Mark = false, false
	p.used += n
	p.usedHigh = max(p.usedHigh, p.used)
	b.Addr, b.Size, b.Ref = x.Addr, n, p.table.Ref(i)
}

// split cuts free block i after size bytes; the rest waits for the same points.
func (p *Pool) split(i uint32, size uint64) uint32 {
	rest := p.table.SplitHigh(i, size)
	p.room(rest)
	p.freedAt[rest] = p.freedAt[i]
	x, y := &p.table.B[i], &p.table.B[rest]
	y.Free, y.Mark, y.User = true, x.Mark, x.User
	for u := p.uses.head(i); u != 0; u = p.uses.list[u].next {
		p.uses.add(rest, p.uses.list[u].stream)
		p.uses.list[p.uses.heads[rest]].position = p.uses.list[u].position
	}
	return rest
}

func (p *Pool) room(i uint32) {
	for int(i) >= len(p.freedAt) {
		p.freedAt = append(p.freedAt, 0)
	}
}

// Free puts a block at the end of the stream's work.
func (p *Pool) Free(b *sdk.Block, s sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := p.table.Deref(b.Ref)
	if i == blocks.None || p.table.B[i].Free || p.table.B[i].Addr != b.Addr {
		return trace.StatusInvalid
	}
	p.used -= p.table.B[i].Size
	p.table.B[i].Free = true
	if p.events == nil {
		p.putCompleted(i)
		return trace.StatusOK
	}
	for u := p.uses.head(i); u != 0; u = p.uses.list[u].next {
		x := &p.uses.list[u]
		if x.stream != s {
			e := p.record(x.stream)
			p.events.StreamWait(s, e)
			p.follow(s, x.stream)
		}
		x.position = p.of(x.stream).position
	}
	p.record(s)
	p.freedAt[i] = p.of(s).position
	p.putPending(i, s)
	if p.opt.AllowOpportunistic {
		p.collect()
	}
	return trace.StatusOK
}

// record marks a point of a stream.
func (p *Pool) record(s sdk.Stream) backends.EventID {
	st := p.of(s)
	st.position++
	e := p.events.Record(s)
	st.events.push(point{position: st.position, event: e})
	return e
}

// putPending files a freed block under its stream, merged with neighbours that wait for the same stream.
func (p *Pool) putPending(i uint32, s sdk.Stream) {
	index := &p.streams[s].pending
	join := func(a, b uint32) { // b follows a and goes
		p.freedAt[a] = max(p.freedAt[a], p.freedAt[b])
		p.uses.move(b, a)
		p.table.Absorb(a, b)
	}
	waits := func(j uint32) bool {
		x := &p.table.B[j]
		return x.Free && x.Mark && x.User == uint32(s)
	}
	if next := p.table.B[i].Next; waits(next) {
		index.Remove(p.table, next)
		join(i, next)
	}
	if prev := p.table.B[i].Prev; waits(prev) {
		index.Remove(p.table, prev)
		join(prev, i)
		i = prev
	}
	x := &p.table.B[i]
	x.Free, x.Mark, x.User = true, true, uint32(s)
	index.Insert(p.table, i)
}

// putCompleted files a block whose free is complete, merged with its completed neighbours.
func (p *Pool) putCompleted(i uint32) {
	ready := func(j uint32) bool { return p.table.B[j].Free && !p.table.B[j].Mark }
	if next := p.table.B[i].Next; ready(next) {
		p.common.Remove(p.table, next)
		p.table.Absorb(i, next)
	}
	if prev := p.table.B[i].Prev; ready(prev) {
		p.common.Remove(p.table, prev)
		p.table.Absorb(prev, i)
		i = prev
	}
	p.table.B[i].Free, p.table.B[i].Mark = true, false
	p.common.Insert(p.table, i)
}

// grow takes a segment for need bytes and returns its one free block, which is in the common index.
func (p *Pool) grow(need uint64) uint32 {
	up := func(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
	if p.opt.SegmentBytes > maxRequestBytes {
		return blocks.None
	}
	for _, bytes := range [...]uint64{up(need, up(p.opt.SegmentBytes, pageBytes)), up(need, pageBytes)} {
		if bytes > p.limit-min(p.limit, p.reserved) {
			continue
		}
		addr, st := p.dev.Malloc(bytes)
		if st == trace.CallOK {
			return p.addSegment(addr, bytes)
		}
	}
	return blocks.None
}

func (p *Pool) addSegment(addr, bytes uint64) uint32 {
	i := p.table.New(addr, bytes)
	p.room(i)
	p.table.B[i].Free = true
	p.common.Insert(p.table, i)
	at, _ := slices.BinarySearchFunc(p.segments, addr, func(s segment, a uint64) int { return compare(s.addr, a) })
	p.segments = slices.Insert(p.segments, at, segment{addr, bytes, i})
	p.reserved += bytes
	p.reservedHigh = max(p.reservedHigh, p.reserved)
	return i
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// release gives unused segments back, from the top, until at most keep bytes are reserved.
func (p *Pool) release(keep uint64) {
	for k := len(p.segments) - 1; k >= 0 && p.reserved > keep; k-- {
		s := &p.segments[k]
		b := &p.table.B[s.first]
		if !b.Free || b.Mark || b.Size != s.bytes {
			continue
		}
		if p.dev.Free(s.addr) != trace.CallOK {
			continue
		}
		p.common.Remove(p.table, s.first)
		p.table.Release(s.first)
		p.reserved -= s.bytes
		p.segments = slices.Delete(p.segments, k, k+1)
	}
}

// Trim gives back all unused backing: cudaMemPoolTrimTo(0).
func (p *Pool) Trim() trace.Status {
	if p.events != nil {
		p.collect()
	}
	p.release(0)
	return trace.StatusOK
}

// FreeWrong detects a deliberately wrong free.
func (p *Pool) FreeWrong(b *sdk.Block, s sdk.Stream) trace.Status {
	i := p.table.Deref(b.Ref)
	if b.Size == 0 || i == blocks.None || p.table.B[i].Free || p.table.B[i].Addr != b.Addr {
		return trace.StatusInvalid
	}
	return trace.StatusUnsupported
}

// Close gives all backing back.
func (p *Pool) Close() error {
	if p.events != nil {
		for s := range p.streams {
			for p.streams[s].events.size > 0 {
				p.events.Drop(p.streams[s].events.pop().event)
			}
		}
	}
	var first error
	for _, s := range p.segments {
		if st := p.dev.Free(s.addr); st != trace.CallOK && first == nil {
			first = fmt.Errorf("%s: give back segment of %d bytes at %#x: %w", Name, s.bytes, s.addr, st.Err())
		}
	}
	p.segments = nil
	return first
}

// Inspect shows the segments in address order and the counters of the pool's attributes.
func (p *Pool) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{
		"reserved_mem_current": p.reserved, "reserved_mem_high": p.reservedHigh, "used_mem_current": p.used, "used_mem_high": p.usedHigh,
		"internal_dependencies": p.internalDependencies,
	}}
	for _, s := range p.segments {
		seg := sdk.InspectedSegment{Addr: s.addr, Bytes: s.bytes}
		for i := s.first; i != blocks.None; i = p.table.B[i].Next {
			b := &p.table.B[i]
			state := "live"
			if b.Free && b.Mark {
				state = "pending"
			} else if b.Free {
				state = "free"
			}
			seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
		}
		in.Segments = append(in.Segments, seg)
	}
	in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "completed", Len: uint64(p.common.Len()), Bytes: p.common.Bytes()})
	in.MetaBytes = p.table.MetaBytes() + uint64(cap(p.freedAt))*8 + uint64(cap(p.uses.list))*uint64(unsafe.Sizeof(use{})) + uint64(cap(p.uses.heads))*4
	for s := range p.streams {
		in.MetaBytes += uint64(cap(p.streams[s].clock))*8 + uint64(cap(p.streams[s].events.buf))*uint64(unsafe.Sizeof(point{}))
	}
	return in
}

// The interfaces that the type promises.
var (
	_ sdk.Strategy     = (*Pool)(nil)
	_ sdk.StreamUser   = (*Pool)(nil)
	_ sdk.StreamWaiter = (*Pool)(nil)
	_ sdk.Completer    = (*Pool)(nil)
	_ sdk.Trimmer      = (*Pool)(nil)
	_ sdk.Setter       = (*Pool)(nil)
	_ sdk.WrongFreer   = (*Pool)(nil)
	_ sdk.Inspector    = (*Pool)(nil)
)
