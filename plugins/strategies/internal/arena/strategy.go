package arena

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// maxRequestBytes bounds a request so that rounding cannot overflow; no device is as large.
const maxRequestBytes = 1 << 61

// Strategy is a strategy over heaps. It implements sdk.Strategy, StreamUser, Trimmer, WrongFreer, Resetter and Inspector.
type Strategy struct {
	name     string
	dev      backends.Device
	kind     Kind
	opt      Options
	limit    uint64    // bytes that the segments may have in all
	taken    uint64    // bytes of the segments
	segments []segment // in the order in which they were made
	byAddr   []int     // indexes into segments, in address order
	held     deferral
}

type segment struct {
	addr, bytes uint64
	live        uint64 // live blocks, pending ones included
	heap        Heap
}

// Open opens a strategy over env with heaps of the given kind.
func Open(name string, env *sdk.Env, kind Kind, opt Options) (*Strategy, error) {
	s := &Strategy{name: name, dev: env.Device, kind: kind, opt: opt, limit: Limit(env, kind.UnitBytes)}
	s.held.init(env)
	if s.limit == 0 {
		return nil, fmt.Errorf("%s: the capacity of %d bytes is less than one unit of %d bytes; give a larger capacity", name, env.CapacityBytes, kind.UnitBytes)
	}
	if opt.Grow {
		if opt.SegmentBytes == 0 {
			return nil, fmt.Errorf("%s: option segment_bytes is 0; give the size of a segment", name)
		}
		return s, nil
	}
	if st := s.addSegment(s.limit); st != trace.CallOK {
		return nil, fmt.Errorf("%s: arena of %d bytes from device %s: %w", name, s.limit, s.dev.Info().Name, st.Err())
	}
	return s, nil
}

// Limit returns what one segment may have at most: the capacity, but no more than the whole pages of the device, rounded
// down to units.
func Limit(env *sdk.Env, unit uint64) uint64 {
	limit, info := env.CapacityBytes, env.Device.Info()
	if page := info.PageBytes; page > 0 && roundUp(min(limit, maxRequestBytes), page) > info.TotalBytes {
		limit = info.TotalBytes / page * page
	}
	return limit / unit * unit
}

// Alloc places a block in the first heap that can serve it.
func (s *Strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > maxRequestBytes {
		return trace.StatusFailed
	}
	if s.held.pending != 0 {
		s.held.collect(s)
	}
	if len(s.segments) == 1 && !s.opt.Grow { // the common case, without a loop and a call
		seg := &s.segments[0]
		if addr, granted, ref, ok := seg.heap.Alloc(r.Size, r.Align); ok {
			seg.live++
			b.Addr, b.Size, b.Ref = addr, granted, ref
			return trace.StatusOK
		}
	} else if s.place(r, b) {
		return trace.StatusOK
	}
	return s.allocSlow(r, b)
}

// allocSlow grows, waits for pending frees, and gives back empty segments, in this order, until the request is served.
func (s *Strategy) allocSlow(r *sdk.Request, b *sdk.Block) trace.Status {
	if s.grow(r) && s.place(r, b) {
		return trace.StatusOK
	}
	if s.held.pending != 0 {
		s.held.waitAll(s)
		if s.place(r, b) {
			return trace.StatusRecovered
		}
	}
	if s.opt.Grow && s.dropEmpty() > 0 && s.grow(r) && s.place(r, b) {
		return trace.StatusRecovered
	}
	return trace.StatusFailed
}

func (s *Strategy) place(r *sdk.Request, b *sdk.Block) bool {
	for i := range s.segments {
		if s.allocFrom(&s.segments[i], r, b) {
			return true
		}
	}
	return false
}

func (s *Strategy) allocFrom(seg *segment, r *sdk.Request, b *sdk.Block) bool {
	addr, granted, ref, ok := seg.heap.Alloc(r.Size, r.Align)
	if !ok {
		return false
	}
	seg.live++
	b.Addr, b.Size, b.Ref = addr, granted, ref
	return true
}

// Free takes a block back, at once or when its streams have completed.
func (s *Strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	if s.held.active && s.held.put(b, stream) {
		return trace.StatusOK
	}
	if len(s.segments) != 1 {
		return s.freeNow(b.Addr, b.Size, b.Ref)
	}
	seg := &s.segments[0]
	if !seg.heap.Free(b.Addr, b.Size, b.Ref) {
		return trace.StatusInvalid
	}
	seg.live--
	return trace.StatusOK
}

func (s *Strategy) freeNow(addr, granted, ref uint64) trace.Status {
	seg := s.segmentOf(addr)
	if seg == nil || !seg.heap.Free(addr, granted, ref) {
		return trace.StatusInvalid
	}
	seg.live--
	return trace.StatusOK
}

