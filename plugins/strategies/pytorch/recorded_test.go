package pytorch_test

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/trace"
)

// recordedDevice answers driver calls with what a recording saw, and notes the first call that the recording does not have.
// Streams and events are those of the ideal device.
type recordedDevice struct {
	*ideal.Device
	events []trace.SegmentEvent
	at     int    // next segment event
	event  uint64 // running trace event
	done   uint64 // bytes of the next segment event, a map or unmap, that calls have covered
	phys   uint64
	err    error
}

func newRecordedDevice(tr *trace.Trace) *recordedDevice {
	total := tr.Meta.CapacityBytes
	if total == 0 {
		total = recordedCapacity
	}
	d, err := ideal.New(ideal.Config{TotalBytes: total})
	if err != nil {
		panic(err)
	}
	return &recordedDevice{Device: d, events: tr.SegmentEvents}
}

func (d *recordedDevice) BeginEvent(i uint64) { d.event = i }

// next returns the segment event that belongs to the running event, or nil.
func (d *recordedDevice) next() *trace.SegmentEvent {
	if d.at < len(d.events) && d.events[d.at].Event <= d.event {
		return &d.events[d.at]
	}
	return nil
}

func (d *recordedDevice) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
		if e := d.next(); e != nil {
			d.err = fmt.Errorf("%w; the recording has %s %#x %d", d.err, e.Kind, e.Addr, e.Bytes)
		}
	}
}

func (d *recordedDevice) finish() error {
	if d.err == nil && d.at < len(d.events) {
		d.fail("%d recorded driver calls were not made", len(d.events)-d.at)
	}
	return d.err
}

func (d *recordedDevice) Malloc(size uint64) (uint64, trace.CallStatus) {
	e := d.next()
	if e == nil || e.Kind != trace.SegmentAlloc {
		return 0, trace.CallOutOfMemory
	}
	if e.Bytes != size {
		d.fail("malloc of %d", size)
		return 0, trace.CallOutOfMemory
	}
	d.at++
	return e.Addr, trace.CallOK
}

func (d *recordedDevice) Free(addr uint64) trace.CallStatus {
	e := d.next()
	if e == nil || e.Addr != addr || e.Kind != trace.SegmentFree && e.Kind != trace.SegmentUnmap {
		d.fail("free of %#x", addr)
		return trace.CallInvalidValue
	}
	d.at++
	return trace.CallOK
}

func (d *recordedDevice) Reserve(uint64) (uint64, trace.CallStatus) {
	if e := d.next(); e != nil && e.Kind == trace.SegmentMap {
		return e.Addr, trace.CallOK
	}
	return 0, trace.CallOutOfMemory
}

func (d *recordedDevice) Unreserve(uint64, uint64) trace.CallStatus { return trace.CallOK }

func (d *recordedDevice) Create(uint64) (backends.PhysID, trace.CallStatus) {
	if e := d.next(); e == nil || e.Kind != trace.SegmentMap {
		return 0, trace.CallOutOfMemory
	}
	d.phys++
	return backends.PhysID(d.phys), trace.CallOK
}

func (d *recordedDevice) Release(backends.PhysID) trace.CallStatus { return trace.CallOK }

func (d *recordedDevice) Map(addr, size uint64, _ backends.PhysID) trace.CallStatus {
	return d.page(trace.SegmentMap, addr, size)
}

func (d *recordedDevice) Unmap(addr, size uint64) trace.CallStatus {
	return d.page(trace.SegmentUnmap, addr, size)
}

// page covers the next bytes of a recorded map or unmap.
func (d *recordedDevice) page(kind trace.SegmentEventKind, addr, size uint64) trace.CallStatus {
	e := d.next()
	if e == nil || e.Kind != kind || addr != e.Addr+d.done || d.done+size > e.Bytes {
		d.fail("%s of %#x %d, %d bytes done", kind, addr, size, d.done)
		return trace.CallInvalidValue
	}
	if d.done += size; d.done == e.Bytes {
		d.at, d.done = d.at+1, 0
	}
	return trace.CallOK
}

func (d *recordedDevice) SetAccess(uint64, uint64) trace.CallStatus { return trace.CallOK }
