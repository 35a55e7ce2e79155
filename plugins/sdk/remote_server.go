package sdk

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// deviceServer answers the calls of the remote binding from a device: its far end. One goroutine at a time.
type deviceServer struct {
	open     func() (backends.Device, error) // opens the device again, for a reset that it cannot do itself
	device   backends.Device
	vm       backends.VirtualMemory
	streams  backends.Streams
	control  controls
	modelled bool
	clock    clock.Info
	calls    uint64
	fresh    bool // nothing was asked since it was opened or reset
	lost     bool // it could not be opened again
}

// newDeviceServer opens the device.
func newDeviceServer(open func() (backends.Device, error)) (*deviceServer, error) {
	s := &deviceServer{open: open, clock: clock.Calibrated()}
	return s, s.reopen()
}

func (s *deviceServer) reopen() error {
	d, err := s.open()
	if err != nil {
		return err
	}
	s.device, s.control, s.modelled, s.fresh = d, controlsOf(d), d.Info().ModelledTime, true
	s.vm = capabilityOf[backends.VirtualMemory](d, CapVirtualMemory)
	s.streams = capabilityOf[backends.Streams](d, CapStreams)
	return nil
}

// info describes the device as its far side sees it: every remote device can be reset.
func (s *deviceServer) info() *pluginv1.DeviceInfo {
	i := deviceInfo(s.device)
	if s.control.reset == nil {
		i.Capabilities = append(i.Capabilities, string(CapDeviceReset))
	}
	return i
}

// reset returns to the state after opening: by the device's own means, or by opening it again.
func (s *deviceServer) reset() trace.CallStatus {
	switch {
	case s.fresh:
		return trace.CallOK
	case s.control.reset != nil:
		s.control.reset.Reset()
		s.fresh = true
		return trace.CallOK
	}
	err := s.device.Close()
	if err == nil {
		err = s.reopen()
	}
	if err != nil {
		s.lost = true
		return trace.CallDeviceLost
	}
	return trace.CallOK
}

// handle makes one call and times it.
func (s *deviceServer) handle(q *wire.Request, a *wire.Answer) {
	s.calls++
	switch {
	case q.Op == wire.OpNop:
		return
	case s.lost:
		a.Status = uint32(trace.CallDeviceLost)
		return
	case q.Op == wire.OpReset:
		a.Status = uint32(s.reset())
		a.NowNs = s.device.NowNs()
		return
	}
	s.fresh = false
	if s.modelled {
		before := s.device.NowNs()
		a.Status = uint32(s.do(q, a))
		a.NowNs = s.device.NowNs()
		a.SpentNs = a.NowNs - before
		return
	}
	before := clock.Ticks()
	a.Status = uint32(s.do(q, a))
	spent := clock.Ticks() - before
	a.SpentNs = s.clock.Ns(spent - min(spent, s.clock.ReadCostTicks()))
	a.NowNs = s.device.NowNs()
}

func (s *deviceServer) do(q *wire.Request, a *wire.Answer) (st trace.CallStatus) {
	switch q.Op {
	case wire.OpMemInfo:
		a.Value0, a.Value1 = s.device.MemInfo()
	case wire.OpMalloc:
		a.Value0, st = s.device.Malloc(q.Size)
	case wire.OpFree:
		st = s.device.Free(q.Addr)
	case wire.OpNow:
	case wire.OpReserve, wire.OpUnreserve, wire.OpCreate, wire.OpRelease, wire.OpMap, wire.OpUnmap, wire.OpSetAccess:
		if s.vm == nil {
			return trace.CallNotSupported
		}
		return s.doVirtual(q, a)
	case wire.OpEventRecord, wire.OpEventQuery, wire.OpEventWait, wire.OpStreamWait, wire.OpEventDrop, wire.OpStreamSync, wire.OpDeviceSync:
		if s.streams == nil {
			return trace.CallNotSupported
		}
		s.doStreams(q, a)
	default:
		return s.doControl(q)
	}
	return st
}

func (s *deviceServer) doVirtual(q *wire.Request, a *wire.Answer) (st trace.CallStatus) {
	switch q.Op {
	case wire.OpReserve:
		a.Value0, st = s.vm.Reserve(q.Size)
	case wire.OpUnreserve:
		st = s.vm.Unreserve(q.Addr, q.Size)
	case wire.OpCreate:
		var id backends.PhysID
		id, st = s.vm.Create(q.Size)
		a.Value0 = uint64(id)
	case wire.OpRelease:
		st = s.vm.Release(backends.PhysID(q.Aux))
	case wire.OpMap:
		st = s.vm.Map(q.Addr, q.Size, backends.PhysID(q.Aux))
	case wire.OpUnmap:
		st = s.vm.Unmap(q.Addr, q.Size)
	case wire.OpSetAccess:
		st = s.vm.SetAccess(q.Addr, q.Size)
	}
	return st
}

func (s *deviceServer) doStreams(q *wire.Request, a *wire.Answer) {
	stream, event := backends.Stream(q.Stream), backends.EventID(q.Aux)
	switch q.Op {
	case wire.OpEventRecord:
		a.Value0 = uint64(s.streams.Record(stream))
	case wire.OpEventQuery:
		if s.streams.Query(event) {
			a.Value0 = 1
		}
	case wire.OpEventWait:
		s.streams.Wait(event)
	case wire.OpStreamWait:
		s.streams.StreamWait(stream, event)
	case wire.OpEventDrop:
		s.streams.Drop(event)
	case wire.OpStreamSync:
		s.streams.SyncStream(stream)
	case wire.OpDeviceSync:
		s.streams.SyncDevice()
	}
}

// doControl makes the calls that the replay loop drives. A device without the interface answers CallNotSupported.
func (s *deviceServer) doControl(q *wire.Request) trace.CallStatus {
	c := &s.control
	stream := backends.Stream(q.Stream)
	switch {
	case q.Op == wire.OpManualEvents && c.control != nil:
		c.control.SetManualEvents(q.Aux != 0)
	case q.Op == wire.OpComplete && c.control != nil:
		c.control.Complete(stream)
	case q.Op == wire.OpCompleteAll && c.control != nil:
		c.control.CompleteAll()
	case q.Op == wire.OpStreamGone && c.control != nil:
		c.control.DestroyStream(stream)
	case q.Op == wire.OpAdvance && c.clocked != nil:
		c.clocked.AdvanceNs(q.Aux)
	case q.Op == wire.OpFailNext && c.faults != nil:
		c.faults.FailNext(q.Aux)
	case q.Op == wire.OpBeginEvent && c.answers != nil:
		c.answers.BeginEvent(q.Aux)
	case q.Op == wire.OpAdopt && c.adopter != nil:
		return c.adopter.Adopt(q.Addr, q.Size)
	default:
		return trace.CallNotSupported
	}
	return trace.CallOK
}
