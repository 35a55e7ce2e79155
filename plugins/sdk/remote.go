package sdk

import (
	"errors"
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// caller carries one device call to another process: a slot, or unary RPCs.
type caller interface {
	Call(q *wire.Request, a *wire.Answer) error
}

// remoteDevice is a device in another process: the near end of the remote binding. Its type has every optional interface;
// Has tells which this device serves.
//
// A device whose transport has failed answers CallDeviceLost (or CallHung once, when there was no answer) for ever.
type remoteDevice struct {
	caller caller
	close  func() error
	info   backends.Info
	caps   []Capability
	q      wire.Request // kept here, so that a call allocates nothing
	a      wire.Answer
	lost   bool
	why    error // of the loss
}

func newRemoteDevice(c caller, info backends.Info, caps []Capability, closer func() error) *remoteDevice {
	info.VirtualMemory = slices.Contains(caps, CapVirtualMemory)
	info.StreamEvents = slices.Contains(caps, CapStreams)
	return &remoteDevice{caller: c, info: info, caps: caps, close: closer}
}

// Has implements selective.
func (d *remoteDevice) Has(c Capability) bool { return slices.Contains(d.caps, c) }

// LastCallNs implements callTimer: the transport is in no figure.
func (d *remoteDevice) LastCallNs() uint64 { return d.a.SpentNs }

func (d *remoteDevice) call(q wire.Request) trace.CallStatus {
	if d.lost {
		d.a.Value0, d.a.Value1, d.a.SpentNs = 0, 0, 0
		return trace.CallDeviceLost
	}
	d.q = q
	now := d.a.NowNs
	err := d.caller.Call(&d.q, &d.a)
	if err == nil {
		if d.a.Status > uint32(trace.CallBroken) {
			return trace.CallBroken
		}
		return trace.CallStatus(d.a.Status)
	}
	d.lost, d.why = true, err
	d.a = wire.Answer{NowNs: now}
	if errors.Is(err, wire.ErrSlotHung) {
		return trace.CallHung
	}
	return trace.CallDeviceLost
}

func (d *remoteDevice) Info() backends.Info { return d.info }

func (d *remoteDevice) MemInfo() (uint64, uint64) {
	d.call(wire.Request{Op: wire.OpMemInfo})
	return d.a.Value0, d.a.Value1
}

func (d *remoteDevice) Malloc(size uint64) (uint64, trace.CallStatus) {
	st := d.call(wire.Request{Op: wire.OpMalloc, Size: size})
	return d.a.Value0, st
}

func (d *remoteDevice) Free(addr uint64) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpFree, Addr: addr})
}

// NowNs is the clock as the last answer showed it when the clock is a model's, which advances by calls only; a real clock
// is asked.
func (d *remoteDevice) NowNs() uint64 {
	if !d.info.ModelledTime {
		d.call(wire.Request{Op: wire.OpNow})
	}
	return d.a.NowNs
}

func (d *remoteDevice) Close() error { return d.close() }

func (d *remoteDevice) Reserve(size uint64) (uint64, trace.CallStatus) {
	st := d.call(wire.Request{Op: wire.OpReserve, Size: size})
	return d.a.Value0, st
}

func (d *remoteDevice) Unreserve(addr, size uint64) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpUnreserve, Addr: addr, Size: size})
}

func (d *remoteDevice) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	st := d.call(wire.Request{Op: wire.OpCreate, Size: size})
	return backends.PhysID(d.a.Value0), st
}

func (d *remoteDevice) Release(id backends.PhysID) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpRelease, Aux: uint64(id)})
}

func (d *remoteDevice) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpMap, Addr: addr, Size: size, Aux: uint64(id)})
}

func (d *remoteDevice) Unmap(addr, size uint64) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpUnmap, Addr: addr, Size: size})
}

func (d *remoteDevice) SetAccess(addr, size uint64) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpSetAccess, Addr: addr, Size: size})
}

