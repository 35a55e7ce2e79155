package ledger

import (
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/trace"
)

// reference is the ledger told as plainly as possible: two lists, and every figure computed anew after every event. It
// knows malloc, free, mem-info, alloc and free; that is what the ordered structure of the real one is for.
type reference struct {
	cfg    Config
	segs   []refSegment
	blocks []*refBlock
	e      Exact
	states []refState
	times  []int64
	codes  []ViolationCount
	found  []Violation
	hostAt uint64
}

type refSegment struct{ addr, size uint64 }

type refBlock struct {
	slot      uint32
	handle    trace.Handle
	addr      uint64
	requested uint64
	granted   uint64
	inBooks   bool
}

// refState is the state after an event.
type refState struct {
	live, granted, blocks, reserved, device uint64
	gaps                                    []uint64
}

func newReference(cfg Config) *reference {
	r := &reference{cfg: cfg}
	r.e.Peak = Peak{LiveEvent: -1, GrantedEvent: -1, ReservedEvent: -1, DeviceEvent: -1, SpilledEvent: -1}
	r.e.Fragmentation.ExternalMaxEvent = -1
	return r
}

func (r *reference) breach(event uint64, h trace.Handle, check Check, code Code) {
	r.e.ViolationsTotal++
	if len(r.found) < MaxStoredViolations {
		r.found = append(r.found, Violation{Event: int64(event), Handle: uint64(h), Check: check, Code: code})
	}
	for i := range r.codes {
		if r.codes[i].Code == code && r.codes[i].Check == check {
			r.codes[i].Count++
			return
		}
	}
	r.codes = append(r.codes, ViolationCount{check, code, 1})
}

func (r *reference) state() refState {
	s := refState{}
	slices.SortFunc(r.segs, func(a, b refSegment) int { return int(int64(a.addr) - int64(b.addr)) })
	for _, b := range r.blocks {
		s.live += b.requested
		s.granted += b.granted
		s.blocks++
	}
	for _, g := range r.segs {
		s.reserved += g.size
		s.device += r.charge(g.size)
		at := g.addr
		for _, b := range r.inside(g) {
			if b.addr > at {
				s.gaps = append(s.gaps, b.addr-at)
			}
			at = b.addr + b.granted
		}
		if end := g.addr + g.size; end > at {
			s.gaps = append(s.gaps, end-at)
		}
	}
	return s
}

// inside returns the blocks in the books of a segment, by address.
func (r *reference) inside(g refSegment) (list []*refBlock) {
	for _, b := range r.blocks {
		if b.inBooks && b.addr >= g.addr && b.addr < g.addr+g.size {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *refBlock) int { return int(int64(a.addr) - int64(b.addr)) })
	return list
}

func (r *reference) charge(n uint64) uint64 {
	p := max(r.cfg.DevicePageBytes, 1)
	return (n + p - 1) / p * p
}

func (s *refState) external() Ratio {
	var total, largest uint64
	for _, g := range s.gaps {
		total += g
		largest = max(largest, g)
	}
	if total == 0 {
		return Ratio{}
	}
	return Ratio{float64(total-largest) / float64(total), largest, total}
}

func (s *refState) internal() Ratio {
	x := Ratio{PartBytes: s.live, TotalBytes: s.granted}
	if s.granted > 0 && s.granted >= s.live {
		x.Value = float64(s.granted-s.live) / float64(s.granted)
	}
	return x
}

func (s *refState) below(class uint64) (sum uint64) {
	for _, g := range s.gaps {
		if g < class {
			sum += g
		}
	}
	return sum
}

func (r *reference) feed(s *script) {
	next := 0
	for ; next < len(s.calls) && s.calls[next].Event == trace.EventOpen; next++ {
		r.call(&s.calls[next], trace.EventOpen)
	}
	if start := r.state(); start.reserved > 0 { // peaks before the first event keep −1
		r.e.Peak.ReservedBytes, r.e.Peak.DeviceBytes = start.reserved, start.device
	}
	for i := range s.events {
		ev, o := &s.events[i], &s.outcomes[i]
		from := next
		for next < len(s.calls) && s.calls[next].Event == uint64(i) {
			next++
		}
		n := uint64(i)
		if ev.Kind == trace.KindFree {
			k := slices.IndexFunc(r.blocks, func(b *refBlock) bool { return b.slot == ev.Slot && b.handle == ev.Handle })
			switch {
			case k < 0 && o.Status.Placed():
				r.breach(n, ev.Handle, CheckConservation, CodeDoubleFree)
			case k >= 0 && o.Status == trace.StatusSkipped:
				r.breach(n, ev.Handle, CheckConservation, CodeSkippedLive)
			case k >= 0 && o.Status == trace.StatusInvalid:
				r.breach(n, ev.Handle, CheckConservation, CodeFreeDenied)
			}
			if k >= 0 {
				r.blocks = slices.Delete(r.blocks, k, k+1)
			}
		}
		for j := from; j < next; j++ {
			r.call(&s.calls[j], n)
		}
		if ev.Kind == trace.KindAlloc {
			r.alloc(ev, o, n)
		}
		r.after(n, s.times)
	}
	r.times = s.times
}

