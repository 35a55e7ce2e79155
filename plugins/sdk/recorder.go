package sdk

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// callTimer is implemented by devices that know the own time of their last call better than the caller can measure it:
// remote ones, where the caller would measure the transport too.
type callTimer interface {
	LastCallNs() uint64
}

// recorder is the decorator between a strategy and its device: it writes a record of every call, with the call's time on
// the device's clock and its real time in ticks, and sums the latter for the event, so that the loop can take it off
// the policy time.
//
// The device's time of a call is the advance of a model's clock, or what a remote device reports, or the real time of the
// call. Both readings of a model's clock lie inside the real time, as does everything the recorder does except reading the
// ticks and storing the record; that rest is calibrated (callCost) and taken off too.
type recorder struct {
	inner    backends.Device
	vm       backends.VirtualMemory
	streams  backends.Streams
	host     backends.HostMemory // nil: none
	log      *callLog
	clock    clock.Info
	modelled bool
	timer    callTimer

	sizes   sizeTable // of Malloc, by address, for the records of Free
	injects bool      // the device cannot fail on purpose: the recorder does it
	failIn  uint64    // calls that can run out of memory until one fails; 0 = never
}

// newRecorder wraps d. The second value is what the strategy sees: it implements VirtualMemory and Streams exactly if the
// device does.
func newRecorder(d backends.Device, log *callLog, info clock.Info) (*recorder, backends.Device) {
	r := &recorder{inner: d, log: log, clock: info, modelled: d.Info().ModelledTime}
	if t, ok := d.(callTimer); ok {
		r.timer = t
	}
	r.vm = capabilityOf[backends.VirtualMemory](d, CapVirtualMemory)
	r.streams = capabilityOf[backends.Streams](d, CapStreams)
	r.host, _ = backends.As[backends.HostMemory](d)
	r.injects = capabilityOf[backends.FaultInjector](d, CapFaultInjector) == nil
	switch {
	case r.vm != nil && r.streams != nil:
		return r, struct {
			*recorder
			recordedVM
			recordedStreams
		}{r, recordedVM{r}, recordedStreams{r}}
	case r.vm != nil:
		return r, struct {
			*recorder
			recordedVM
		}{r, recordedVM{r}}
	case r.streams != nil:
		return r, struct {
			*recorder
			recordedStreams
		}{r, recordedStreams{r}}
	}
	return r, r
}

// callStart is the state of both clocks before a call.
type callStart struct {
	ticks, deviceNs uint64
}

func (r *recorder) start() callStart {
	s := callStart{ticks: clock.Ticks()}
	if r.modelled && r.timer == nil {
		s.deviceNs = r.inner.NowNs()
	}
	return s
}

// stop ends the time of a call and returns it on both clocks.
func (r *recorder) stop(s callStart) (deviceNs, wallTicks uint64) {
	switch {
	case r.timer != nil:
		deviceNs = r.timer.LastCallNs()
		wallTicks = clock.Ticks() - s.ticks
	case r.modelled:
		deviceNs = r.inner.NowNs() - s.deviceNs
		wallTicks = clock.Ticks() - s.ticks
	default:
		wallTicks = clock.Ticks() - s.ticks
		if cost := r.clock.ReadCostTicks(); wallTicks > cost {
			deviceNs = r.clock.Ns(wallTicks - cost)
		}
	}
	return deviceNs, wallTicks
}

// record ends the time of a call and writes c.
func (r *recorder) record(s callStart, c *trace.Call) {
	deviceNs, wallTicks := r.stop(s)
	l := r.log
	l.wallTicks += wallTicks
	l.deviceNs += deviceNs
	l.deviceCalls++
	c.DeviceNs = saturate32(deviceNs)
	c.WallTicks = saturate32(wallTicks)
	l.add(c)
}

// fails counts down to an injected failure.
func (r *recorder) fails() bool {
	if r.failIn == 0 {
		return false
	}
	r.failIn--
	return r.failIn == 0
}

// Info passes through; it is not a device call.
func (r *recorder) Info() backends.Info { return r.inner.Info() }

// NowNs passes through; it is not a device call.
func (r *recorder) NowNs() uint64 { return r.inner.NowNs() }

// Close does nothing: the session, which opened the device, closes it.
func (r *recorder) Close() error { return nil }

func (r *recorder) MemInfo() (freeBytes, totalBytes uint64) {
	s := r.start()
	freeBytes, totalBytes = r.inner.MemInfo()
	r.record(s, &trace.Call{Kind: trace.CallMemInfo, Addr: freeBytes, Size: totalBytes})
	return freeBytes, totalBytes
}

func (r *recorder) Malloc(size uint64) (uint64, trace.CallStatus) {
	s := r.start()
	var addr uint64
	st := trace.CallInjected
	if !r.fails() {
		addr, st = r.inner.Malloc(size)
	}
	if st == trace.CallOK {
		r.sizes.put(addr, size)
	} else {
		addr = 0
	}
	r.record(s, &trace.Call{Kind: trace.CallMalloc, Status: st, Addr: addr, Size: size})
	return addr, st
}

func (r *recorder) Free(addr uint64) trace.CallStatus {
	s := r.start()
	st := r.inner.Free(addr)
	var size uint64
	if st == trace.CallOK {
		size = r.sizes.take(addr)
	}
	r.record(s, &trace.Call{Kind: trace.CallFree, Status: st, Addr: addr, Size: size})
	return st
}

// adopt tells the device a segment of a start state.
func (r *recorder) adopt(a backends.SegmentAdopter, addr, size uint64) trace.CallStatus {
	s := r.start()
	st := a.Adopt(addr, size)
	if st == trace.CallOK {
		r.sizes.put(addr, size)
	}
	r.record(s, &trace.Call{Kind: trace.CallMalloc, Status: st, Addr: addr, Size: size})
	return st
}

// sizeTable maps live addresses of Malloc to their sizes: a hash table of indexes into a list with a free list.
type sizeTable struct {
	index addrmap.Map
	sizes []uint64
	free  []uint32
}

func (t *sizeTable) put(addr, size uint64) {
	if i := t.index.Get(addr); i != 0 {
		t.sizes[i-1] = size // the device handed out an address twice; the ledger will say so
		return
	}
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.sizes[i-1] = size
		t.index.Put(addr, i)
		return
	}
	t.sizes = append(t.sizes, size)
	t.index.Put(addr, uint32(len(t.sizes)))
}

// take removes addr and returns its size, 0 if it is unknown.
func (t *sizeTable) take(addr uint64) uint64 {
	i := t.index.Delete(addr)
	if i == 0 {
		return 0
	}
	t.free = append(t.free, i)
	return t.sizes[i-1]
}
