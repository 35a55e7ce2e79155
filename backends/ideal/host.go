package ideal

import "github.com/gpubench/gpubench/trace"

const (
	// HostBase is where host memory begins: above all reservations.
	HostBase uint64 = 1 << 63
	// hostLimit bounds host memory: 2^62 bytes.
	hostLimit uint64 = HostBase + 1<<62
)

// HasHostMemory reports true.
func (d *Device) HasHostMemory() bool { return true }

// HostMalloc takes size bytes of host memory at the lowest address where they fit. It never runs out.
func (d *Device) HostMalloc(size uint64) (uint64, trace.CallStatus) {
	if size == 0 || size > maxRequestBytes {
		return 0, invalidOrTooLarge(size)
	}
	addr, ok := d.host.Take(roundUp(size, PackedBytes))
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	return addr, trace.CallOK
}

// HostFree gives back what HostMalloc returned at addr.
func (d *Device) HostFree(addr uint64) trace.CallStatus {
	if _, _, ok := d.host.Give(addr); !ok {
		return trace.CallInvalidValue
	}
	return trace.CallOK
}

// Copy does nothing: the device holds no bytes.
func (d *Device) Copy(dst, src, size uint64) trace.CallStatus { return trace.CallOK }
