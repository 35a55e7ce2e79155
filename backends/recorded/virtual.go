package recorded

import (
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// Reserve puts the range where the recording maps next. Strategies size reservations by the device; where that size is a
// guess they may reach into each other, and only what is mapped counts.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	if size == 0 {
		return 0, trace.CallInvalidValue
	}
	e, _, st := d.take(trace.CallReserve, trace.SegmentMap, size)
	if st != trace.CallOK {
		return 0, st
	}
	size = (size + pageBytes - 1) / pageBytes * pageBytes
	for _, r := range d.ranges {
		if e.Addr == r.addr || !d.guessed && e.Addr < r.addr+r.size && r.addr < e.Addr+size {
			d.mismatch(trace.CallReserve, e.Addr, size, e)
			return 0, trace.CallInvalidValue
		}
	}
	d.ranges = append(d.ranges, reservation{e.Addr, size})
	return e.Addr, trace.CallOK
}

// Unreserve gives a whole range back.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	size = (size + pageBytes - 1) / pageBytes * pageBytes
	i := slices.Index(d.ranges, reservation{addr, size})
	if i < 0 {
		return trace.CallInvalidValue
	}
	d.ranges = slices.Delete(d.ranges, i, i+1)
	return trace.CallOK
}

// Create makes physical memory if the recording maps next.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	if size == 0 || size%pageBytes != 0 {
		return 0, trace.CallInvalidValue
	}
	if _, _, st := d.take(trace.CallCreate, trace.SegmentMap, size); st != trace.CallOK {
		return 0, st
	}
	d.phys = append(d.phys, size)
	d.charged += size
	return backends.PhysID(len(d.phys)), trace.CallOK
}

// Release gives physical memory back.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	if id == 0 || uint64(id) > uint64(len(d.phys)) || d.phys[id-1] == 0 {
		return trace.CallInvalidValue
	}
	d.charged -= d.phys[id-1]
	d.phys[id-1] = 0
	return trace.CallOK
}

// Map uses up a recorded mapping, or a piece of it.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	if id == 0 || uint64(id) > uint64(len(d.phys)) || d.phys[id-1] != size || size == 0 {
		return trace.CallInvalidValue
	}
	left := d.covering(trace.SegmentMap, addr, size)
	if left == nil {
		e, _ := d.next()
		d.mismatch(trace.CallMap, addr, size, e)
		return trace.CallInvalidValue
	}
	*left -= size
	return trace.CallOK
}

// Unmap uses up a recorded unmapping, or a piece of it.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	for at := addr; at < addr+size; at += pageBytes { // pages of a start state
		if i := d.held.Delete(at); i != 0 {
			d.charged -= d.sizes[i]
			d.spare = append(d.spare, i)
		}
	}
	if left := d.covering(trace.SegmentUnmap, addr, size); left != nil {
		*left -= size
	} else {
		d.unexpectedReturn(trace.CallUnmap, addr, size)
	}
	return trace.CallOK
}

// SetAccess has nothing to do.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus { return trace.CallOK }
