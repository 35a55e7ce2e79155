package sdk

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// recordedVM records the calls of virtual memory.
type recordedVM struct{ r *recorder }

func (v recordedVM) Reserve(size uint64) (uint64, trace.CallStatus) {
	r := v.r
	s := r.start()
	var addr uint64
	st := trace.CallInjected
	if !r.fails() {
		addr, st = r.vm.Reserve(size)
	}
	r.record(s, &trace.Call{Kind: trace.CallReserve, Status: st, Addr: addr, Size: size})
	return addr, st
}

func (v recordedVM) Unreserve(addr, size uint64) trace.CallStatus {
	s := v.r.start()
	st := v.r.vm.Unreserve(addr, size)
	v.r.record(s, &trace.Call{Kind: trace.CallUnreserve, Status: st, Addr: addr, Size: size})
	return st
}

func (v recordedVM) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	r := v.r
	s := r.start()
	var id backends.PhysID
	st := trace.CallInjected
	if !r.fails() {
		id, st = r.vm.Create(size)
	}
	r.record(s, &trace.Call{Kind: trace.CallCreate, Status: st, Size: size, Aux: uint64(id)})
	return id, st
}

func (v recordedVM) Release(id backends.PhysID) trace.CallStatus {
	s := v.r.start()
	st := v.r.vm.Release(id)
	v.r.record(s, &trace.Call{Kind: trace.CallRelease, Status: st, Aux: uint64(id)})
	return st
}

func (v recordedVM) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	r := v.r
	s := r.start()
	st := trace.CallInjected
	if !r.fails() {
		st = r.vm.Map(addr, size, id)
	}
	r.record(s, &trace.Call{Kind: trace.CallMap, Status: st, Addr: addr, Size: size, Aux: uint64(id)})
	return st
}

func (v recordedVM) Unmap(addr, size uint64) trace.CallStatus {
	s := v.r.start()
	st := v.r.vm.Unmap(addr, size)
	v.r.record(s, &trace.Call{Kind: trace.CallUnmap, Status: st, Addr: addr, Size: size})
	return st
}

func (v recordedVM) SetAccess(addr, size uint64) trace.CallStatus {
	s := v.r.start()
	st := v.r.vm.SetAccess(addr, size)
	v.r.record(s, &trace.Call{Kind: trace.CallSetAccess, Status: st, Addr: addr, Size: size})
	return st
}

// recordedStreams records the calls of streams and events.
type recordedStreams struct{ r *recorder }

func (v recordedStreams) Record(st backends.Stream) backends.EventID {
	s := v.r.start()
	e := v.r.streams.Record(st)
	v.r.record(s, &trace.Call{Kind: trace.CallEventRecord, Stream: uint32(st), Aux: uint64(e)})
	return e
}

func (v recordedStreams) Query(e backends.EventID) bool {
	s := v.r.start()
	complete := v.r.streams.Query(e)
	c := trace.Call{Kind: trace.CallEventQuery, Status: trace.CallNotReady, Aux: uint64(e)}
	if complete {
		c.Status = trace.CallOK
	}
	v.r.record(s, &c)
	return complete
}

func (v recordedStreams) Wait(e backends.EventID) {
	s := v.r.start()
	v.r.streams.Wait(e)
	v.r.record(s, &trace.Call{Kind: trace.CallEventWait, Aux: uint64(e)})
}

func (v recordedStreams) StreamWait(st backends.Stream, e backends.EventID) {
	s := v.r.start()
	v.r.streams.StreamWait(st, e)
	v.r.record(s, &trace.Call{Kind: trace.CallStreamWait, Stream: uint32(st), Aux: uint64(e)})
}

// Drop has no record: destroying an event changes nothing that the books keep. Its time is device time all the same.
func (v recordedStreams) Drop(e backends.EventID) {
	s := v.r.start()
	v.r.streams.Drop(e)
	deviceNs, wallTicks := v.r.stop(s)
	v.r.log.wallTicks += wallTicks
	v.r.log.deviceNs += deviceNs
	v.r.log.deviceCalls++
}

func (v recordedStreams) SyncStream(st backends.Stream) {
	s := v.r.start()
	v.r.streams.SyncStream(st)
	v.r.record(s, &trace.Call{Kind: trace.CallStreamSync, Stream: uint32(st)})
}

func (v recordedStreams) SyncDevice() {
	s := v.r.start()
	v.r.streams.SyncDevice()
	v.r.record(s, &trace.Call{Kind: trace.CallDeviceSync})
}
