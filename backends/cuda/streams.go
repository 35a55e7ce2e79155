//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// eventTable names events: EventID is generation<<32 | index+1, so that an event that was dropped is known as such. Dropped events
// are kept for the next Record, as PyTorch's allocator keeps them: making one costs more than recording it.
type eventTable struct {
	list []event
	free []uint32
}

type event struct {
	handle C.uint64_t
	gen    uint32
	live   bool
}

func (t *eventTable) lookup(id backends.EventID) *event {
	i := uint32(id) - 1
	if uint64(i) >= uint64(len(t.list)) {
		return nil
	}
	if e := &t.list[i]; e.live && e.gen == uint32(id>>32) {
		return e
	}
	return nil
}

// forget drops every event.
func (t *eventTable) forget() {
	for i := range t.list {
		if e := &t.list[i]; e.live {
			e.live = false
			e.gen++
			t.free = append(t.free, uint32(i))
		}
	}
}

// newEvent takes a dropped event or makes one.
func (d *Device) newEvent() (uint32, bool) {
	t := &d.events
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i, true
	}
	if C.gb_event_create(d.c) != C.GB_OK {
		return 0, false
	}
	t.list = append(t.list, event{handle: d.shared.out})
	return uint32(len(t.list) - 1), true
}

// stream returns the driver's stream of a trace's, made at first use; false when the driver refuses.
func (d *Device) stream(s backends.Stream) (C.uint64_t, bool) {
	for int(s) >= len(d.streams) {
		d.streams = append(d.streams, 0)
	}
	if s == 0 || d.streams[s] != 0 {
		return d.streams[s], true
	}
	if C.gb_stream_create(d.c) != C.GB_OK {
		return 0, false
	}
	d.streams[s] = d.shared.out
	return d.streams[s], true
}

// Record records an event behind the work issued to s. 0 when the driver refuses, which counts as complete.
func (d *Device) Record(s backends.Stream) backends.EventID {
	d.shared.ticks = 0
	h, ok := d.stream(s)
	if !ok {
		return 0
	}
	i, ok := d.newEvent()
	if !ok {
		return 0
	}
	e := &d.events.list[i]
	if C.gb_event_record(d.c, e.handle, h) != C.GB_OK {
		d.events.free = append(d.events.free, i)
		return 0
	}
	e.live = true
	return backends.EventID(uint64(e.gen)<<32 | uint64(i+1))
}

// Query reports whether the event has completed. On a lost device everything has: nobody may wait for ever.
func (d *Device) Query(id backends.EventID) bool {
	d.shared.ticks = 0
	e := d.events.lookup(id)
	if e == nil {
		return true
	}
	return status(C.gb_event_query(d.c, e.handle)) != trace.CallNotReady
}

// Wait lets the host wait for the event.
func (d *Device) Wait(id backends.EventID) {
	d.shared.ticks = 0
	if e := d.events.lookup(id); e != nil {
		C.gb_event_wait(d.c, e.handle)
	}
}

// StreamWait lets s wait on the device for the event.
func (d *Device) StreamWait(s backends.Stream, id backends.EventID) {
	d.shared.ticks = 0
	h, ok := d.stream(s)
	if e := d.events.lookup(id); ok && e != nil {
		C.gb_stream_wait(d.c, h, e.handle)
	}
}

// Drop gives the event back to the table.
func (d *Device) Drop(id backends.EventID) {
	d.shared.ticks = 0
	if e := d.events.lookup(id); e != nil {
		e.live = false
		e.gen++
		d.events.free = append(d.events.free, uint32(id)-1)
	}
}

// SyncStream lets the host wait for a stream.
func (d *Device) SyncStream(s backends.Stream) {
	d.shared.ticks = 0
	if h, ok := d.stream(s); ok {
		C.gb_stream_sync(d.c, h)
	}
}

// SyncDevice lets the host wait for everything (cuCtxSynchronize).
func (d *Device) SyncDevice() { C.gb_device_sync(d.c) }

func (d *Device) destroyStreams() {
	if d.Lost() {
		return
	}
	for _, e := range d.events.list {
		C.gb_event_destroy(d.c, e.handle)
	}
	for _, s := range d.streams {
		if s != 0 {
			C.gb_stream_destroy(d.c, s)
		}
	}
	d.events, d.streams = eventTable{}, nil
}