func (r *reference) call(c *trace.Call, n uint64) {
	event := n
	switch {
	case c.Kind == trace.CallMalloc && c.Status == trace.CallOK:
		for _, g := range r.segs {
			if c.Addr < g.addr+g.size && g.addr < c.Addr+c.Size {
				r.breach(event, 0, CheckConservation, CodeDeviceOverlap)
				return
			}
		}
		r.segs = append(r.segs, refSegment{c.Addr, c.Size})
		if s := r.state(); r.cfg.DeviceTotalBytes != 0 && s.device > r.cfg.DeviceTotalBytes {
			r.breach(event, 0, CheckConservation, CodeOverCapacity)
		}
	case c.Kind == trace.CallFree:
		k := slices.IndexFunc(r.segs, func(g refSegment) bool { return g.addr == c.Addr })
		if k < 0 {
			r.breach(event, 0, CheckConservation, CodeUnknownFree)
			return
		}
		for _, b := range r.inside(r.segs[k]) {
			r.breach(event, b.handle, CheckConservation, CodeSegmentInUse)
			b.inBooks = false
		}
		r.segs = slices.Delete(r.segs, k, k+1)
	}
}

func (r *reference) alloc(ev *trace.Event, o *trace.Outcome, n uint64) {
	a := &r.e.Allocs
	a.Attempted++
	a.AttemptedBytes += ev.Size
	if !o.Status.Placed() {
		a.Failed++
		a.FailedBytes += ev.Size
		r.failed(ev, n)
		if o.Addr != 0 || o.Granted != 0 {
			r.breach(n, ev.Handle, CheckNoTrace, CodeFailedTrace)
		}
		return
	}
	a.SucceededBytes += ev.Size
	if o.Status == trace.StatusRecovered {
		a.Recovered++
	} else {
		a.OK++
	}
	if o.Granted < ev.Size {
		r.breach(n, ev.Handle, CheckPlacement, CodeTooSmall)
	}
	if o.Addr%max(r.cfg.AlignmentBytes, 1<<ev.AlignLog2) != 0 {
		r.breach(n, ev.Handle, CheckPlacement, CodeMisaligned)
	}
	b := &refBlock{slot: ev.Slot, handle: ev.Handle, addr: o.Addr, requested: ev.Size, granted: o.Granted, inBooks: true}
	end := b.addr + b.granted
	inSegment := false
	for _, g := range r.segs {
		inSegment = inSegment || b.addr >= g.addr && end <= g.addr+g.size
	}
	overlaps := false
	for _, x := range r.blocks {
		overlaps = overlaps || x.inBooks && x.addr < end && b.addr < x.addr+x.granted
	}
	switch {
	case overlaps:
		r.breach(n, b.handle, CheckOverlap, CodeOverlap)
		b.inBooks = false
	case !inSegment:
		r.breach(n, b.handle, CheckPlacement, CodeOutOfRange)
		b.inBooks = false
	}
	r.blocks = append(r.blocks, b)
}

func (r *reference) failed(ev *trace.Event, n uint64) {
	s := r.state()
	x := s.external()
	var free, whole uint64
	if r.cfg.DeviceTotalBytes > s.device {
		free = r.cfg.DeviceTotalBytes - s.device
	}
	for _, g := range r.segs {
		if len(r.inside(g)) == 0 {
			whole += g.size
		}
	}
	cure := CureNone
	switch need := r.charge(ev.Size); {
	case x.TotalBytes+free < ev.Size:
	case need <= free || x.PartBytes >= ev.Size:
		cure = CureMissed
		r.e.Spurious.NoneNeeded++
	case need <= free+whole:
		cure = CureDropCaches
		r.e.Spurious.DropCaches++
	default:
		cure = CureCompaction
		r.e.Spurious.Compaction++
	}
	if cure != CureNone {
		r.e.Spurious.Total++
	}
	if r.e.FirstFailure != nil {
		return
	}
	r.e.FirstFailure = &Failure{Event: n, Handle: uint64(ev.Handle), Status: "failed", SizeBytes: ev.Size, LiveBytes: s.live,
		GrantedBytes: s.granted, ReservedBytes: s.reserved, DeviceBytes: s.device, FreeBytes: x.TotalBytes,
		LargestFreeBytes: x.PartBytes, DeviceFreeBytes: free, WhollyFreeBytes: whole, Cure: cure, External: x}
	r.e.Fragmentation.ExternalAtFirstFailure = &x
	r.e.Classes = nil
	for k := range 64 {
		v := share64(s.below(1<<k), x.TotalBytes)
		r.e.Classes = append(r.e.Classes, SizeClass{Bytes: 1 << k, AtFirstFailure: &v})
	}
	r.hostages("first-failure", n, s.live)
}