func (s *Strategy) segmentOf(addr uint64) *segment {
	i := sort.Search(len(s.byAddr), func(i int) bool { return s.segments[s.byAddr[i]].addr > addr })
	if i == 0 {
		return nil
	}
	return &s.segments[s.byAddr[i-1]]
}

// Use notes that the block is used on a stream, which delays its reuse after the free.
func (s *Strategy) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size != 0 {
		s.held.use(b.Addr, stream)
	}
	return trace.StatusOK
}

// Trim gives segments without a live block back to the device; the arena of a strategy that does not grow stays.
func (s *Strategy) Trim() trace.Status {
	if s.held.pending != 0 {
		s.held.waitAll(s)
	}
	if s.opt.Grow {
		s.dropEmpty()
	}
	return trace.StatusOK
}

// FreeWrong detects a deliberately wrong free and changes nothing. A heap that takes the block for the live one of a later
// tenant cannot tell them apart: that is StatusUnsupported.
func (s *Strategy) FreeWrong(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 || s.held.holds(b) {
		return trace.StatusInvalid
	}
	seg := s.segmentOf(b.Addr)
	if seg == nil {
		return trace.StatusInvalid
	}
	if seg.heap.Live(b.Addr, b.Size, b.Ref) {
		return trace.StatusUnsupported
	}
	return trace.StatusInvalid
}

// Reset frees every block and returns to the state after Open.
func (s *Strategy) Reset() trace.Status {
	s.held.reset()
	for i := range s.segments {
		s.segments[i].live = 0
		if !s.opt.Grow {
			s.segments[i].heap.Reset()
		}
	}
	if s.opt.Grow {
		s.dropEmpty()
	}
	return trace.StatusOK
}

// Close gives all segments back.
func (s *Strategy) Close() error {
	s.held.reset()
	var first error
	for _, seg := range s.segments {
		if st := s.dev.Free(seg.addr); st != trace.CallOK && first == nil {
			first = fmt.Errorf("%s: give back segment of %d bytes at %#x: %w", s.name, seg.bytes, seg.addr, st.Err())
		}
	}
	s.segments, s.byAddr, s.taken = nil, nil, 0
	return first
}

// Inspect shows the heaps in the order in which their segments were made.
func (s *Strategy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{
		"segments": uint64(len(s.segments)), "segment_bytes": s.taken, "pending_frees": uint64(s.held.pending),
	}}
	for i := range s.segments {
		s.segments[i].heap.Inspect(&in)
	}
	s.held.inspect(&in)
	return in
}

// grow adds a segment that can serve the request; false when the limit or the device refuses.
func (s *Strategy) grow(r *sdk.Request) bool {
	if !s.opt.Grow {
		return false
	}
	page := max(s.dev.Info().PageBytes, s.kind.UnitBytes)
	need := roundUp(s.kind.Need(r.Size, r.Align), page)
	want := max(roundUp(min(s.opt.SegmentBytes, maxRequestBytes), page), need)
	for _, bytes := range [...]uint64{want, need} {
		if bytes <= s.limit-s.taken && s.addSegment(bytes) == trace.CallOK {
			return true
		}
		if want == need {
			break
		}
	}
	return false
}

func (s *Strategy) addSegment(bytes uint64) trace.CallStatus {
	addr, st := s.dev.Malloc(bytes)
	if st != trace.CallOK {
		return st
	}
	s.taken += bytes
	s.segments = append(s.segments, segment{addr: addr, bytes: bytes, heap: s.kind.New(addr, bytes)})
	s.index()
	return trace.CallOK
}

// dropEmpty gives the segments without a live block back and returns how many there were.
func (s *Strategy) dropEmpty() (n int) {
	s.segments = slices.DeleteFunc(s.segments, func(seg segment) bool {
		if seg.live != 0 || s.dev.Free(seg.addr) != trace.CallOK {
			return false
		}
		s.taken -= seg.bytes
		n++
		return true
	})
	s.index()
	return n
}

func (s *Strategy) index() {
	s.byAddr = s.byAddr[:0]
	for i := range s.segments {
		s.byAddr = append(s.byAddr, i)
	}
	slices.SortFunc(s.byAddr, func(a, b int) int {
		if s.segments[a].addr < s.segments[b].addr {
			return -1
		}
		return 1
	})
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// The interfaces that the type promises.
var (
	_ sdk.Strategy   = (*Strategy)(nil)
	_ sdk.StreamUser = (*Strategy)(nil)
	_ sdk.Trimmer    = (*Strategy)(nil)
	_ sdk.WrongFreer = (*Strategy)(nil)
	_ sdk.Resetter   = (*Strategy)(nil)
	_ sdk.Inspector  = (*Strategy)(nil)
)
