//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import "github.com/gpubench/gpubench/trace"

// Count is what the calls of one kind came to: calls that reached the driver, and the driver's own time in them.
type Count struct {
	Kind  trace.CallKind
	Calls uint64
	Ns    uint64
}

// kinds translates the shim's kinds; those that are no device call of a strategy (contexts, streams and events made, pools) are
// CallNone.
var kinds = [C.GB_KINDS]trace.CallKind{
	C.GB_MALLOC: trace.CallMalloc, C.GB_FREE: trace.CallFree, C.GB_RESERVE: trace.CallReserve, C.GB_UNRESERVE: trace.CallUnreserve,
	C.GB_CREATE: trace.CallCreate, C.GB_RELEASE: trace.CallRelease, C.GB_MAP: trace.CallMap, C.GB_UNMAP: trace.CallUnmap,
	C.GB_SET_ACCESS: trace.CallSetAccess, C.GB_EVENT_RECORD: trace.CallEventRecord, C.GB_EVENT_QUERY: trace.CallEventQuery,
	C.GB_EVENT_WAIT: trace.CallEventWait, C.GB_STREAM_WAIT: trace.CallStreamWait, C.GB_STREAM_SYNC: trace.CallStreamSync,
	C.GB_DEVICE_SYNC: trace.CallDeviceSync, C.GB_MEM_INFO: trace.CallMemInfo, C.GB_HOST_MALLOC: trace.CallHostMalloc,
	C.GB_HOST_FREE: trace.CallHostFree, C.GB_COPY: trace.CallCopy, C.GB_MANAGED: trace.CallManaged, C.GB_TOUCH: trace.CallTouch,
	C.GB_SETUP: trace.CallNone,
}

// Counters returns what the calls since opening came to, by kind, without the kinds that were never called.
func (d *Device) Counters() []Count {
	var list []Count
	for i := range kinds {
		if c := d.shared.count[i]; c.calls > 0 {
			list = append(list, Count{Kind: kinds[i], Calls: uint64(c.calls), Ns: d.clock.Ns(uint64(c.ticks))})
		}
	}
	return list
}
