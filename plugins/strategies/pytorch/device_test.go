package pytorch_test

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/trace"
)

// callDevice is the ideal device with a list of the calls in the form of the recordings: sizes in whole 2 MiB pages,
// adjacent pages joined, refused pages without the attempt's other pages.
type callDevice struct {
	*ideal.Device
	calls []deviceCall
	sizes map[uint64]uint64 // of mallocs, as charged
}

type deviceCall struct {
	kind       string
	addr, size uint64
}

func (d *callDevice) text() []string {
	out := make([]string, len(d.calls))
	for i, c := range d.calls {
		out[i] = fmt.Sprintf("%s %d %d", c.kind, c.addr, c.size)
	}
	return out
}

func (d *callDevice) add(kind string, addr, size uint64) {
	if n := len(d.calls); n > 0 && (kind == "map" || kind == "unmap") {
		if last := &d.calls[n-1]; last.kind == kind && last.addr+last.size == addr {
			last.size += size
			return
		}
	}
	d.calls = append(d.calls, deviceCall{kind, addr, size})
}

func (d *callDevice) Malloc(size uint64) (uint64, trace.CallStatus) {
	addr, st := d.Device.Malloc(size)
	charged := (size + ideal.PageBytes - 1) / ideal.PageBytes * ideal.PageBytes
	if st == trace.CallOK {
		d.sizes[addr] = charged
		d.add("malloc", addr, size)
	} else {
		d.add("malloc_fail", 0, size)
	}
	return addr, st
}

func (d *callDevice) Free(addr uint64) trace.CallStatus {
	st := d.Device.Free(addr)
	if st == trace.CallOK {
		d.add("free", addr, d.sizes[addr])
	}
	return st
}

func (d *callDevice) Reserve(size uint64) (uint64, trace.CallStatus) {
	addr, st := d.Device.Reserve(size)
	if st == trace.CallOK {
		d.add("reserve", addr, size)
	}
	return addr, st
}

func (d *callDevice) Unreserve(addr, size uint64) trace.CallStatus {
	d.add("unreserve", addr, size)
	return d.Device.Unreserve(addr, size)
}

func (d *callDevice) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	id, st := d.Device.Create(size)
	if st != trace.CallOK {
		d.add("create_fail", 0, size)
	}
	return id, st
}

func (d *callDevice) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	d.add("map", addr, size)
	return d.Device.Map(addr, size, id)
}

func (d *callDevice) Unmap(addr, size uint64) trace.CallStatus {
	d.add("unmap", addr, size)
	return d.Device.Unmap(addr, size)
}
