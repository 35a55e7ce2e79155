//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// phys is physical memory. It counts in the device's share until it is released and mapped nowhere, because that is how long
// the driver keeps it.
type phys struct {
	size     uint64
	maps     int
	released bool
}

// mapping is one mapping of physical memory.
type mapping struct {
	size uint64
	id   backends.PhysID
}

// check begins the time of a call, and refuses one on a lost device or of a size that is not whole pages.
func (d *Device) check(size uint64) trace.CallStatus {
	d.shared.ticks = 0
	switch {
	case d.Lost():
		return trace.CallDeviceLost
	case size == 0 || size%d.page != 0:
		return trace.CallInvalidValue
	}
	return trace.CallOK
}

// settle takes physical memory that is gone off the books.
func (d *Device) settle(id backends.PhysID) {
	if p := d.phys[id]; p.released && p.maps == 0 {
		d.held -= p.size
		delete(d.phys, id)
	} else {
		d.phys[id] = p
	}
}

// Reserve takes a range of addresses, rounded up to pages (cuMemAddressReserve).
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	d.shared.ticks = 0
	if size == 0 || size > 1<<62 {
		return 0, trace.CallInvalidValue
	}
	size = (size + d.page - 1) / d.page * d.page
	if r := C.gb_reserve(d.c, C.uint64_t(size)); r != C.GB_OK {
		return 0, status(r)
	}
	addr := uint64(d.shared.out)
	d.ranges[addr] = size
	return addr, trace.CallOK
}

// Unreserve gives a whole reservation back (cuMemAddressFree).
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	r := C.gb_unreserve(d.c, C.uint64_t(addr), C.uint64_t((size+d.page-1)/d.page*d.page))
	if r == C.GB_OK {
		delete(d.ranges, addr)
	}
	return status(r)
}

// Create takes physical memory (cuMemCreate).
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	if st := d.check(size); st != trace.CallOK {
		return 0, st
	}
	if st := d.take(size); st != trace.CallOK {
		return 0, st
	}
	if r := C.gb_create(d.c, C.uint64_t(size), C.int(d.id.Index)); r != C.GB_OK {
		d.held -= d.charge(size)
		return 0, status(r)
	}
	id := backends.PhysID(d.shared.out)
	d.phys[id] = phys{size: size}
	return id, trace.CallOK
}

// Release gives physical memory back (cuMemRelease); while it is mapped the driver keeps it.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	d.shared.ticks = 0
	p, ok := d.phys[id]
	switch {
	case d.Lost():
		return trace.CallDeviceLost
	case !ok || p.released:
		return trace.CallInvalidValue
	}
	r := C.gb_release(d.c, C.uint64_t(id))
	if r == C.GB_OK {
		p.released = true
		d.phys[id] = p
		d.settle(id)
	}
	return status(r)
}

// Map maps the whole of id (cuMemMap).
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	if st := d.check(size); st != trace.CallOK {
		return st
	}
	p := d.phys[id]
	if p.size != size || p.released {
		return trace.CallInvalidValue
	}
	r := C.gb_map(d.c, C.uint64_t(addr), C.uint64_t(size), C.uint64_t(id))
	if r == C.GB_OK {
		p.maps++
		d.phys[id] = p
		d.maps[addr] = mapping{size, id}
	}
	return status(r)
}

// Unmap unmaps whole mappings (cuMemUnmap).
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	if st := d.check(size); st != trace.CallOK {
		return st
	}
	r := C.gb_unmap(d.c, C.uint64_t(addr), C.uint64_t(size))
	if r != C.GB_OK {
		return status(r)
	}
	for at := addr; at < addr+size; {
		m, ok := d.maps[at]
		if !ok {
			break
		}
		delete(d.maps, at)
		p := d.phys[m.id]
		p.maps--
		d.phys[m.id] = p
		d.settle(m.id)
		at += m.size
	}
	return trace.CallOK
}

// SetAccess makes whole mappings readable and writable by the device (cuMemSetAccess).
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus {
	if st := d.check(size); st != trace.CallOK {
		return st
	}
	return status(C.gb_set_access(d.c, C.uint64_t(addr), C.uint64_t(size), C.int(d.id.Index)))
}