func (r *reference) hostages(when string, n, live uint64) {
	h := &Hostages{When: when, Event: int64(n), LiveBytes: live}
	r.hostAt = live
	for _, g := range r.segs {
		x := Hostage{SegmentAddr: g.addr, SegmentBytes: g.size}
		for _, b := range r.inside(g) {
			x.LiveBlocks++
			x.LiveBytes += b.granted
			if x.Handle == 0 || b.granted < x.BlockBytes {
				x.Handle, x.BlockBytes = uint64(b.handle), b.granted
			}
		}
		if x.LiveBlocks > 0 && x.LiveBytes < x.SegmentBytes {
			h.Segments = append(h.Segments, x)
		}
	}
	slices.SortStableFunc(h.Segments, hostageOrder)
	h.Segments = h.Segments[:min(len(h.Segments), MaxHostages)]
	r.e.Hostages = h
}

func (r *reference) after(n uint64, times []int64) {
	s := r.state()
	r.states = append(r.states, s)
	p, f := &r.e.Peak, &r.e.Fragmentation
	if s.live > p.LiveBytes {
		p.LiveBytes, p.LiveEvent, p.LiveBlocks = s.live, int64(n), s.blocks
		f.ExternalAtPeak, f.InternalAtPeak = s.external(), s.internal()
		if r.e.FirstFailure == nil && s.live-r.hostAt >= r.hostAt/hostageStep {
			r.hostages("peak", n, s.live)
		}
	}
	if s.granted > p.GrantedBytes {
		p.GrantedBytes, p.GrantedEvent = s.granted, int64(n)
	}
	if s.reserved > p.ReservedBytes {
		p.ReservedBytes, p.ReservedEvent = s.reserved, int64(n)
	}
	if s.device > p.DeviceBytes {
		p.DeviceBytes, p.DeviceEvent = s.device, int64(n)
	}
	if x := s.external().Value; x > f.ExternalMax {
		f.ExternalMax, f.ExternalMaxEvent = x, int64(n)
	}
}

// report finishes the sums.
func (r *reference) report() Exact {
	e, f := &r.e, &r.e.Fragmentation
	e.Events = uint64(len(r.states))
	e.Violations, e.ViolationCounts = r.found, r.codes
	var xe, xt, ie, it float64
	for i, s := range r.states {
		xe, ie = xe+s.external().Value, ie+s.internal().Value
		if r.times != nil && i+1 < len(r.states) {
			w := float64(r.times[i+1] - r.times[i])
			xt, it = xt+s.external().Value*w, it+s.internal().Value*w
		}
	}
	n := float64(len(r.states))
	f.WeightedBy, f.ExternalWeighted, f.InternalWeighted = "events", xe/n, ie/n
	if r.times != nil && r.times[len(r.times)-1] > r.times[0] {
		span := float64(r.times[len(r.times)-1] - r.times[0])
		f.WeightedBy, f.ExternalWeighted, f.InternalWeighted = "time", xt/span, it/span
	}
	r.classes()
	if e.Hostages != nil && len(e.Hostages.Segments) == 0 {
		e.Hostages = nil
	}
	last := r.states[len(r.states)-1]
	e.LiveAtEnd, e.LiveAtEndBytes, e.Device.HeldAtEndBytes = last.blocks, last.live, last.reserved
	e.Allocs.SuccessRate, e.Allocs.SuccessBytesRate = 1, 1
	if a := &e.Allocs; a.Attempted > 0 {
		a.SuccessRate = float64(a.OK+a.Recovered) / float64(a.Attempted)
	}
	if a := &e.Allocs; a.AttemptedBytes > 0 {
		a.SuccessBytesRate = float64(a.SucceededBytes) / float64(a.AttemptedBytes)
	}
	if p := &e.Peak; p.ReservedBytes > 0 {
		p.ReservedOverhead = max(0, 1-float64(p.LiveBytes)/float64(p.ReservedBytes))
	}
	return *e
}

func (r *reference) classes() {
	failed := r.e.Classes
	r.e.Classes = []SizeClass{}
	top := 0
	var total float64
	for _, s := range r.states {
		for _, g := range s.gaps {
			top = max(top, bits.Len64(g))
			total += float64(g)
		}
	}
	for k := minClassLog2; k < top; k++ {
		c := SizeClass{Bytes: 1 << k}
		if failed != nil {
			c.AtFirstFailure = failed[k].AtFirstFailure
		}
		if p := r.e.Peak.LiveEvent; p >= 0 {
			c.AtPeak = share64(r.states[p].below(c.Bytes), r.states[p].external().TotalBytes)
		}
		var sum float64
		for _, s := range r.states {
			sum += float64(s.below(c.Bytes))
		}
		if total > 0 {
			c.Weighted = sum / total
		}
		r.e.Classes = append(r.e.Classes, c)
	}
}
