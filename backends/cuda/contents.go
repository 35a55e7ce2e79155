//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"github.com/gpubench/gpubench/trace"
)

// word is the 32-bit word that Fill writes for a seed: the upper half of a multiplication by 2^64/φ, so that neighbouring seeds
// differ in every byte.
func word(seed uint64) uint32 { return uint32((seed + 1) * 0x9E3779B97F4A7C15 >> 32) }

// Fill writes the word of seed over [addr, addr+size), which must be accessible memory; addr is a multiple of 4.
func (d *Device) Fill(addr, size, seed uint64) trace.CallStatus {
	w := word(seed)
	r := C.gb_memset32(d.c, C.uint64_t(addr), C.uint32_t(w), C.uint64_t(size/4))
	for i := range size % 4 {
		if r == C.GB_OK {
			r = C.gb_memset8(d.c, C.uint64_t(addr+size/4*4+i), C.uint8_t(w>>(8*i)), 1)
		}
	}
	return status(r)
}

// Check copies [addr, addr+size) back and returns the offset of the first byte that is not what Fill wrote with this seed; intact
// is true when there is none.
func (d *Device) Check(addr, size, seed uint64) (firstBad uint64, intact bool, st trace.CallStatus) {
	r := C.gb_check(d.c, C.uint64_t(addr), C.uint32_t(word(seed)), C.uint64_t(size))
	if r != C.GB_OK {
		return 0, false, status(r)
	}
	firstBad = uint64(d.shared.out)
	return firstBad, firstBad == size, trace.CallOK
}

// Touch writes a byte over [addr, addr+size), on the default stream, and waits for it: the first time is first touch, later ones are the bandwidth of memset.
func (d *Device) Touch(addr, size uint64, value byte) trace.CallStatus {
	r := C.gb_memset8(d.c, C.uint64_t(addr), C.uint8_t(value), C.uint64_t(size))
	spent := d.shared.ticks
	if r == C.GB_OK { // memset of device memory returns before it is done
		r = C.gb_device_sync(d.c)
		d.shared.ticks += spent
	}
	return status(r)
}

// TouchAsync writes a byte over [addr, addr+size) on a stream and does not wait.
func (d *Device) TouchAsync(addr, size uint64, value byte, s uint16) trace.CallStatus {
	h, ok := d.stream(s)
	if !ok {
		return trace.CallBroken
	}
	return status(C.gb_memset_async(d.c, C.uint64_t(addr), C.uint8_t(value), C.uint64_t(size), h))
}

// HasHostMemory reports that the device can be copied to and from pinned host memory (backends.HostMemory).
func (d *Device) HasHostMemory() bool { return true }

// Copy copies size bytes and waits for the end; either side may be the first byte of what HostMalloc returned.
func (d *Device) Copy(to, from, size uint64) trace.CallStatus {
	switch {
	case d.hosted[from]:
		return d.CopyIn(to, from, size)
	case d.hosted[to]:
		return d.CopyOut(to, from, size)
	}
	return d.copyDevice(to, from, size)
}

// copyDevice copies within device memory.
func (d *Device) copyDevice(to, from, size uint64) trace.CallStatus {
	r := C.gb_copy_device(d.c, C.uint64_t(to), C.uint64_t(from), C.uint64_t(size))
	spent := d.shared.ticks
	if r == C.GB_OK {
		r = C.gb_device_sync(d.c)
		d.shared.ticks += spent
	}
	return status(r)
}

// CopyIn and CopyOut copy between pinned host memory and device memory.
func (d *Device) CopyIn(device, host, size uint64) trace.CallStatus {
	return status(C.gb_copy_host(d.c, C.uint64_t(device), C.uint64_t(host), C.uint64_t(size), 0))
}

// CopyOut copies device memory to pinned host memory.
func (d *Device) CopyOut(host, device, size uint64) trace.CallStatus {
	return status(C.gb_copy_host(d.c, C.uint64_t(device), C.uint64_t(host), C.uint64_t(size), 1))
}
