package recorded

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/internal/streams"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/trace"
)

const (
	// pageBytes is the granularity of the devices that recordings come from.
	pageBytes = 2 << 20
	// defaultTotalBytes is the size of the device when the recording does not say: more than any device has, so that it
	// never limits.
	defaultTotalBytes = 1 << 40
	// maxMismatches bounds the mismatches that are kept; all are counted.
	maxMismatches = 100
)

// ErrNothingRecorded says that a trace has neither segment events nor recorded addresses.
var ErrNothingRecorded = errors.New("the trace records no addresses: the recorded device has nothing to answer with (use ideal or pmm)")

// Device is the device. It implements backends.Device, VirtualMemory, Streams, StreamControl, RecordedAnswers,
// SegmentAdopter, Clocked and Resetter. Make one with New.
type Device struct {
	streams.Streams
	tr         *trace.Trace
	total      uint64
	guessed    bool // the recording does not say how large its device was
	adopted    bool // the recording began with segments
	charged    uint64
	nowNs      uint64
	event      uint64
	lo, hi     int      // the segment events of the current event
	left       []uint64 // bytes of each segment event that no call has used up
	held       addrmap.Map
	sizes      []uint64 // of held memory, by index; [0] unused
	spare      []uint32
	phys       []uint64 // sizes; PhysID is index + 1, 0 = released
	ranges     []reservation
	mismatches []Mismatch
	wrong      uint64
}

type reservation struct{ addr, size uint64 }

// New returns a device for one trace. totalBytes is its size; 0 takes the recorded one.
func New(tr *trace.Trace, totalBytes uint64) (*Device, error) {
	if len(tr.SegmentEvents) == 0 && len(tr.Recorded) == 0 {
		return nil, ErrNothingRecorded
	}
	d := &Device{tr: tr, total: totalBytes, left: make([]uint64, len(tr.SegmentEvents))}
	if d.total == 0 {
		d.total = tr.Meta.CapacityBytes
	}
	if d.total == 0 {
		d.total, d.guessed = defaultTotalBytes, true
	}
	d.Reset()
	return d, nil
}

// Info describes the device.
func (d *Device) Info() backends.Info {
	return backends.Info{
		Name: "recorded", TotalBytes: d.total, PageBytes: pageBytes, VirtualMemory: true, StreamEvents: true,
		Deterministic: true, ModelledTime: true, CostSource: "none: every call costs nothing",
	}
}

// Reset returns to the state after New.
func (d *Device) Reset() {
	for i := range d.left {
		d.left[i] = d.tr.SegmentEvents[i].Bytes
	}
	d.ResetStreams()
	d.held.Reset()
	d.sizes, d.spare, d.phys, d.ranges = append(d.sizes[:0], 0), d.spare[:0], d.phys[:0], d.ranges[:0]
	d.mismatches, d.wrong, d.adopted = d.mismatches[:0], 0, false
	d.charged, d.nowNs, d.event, d.lo, d.hi = 0, 0, 0, 0, 0
	d.window(0)
}

// BeginEvent says which event comes next. Events are named in order.
func (d *Device) BeginEvent(i uint64) {
	d.event = i
	d.window(i)
}

func (d *Device) window(i uint64) {
	ev := d.tr.SegmentEvents
	if d.lo < len(ev) && ev[d.lo].Event > i { // an earlier event again: after Reset or a restart
		d.lo = 0
	}
	for d.lo < len(ev) && ev[d.lo].Event < i {
		d.lo++
	}
	for d.hi = d.lo; d.hi < len(ev) && ev[d.hi].Event == i; d.hi++ {
	}
}

// next returns the first segment event of the current event that is not used up, or nil.
func (d *Device) next() (*trace.SegmentEvent, *uint64) {
	for i := d.lo; i < d.hi; i++ {
		if d.left[i] > 0 {
			return &d.tr.SegmentEvents[i], &d.left[i]
		}
	}
	return nil, nil
}

// covering returns the segment event of the kind that holds [addr, addr+size) and has that much left, or nil.
func (d *Device) covering(kind trace.SegmentEventKind, addr, size uint64) *uint64 {
	for i := d.lo; i < d.hi; i++ {
		e := &d.tr.SegmentEvents[i]
		if e.Kind == kind && d.left[i] >= size && addr >= e.Addr && addr-e.Addr <= e.Bytes && size <= e.Bytes-(addr-e.Addr) {
			return &d.left[i]
		}
	}
	return nil
}

// recordedFailure reports whether the recording saw the current event fail.
func (d *Device) recordedFailure() bool {
	return d.event < uint64(len(d.tr.Recorded)) && d.tr.Recorded[d.event].Seen != 0 && d.tr.Recorded[d.event].Status == trace.StatusFailed
}

// take decides about a call that takes memory: ok with the segment event that answers it, or the status to answer.
func (d *Device) take(call trace.CallKind, kind trace.SegmentEventKind, size uint64) (*trace.SegmentEvent, *uint64, trace.CallStatus) {
	e, left := d.next()
	switch {
	case e == nil && d.recordedFailure():
		return nil, nil, trace.CallOutOfMemory
	case e == nil:
	case e.Kind == trace.SegmentFree || e.Kind == trace.SegmentUnmap:
		return nil, nil, trace.CallOutOfMemory
	case e.Kind == kind && (kind == trace.SegmentMap || e.Bytes == size):
		return e, left, trace.CallOK
	}
	d.mismatch(call, 0, size, e)
	return nil, nil, trace.CallInvalidValue
}