func (d *remoteDevice) Record(s backends.Stream) backends.EventID {
	d.call(wire.Request{Op: wire.OpEventRecord, Stream: uint32(s)})
	return backends.EventID(d.a.Value0)
}

// Query of a lost device is complete: nobody must wait for it for ever.
func (d *remoteDevice) Query(e backends.EventID) bool {
	st := d.call(wire.Request{Op: wire.OpEventQuery, Aux: uint64(e)})
	return d.a.Value0 != 0 || st != trace.CallOK
}

func (d *remoteDevice) Wait(e backends.EventID) {
	d.call(wire.Request{Op: wire.OpEventWait, Aux: uint64(e)})
}

func (d *remoteDevice) StreamWait(s backends.Stream, e backends.EventID) {
	d.call(wire.Request{Op: wire.OpStreamWait, Stream: uint32(s), Aux: uint64(e)})
}

func (d *remoteDevice) Drop(e backends.EventID) {
	d.call(wire.Request{Op: wire.OpEventDrop, Aux: uint64(e)})
}

func (d *remoteDevice) SyncStream(s backends.Stream) {
	d.call(wire.Request{Op: wire.OpStreamSync, Stream: uint32(s)})
}

func (d *remoteDevice) SyncDevice() { d.call(wire.Request{Op: wire.OpDeviceSync}) }

func (d *remoteDevice) SetManualEvents(manual bool) {
	q := wire.Request{Op: wire.OpManualEvents}
	if manual {
		q.Aux = 1
	}
	d.call(q)
}

func (d *remoteDevice) Complete(s backends.Stream) {
	d.call(wire.Request{Op: wire.OpComplete, Stream: uint32(s)})
}

func (d *remoteDevice) CompleteAll() { d.call(wire.Request{Op: wire.OpCompleteAll}) }

func (d *remoteDevice) DestroyStream(s backends.Stream) {
	d.call(wire.Request{Op: wire.OpStreamGone, Stream: uint32(s)})
}

func (d *remoteDevice) AdvanceNs(ns uint64) { d.call(wire.Request{Op: wire.OpAdvance, Aux: ns}) }

func (d *remoteDevice) FailNext(k uint64) { d.call(wire.Request{Op: wire.OpFailNext, Aux: k}) }

func (d *remoteDevice) Reset() { d.call(wire.Request{Op: wire.OpReset}) }

func (d *remoteDevice) BeginEvent(i uint64) { d.call(wire.Request{Op: wire.OpBeginEvent, Aux: i}) }

func (d *remoteDevice) Adopt(addr, size uint64) trace.CallStatus {
	return d.call(wire.Request{Op: wire.OpAdopt, Addr: addr, Size: size})
}

// RemoteCost is what the transport of one call costs.
type RemoteCost struct {
	Calls  int
	MeanNs uint64
	P50Ns  uint64
	P99Ns  uint64
}

// remoteCostCalls give a p99 of ten samples above it; at 60 µs an RPC they take 60 ms.
const remoteCostCalls = 1000

// measure times calls that do nothing.
func (d *remoteDevice) measure() (RemoteCost, error) {
	info := clock.Calibrated()
	spent := make([]uint64, remoteCostCalls)
	var sum uint64
	for i := range spent {
		t0 := clock.Ticks()
		st := d.call(wire.Request{Op: wire.OpNop})
		t1 := clock.Ticks()
		if st != trace.CallOK {
			return RemoteCost{}, errors.Join(st.Err(), d.why)
		}
		spent[i] = info.Ns(t1 - t0 - min(t1-t0, info.ReadCostTicks()))
		sum += spent[i]
	}
	slices.Sort(spent)
	n := len(spent)
	return RemoteCost{Calls: n, MeanNs: sum / uint64(n), P50Ns: spent[n/2], P99Ns: spent[n*99/100]}, nil
}
