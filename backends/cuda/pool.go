//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// PoolAttribute is a CUmemPool_attribute.
type PoolAttribute int

// The attributes (CUDA driver API reference). The first three are 0 or 1, the rest bytes.
const (
	PoolFollowEvents   PoolAttribute = 1 // reuse memory that an event orders after its free
	PoolOpportunistic  PoolAttribute = 2 // reuse memory whose free has completed
	PoolInternalWaits  PoolAttribute = 3 // insert waits to reuse memory
	PoolThreshold      PoolAttribute = 4 // unused bytes kept at a synchronisation
	PoolReservedBytes  PoolAttribute = 5
	PoolReservedMax    PoolAttribute = 6 // setting it to 0 starts it again
	PoolUsedBytes      PoolAttribute = 7
	PoolUsedMax        PoolAttribute = 8
	firstWideAttribute               = PoolThreshold
)

func (d *Device) makePool(threshold uint64) error {
	if r := C.gb_pool_create(d.c, C.int(d.id.Index)); r != C.GB_OK {
		return d.failed("cuMemPoolCreate", r)
	}
	d.pool = d.shared.out
	if st := d.SetPoolAttribute(PoolThreshold, threshold); st != trace.CallOK {
		return fmt.Errorf("%w: the pool's release threshold: %w", ErrDriver, st.Err())
	}
	return nil
}

// ready makes the pool at its first use; a device opened with MemoryPool has it.
func (d *Device) ready() trace.CallStatus {
	switch {
	case d.pool != 0:
		return trace.CallOK
	case d.Lost():
		return trace.CallDeviceLost
	case !d.id.Pools:
		return trace.CallNotSupported
	}
	r := C.gb_pool_create(d.c, C.int(d.id.Index))
	if r == C.GB_OK {
		d.pool = d.shared.out
	}
	return status(r)
}

// AllocAsync takes memory of the device's pool, usable by work that is issued to s later (cuMemAllocFromPoolAsync).
func (d *Device) AllocAsync(size uint64, s backends.Stream) (uint64, trace.CallStatus) {
	if st := d.ready(); st != trace.CallOK {
		return 0, st
	}
	h, ok := d.stream(s)
	if !ok {
		return 0, trace.CallBroken
	}
	if st := d.take(size); st != trace.CallOK {
		return 0, st
	}
	if r := C.gb_pool_malloc(d.c, C.uint64_t(size), d.pool, h); r != C.GB_OK {
		d.held -= d.charge(size)
		return 0, status(r)
	}
	addr := uint64(d.shared.out)
	d.asyncs.put(addr, size)
	return addr, trace.CallOK
}

// FreeAsync gives it back behind the work issued to s so far (cuMemFreeAsync).
func (d *Device) FreeAsync(addr uint64, s backends.Stream) trace.CallStatus {
	size, ok := d.asyncs.get(addr)
	if !ok {
		return trace.CallInvalidValue
	}
	h, ok := d.stream(s)
	if !ok {
		return trace.CallBroken
	}
	r := C.gb_pool_free(d.c, C.uint64_t(addr), h)
	if r == C.GB_OK {
		d.asyncs.remove(addr)
		d.held -= d.charge(size)
	}
	return status(r)
}

// PoolTrim gives unused memory of the pool back until at most keep bytes are reserved (cuMemPoolTrimTo).
func (d *Device) PoolTrim(keep uint64) trace.CallStatus {
	if st := d.ready(); st != trace.CallOK {
		return st
	}
	return status(C.gb_pool_trim(d.c, d.pool, C.uint64_t(keep)))
}

// SetPoolAttribute sets an attribute of the pool.
func (d *Device) SetPoolAttribute(a PoolAttribute, v uint64) trace.CallStatus {
	if st := d.ready(); st != trace.CallOK {
		return st
	}
	return status(C.gb_pool_set(d.c, d.pool, C.int(a), C.uint64_t(v), wide(a)))
}

// PoolAttribute reads one.
func (d *Device) PoolAttribute(a PoolAttribute) (uint64, trace.CallStatus) {
	if st := d.ready(); st != trace.CallOK {
		return 0, st
	}
	r := C.gb_pool_get(d.c, d.pool, C.int(a), wide(a))
	return uint64(d.shared.out), status(r)
}

func wide(a PoolAttribute) C.int {
	if a >= firstWideAttribute {
		return 1
	}
	return 0
}