// Malloc answers with the recorded address.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	if size == 0 {
		return 0, trace.CallInvalidValue
	}
	if len(d.tr.SegmentEvents) == 0 {
		return d.mallocOfEvent(size)
	}
	e, left, st := d.take(trace.CallMalloc, trace.SegmentAlloc, size)
	if st != trace.CallOK {
		return 0, st
	}
	if !d.hold(e.Addr, size) {
		d.mismatch(trace.CallMalloc, e.Addr, size, e)
		return 0, trace.CallInvalidValue
	}
	*left = 0
	return e.Addr, trace.CallOK
}

// mallocOfEvent answers from the recorded outcome of the current event, if the call asks for that event's block: as many
// bytes, or rounded up by less than a page. A recording that began with segments and saw none come or go never called its
// device: its blocks lie inside those segments, so whoever asks decides otherwise.
func (d *Device) mallocOfEvent(size uint64) (uint64, trace.CallStatus) {
	if d.recordedFailure() {
		return 0, trace.CallOutOfMemory
	}
	if !d.adopted && d.event < uint64(len(d.tr.Recorded)) {
		r, asked := &d.tr.Recorded[d.event], d.tr.Events[d.event].Size
		if r.Seen != 0 && r.Status.Placed() && size >= asked && size-asked < pageBytes && d.hold(r.Addr, size) {
			return r.Addr, trace.CallOK
		}
	}
	d.mismatch(trace.CallMalloc, 0, size, nil)
	return 0, trace.CallInvalidValue
}

// hold enters memory that was taken; false when something is held at the address already.
func (d *Device) hold(addr, size uint64) bool {
	if d.held.Get(addr) != 0 {
		return false
	}
	var i uint32
	if n := len(d.spare); n > 0 {
		i = d.spare[n-1]
		d.spare = d.spare[:n-1]
		d.sizes[i] = size
	} else {
		i = uint32(len(d.sizes))
		d.sizes = append(d.sizes, size)
	}
	d.held.Put(addr, i)
	d.charged += size
	return true
}

// Adopt enters a segment of the start state.
func (d *Device) Adopt(addr, size uint64) trace.CallStatus {
	if size == 0 || !d.hold(addr, size) {
		return trace.CallInvalidValue
	}
	d.adopted = true
	return trace.CallOK
}

// Free gives back what is held at addr.
func (d *Device) Free(addr uint64) trace.CallStatus {
	i := d.held.Delete(addr)
	if i == 0 {
		return trace.CallInvalidValue
	}
	size := d.sizes[i]
	d.spare = append(d.spare, i)
	d.charged -= size
	if left := d.covering(trace.SegmentFree, addr, size); left != nil {
		*left = 0
	} else {
		d.unexpectedReturn(trace.CallFree, addr, size)
	}
	return trace.CallOK
}

// unexpectedReturn notes memory given back that the recording keeps, unless the trace is over.
func (d *Device) unexpectedReturn(call trace.CallKind, addr, size uint64) {
	e, _ := d.next()
	if len(d.tr.SegmentEvents) == 0 || e == nil && d.event+1 >= uint64(len(d.tr.Events)) {
		return
	}
	d.mismatch(call, addr, size, e)
}

// MemInfo returns the size of the device less what is held.
func (d *Device) MemInfo() (freeBytes, totalBytes uint64) {
	return d.total - min(d.charged, d.total), d.total
}

// NowNs returns the sum of all AdvanceNs: calls cost nothing.
func (d *Device) NowNs() uint64 { return d.nowNs }

// AdvanceNs moves the clock forward.
func (d *Device) AdvanceNs(ns uint64) { d.nowNs += ns }

// Close gives everything back.
func (d *Device) Close() error {
	d.Reset()
	return nil
}

// Mismatch is a call that the recording did not see.
type Mismatch struct {
	Event    uint64
	Call     trace.CallKind
	Addr     uint64 // of the call, where it has one
	Size     uint64
	Expected trace.SegmentEvent // what the recording has next in this event; Kind 0 = nothing
}

var callNames = map[trace.CallKind]string{
	trace.CallMalloc: "malloc", trace.CallFree: "free", trace.CallReserve: "reserve", trace.CallCreate: "create",
	trace.CallMap: "map", trace.CallUnmap: "unmap",
}

// String is one line for people.
func (m Mismatch) String() string {
	want := "no further device call"
	if m.Expected.Kind != 0 {
		want = fmt.Sprintf("%v of %d bytes at %#x", m.Expected.Kind, m.Expected.Bytes, m.Expected.Addr)
	}
	where := ""
	if m.Addr != 0 {
		where = fmt.Sprintf(" at %#x", m.Addr)
	}
	return fmt.Sprintf("event %d: the strategy asked for %s of %d bytes%s, the recording has %s", m.Event, callNames[m.Call], m.Size, where, want)
}

func (d *Device) mismatch(call trace.CallKind, addr, size uint64, expected *trace.SegmentEvent) {
	d.wrong++
	if len(d.mismatches) == maxMismatches {
		return
	}
	m := Mismatch{Event: d.event, Call: call, Addr: addr, Size: size}
	if expected != nil {
		m.Expected = *expected
	}
	d.mismatches = append(d.mismatches, m)
}

// Mismatches returns the first mismatches and how many there were in all.
func (d *Device) Mismatches() (first []Mismatch, total uint64) { return d.mismatches, d.wrong }

var (
	_ backends.Device          = (*Device)(nil)
	_ backends.VirtualMemory   = (*Device)(nil)
	_ backends.Streams         = (*Device)(nil)
	_ backends.StreamControl   = (*Device)(nil)
	_ backends.Clocked         = (*Device)(nil)
	_ backends.Resetter        = (*Device)(nil)
	_ backends.RecordedAnswers = (*Device)(nil)
	_ backends.SegmentAdopter  = (*Device)(nil)
)
