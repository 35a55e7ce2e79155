package pmm

import (
	"fmt"
	"math"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	model "github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/managed"
	"github.com/gpubench/gpubench/pmm/pma"
	"github.com/gpubench/gpubench/trace"
)

// Config says what device is modelled.
type Config struct {
	TotalBytes uint64       // device memory, rounded down to roots of 2 MiB; more than 0
	Name       string       // for Info, such as "pmm a100-80"; "pmm" if empty
	Costs      *model.Costs // nil: model.DefaultCosts
	CostSource string       // where the costs come from, for Info
	// ScrubNsPerFrame is the time to zero 64 KiB after a free; negative: what Costs.ScrubBytesPerSec gives.
	ScrubNsPerFrame int64
	// Pages says of which pages device memory is made.
	Pages RMPages
}

// Device is the device. It implements what ideal.Device does. Make one with New.
type Device struct {
	*ideal.Device
	info   backends.Info
	memory *pages
	costs  model.Costs
}

// New returns a device with all its memory free.
func New(cfg Config) (*Device, error) {
	if int(cfg.Pages) >= len(rmPagesNames) {
		return nil, fmt.Errorf("%w: %d", ErrPages, cfg.Pages)
	}
	costs := model.DefaultCosts()
	source := cfg.CostSource
	if cfg.Costs != nil {
		costs = *cfg.Costs
	} else if source == "" {
		source = "defaults: figures published for several devices, see docs/PMM.md"
	}
	mc := model.DefaultConfig(cfg.TotalBytes)
	mc.Costs = costs
	if mc.ScrubNsPerFrame = cfg.ScrubNsPerFrame; cfg.ScrubNsPerFrame < 0 {
		mc.ScrubNsPerFrame = 0
		if rate := costs.ScrubBytesPerSec.Value; rate > 0 {
			mc.ScrubNsPerFrame = int64(math.Round(pma.FrameBytes * 1e9 / float64(rate)))
		}
	}
	p := &pages{cfg: mc, kind: cfg.Pages}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("device of %d bytes: %w", cfg.TotalBytes, err)
	}
	name := cfg.Name
	if name == "" {
		name = "pmm"
	}
	inner, err := ideal.New(ideal.Config{TotalBytes: uint64(mc.Roots) * model.RootBytes, Name: name, Memory: p})
	if err != nil {
		return nil, err
	}
	d := &Device{Device: inner, info: inner.Info(), memory: p, costs: costs}
	d.info.CostSource = source
	d.info.UncalibratedTime = len(costs.Uncalibrated()) > 0
	d.info.PageBytes = cfg.Pages.grain()
	return d, nil
}

// Info describes the device.
func (d *Device) Info() backends.Info { return d.info }

// Model returns the model below, to look at. Reset makes a new one.
func (d *Device) Model() *model.Model { return d.memory.m }

// Managed returns an address space of managed memory on this device: user chunks of the manager, which a Malloc that finds
// too little memory evicts. Reset takes its memory away; make a new one then.
func (d *Device) Managed(o managed.Options) (*managed.Space, error) {
	return managed.New(d.memory.m, o)
}

// NowNs is the model's clock.
func (d *Device) NowNs() uint64 { return uint64(d.memory.m.NowNs()) }

// AdvanceNs moves the model's clock forward; scrubbing proceeds.
func (d *Device) AdvanceNs(ns uint64) { d.memory.m.AdvanceNs(int64(min(ns, math.MaxInt64))) }

// begin starts a call that asks for so many bytes, and returns the time.
func (d *Device) begin(bytes uint64) int64 {
	d.memory.exact, d.memory.waited = bytes, 0
	return d.memory.m.NowNs()
}

// end makes a call that succeeded cost what was published for the whole of it, or what its parts cost if that is more:
// entries written, one invalidate if invalidate is set, and what the model has charged already. Waiting for the scrubber
// comes on top.
func (d *Device) end(began int64, st trace.CallStatus, whole model.Cost, entryBytes uint64, invalidate bool) {
	d.memory.exact = 0
	if st != trace.CallOK {
		return
	}
	m := d.memory.m
	m.AdvanceNs(d.costs.MapPageNs.Value * d.entries(entryBytes))
	if invalidate {
		m.AdvanceNs(d.costs.TLBInvalidateNs.Value)
	}
	m.AdvanceNs(whole.Value - (m.NowNs() - began - d.memory.waited))
}

// entries counts the page-table entries of bytes of new memory.
func (d *Device) entries(bytes uint64) int64 {
	large, small := d.memory.cut(bytes)
	return int64(large) + int64(small)
}

// Malloc takes pages and maps them.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	began := d.begin(size)
	addr, st := d.Device.Malloc(size)
	d.end(began, st, d.costs.MallocNs, size, false)
	return addr, st
}

// Free unmaps and gives the pages back.
func (d *Device) Free(addr uint64) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.Free(addr)
	d.end(began, st, d.costs.MallocFreeNs, 0, true)
	return st
}

// Adopt takes the pages of a start state.
func (d *Device) Adopt(addr, size uint64) trace.CallStatus {
	d.memory.exact = size
	st := d.Device.Adopt(addr, size)
	d.memory.exact = 0
	return st
}

// Reserve takes a virtual range.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	began := d.begin(0)
	addr, st := d.Device.Reserve(size)
	d.end(began, st, d.costs.ReserveNs, 0, false)
	return addr, st
}

// Unreserve gives a virtual range back.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.Unreserve(addr, size)
	d.end(began, st, d.costs.AddressFreeNs, 0, false)
	return st
}

// Create takes pages without an address.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	began := d.begin(0)
	id, st := d.Device.Create(size)
	d.end(began, st, d.costs.CreateNs, 0, false)
	return id, st
}

// Release gives physical memory up.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.Release(id)
	d.end(began, st, d.costs.ReleaseNs, 0, false)
	return st
}

// Map maps physical memory, at a cost an entry at least.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.Map(addr, size, id)
	d.end(began, st, d.costs.MapNs, size, false)
	return st
}

// Unmap unmaps, at the cost of one invalidate at least.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.Unmap(addr, size)
	d.end(began, st, d.costs.UnmapNs, 0, true)
	return st
}

// SetAccess makes mappings usable.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus {
	began := d.begin(0)
	st := d.Device.SetAccess(addr, size)
	d.end(began, st, d.costs.SetAccessNs, 0, false)
	return st
}

var (
	_ backends.Device         = (*Device)(nil)
	_ backends.VirtualMemory  = (*Device)(nil)
	_ backends.Streams        = (*Device)(nil)
	_ backends.StreamControl  = (*Device)(nil)
	_ backends.Clocked        = (*Device)(nil)
	_ backends.FaultInjector  = (*Device)(nil)
	_ backends.Resetter       = (*Device)(nil)
	_ backends.SegmentAdopter = (*Device)(nil)
	_ ideal.Memory            = (*pages)(nil)
)
