//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"fmt"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// fallbackPageBytes is the granularity where the driver has no virtual memory management to ask.
const fallbackPageBytes = 2 << 20

// Device is one GPU with a context of its own. It implements backends.Device, Resetter, and, where the hardware has them,
// VirtualMemory and Streams. Make one with Open and Close it.
type Device struct {
	driver
	id     Identity
	info   backends.Info
	memory Memory
	canary bool
	pool   C.uint64_t
	page   uint64
	limit  uint64 // bytes that may be held
	held   uint64

	blocks  addresses         // of Malloc
	pinned  map[uint64]uint64 // device address of pinned memory -> its host address
	hosted  map[uint64]bool   // addresses that HostMalloc returned
	asyncs  addresses         // of AllocAsync
	phys    map[backends.PhysID]phys
	ranges  map[uint64]uint64  // reservations: address -> size
	maps    map[uint64]mapping // by address
	streams []C.uint64_t       // by trace stream; 0 is the default stream or one that was not used yet
	events  eventTable
}

// Open opens a device.
func Open(cfg Config) (*Device, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	drv, err := loadDriver(cfg.Library, cfg.OpenDeadline)
	if err != nil {
		return nil, err
	}
	d := &Device{driver: *drv, memory: cfg.Memory, canary: cfg.Canary, pinned: map[uint64]uint64{}, hosted: map[uint64]bool{}, phys: map[backends.PhysID]phys{},
		ranges: map[uint64]uint64{}, maps: map[uint64]mapping{}}
	if err := d.start(&cfg); err != nil {
		_ = d.Close()
		return nil, err
	}
	C.gb_set_deadline(d.c, C.uint64_t(cfg.CallDeadline))
	return d, nil
}

func (d *Device) start(cfg *Config) error {
	count, err := d.open()
	if err != nil {
		return err
	}
	if d.id, err = d.choose(cfg.Device, count); err != nil {
		return err
	}
	if err := d.supports(cfg.Memory); err != nil {
		return err
	}
	if err := refuseUsed(cfg, d.id); err != nil {
		return err
	}
	if r := C.gb_context(d.c, C.int(d.id.Index)); r != C.GB_OK {
		return d.failed("cuCtxCreate", r)
	}
	d.page = fallbackPageBytes
	if d.id.VirtualMem && C.gb_granularity(d.c, C.int(d.id.Index)) == C.GB_OK {
		d.page = uint64(d.shared.out)
	}
	if err := d.size(cfg); err != nil {
		return err
	}
	if cfg.Memory == MemoryPool {
		if err := d.makePool(cfg.PoolThresholdBytes); err != nil {
			return err
		}
	}
	d.info = backends.Info{
		Name: d.id.Name, TotalBytes: d.limit, PageBytes: d.page, VirtualMemory: d.id.VirtualMem, StreamEvents: true,
		CostSource: "measured: calls of the CUDA driver on this device",
	}
	return nil
}

func (d *Device) supports(m Memory) error {
	if m == MemoryPool && !d.id.Pools {
		return fmt.Errorf("%w: %s has no stream-ordered pools", ErrUnsupported, d.id.Name)
	}
	if m == MemoryManaged && !d.id.Managed {
		return fmt.Errorf("%w: %s has no managed memory", ErrUnsupported, d.id.Name)
	}
	return nil
}

// refuseUsed refuses a device that others use.
func refuseUsed(cfg *Config, id Identity) error {
	if cfg.AllowShared || cfg.Users == nil {
		return nil
	}
	users, err := cfg.Users(id.UUID)
	if err != nil || len(users) == 0 {
		return nil // nothing is known against it
	}
	return fmt.Errorf("%w: process %d (%s) and %d others run on %s %s; wait for them, choose another device, or share it",
		ErrInUse, users[0].PID, users[0].Name, len(users)-1, id.Name, id.UUID)
}

// size finds how much may be held.
func (d *Device) size(cfg *Config) error {
	if r := C.gb_mem_info(d.c); r != C.GB_OK {
		return d.failed("cuMemGetInfo", r)
	}
	free := uint64(d.shared.out)
	d.limit = uint64(float64(free)*cfg.Share) / d.page * d.page
	if cfg.TotalBytes == 0 {
		return nil
	}
	if cfg.TotalBytes > d.limit {
		return fmt.Errorf("%w: %d bytes were asked of %s %s, of whose %d free bytes at most %d may be taken (%g %%); ask for less, or raise the share",
			ErrTooLarge, cfg.TotalBytes, d.id.Name, d.id.UUID, free, d.limit, 100*cfg.Share)
	}
	d.limit = cfg.TotalBytes / d.page * d.page
	return nil
}

// Info describes the device.
func (d *Device) Info() backends.Info { return d.info }

// Identity is what the driver says of the device.
func (d *Device) Identity() Identity { return d.id }

// LastCallNs is the driver's own time in the last call.
func (d *Device) LastCallNs() uint64 {
	ticks := uint64(d.shared.ticks)
	if cost := d.clock.ReadCostTicks(); ticks > cost {
		return d.clock.Ns(ticks - cost)
	}
	return 0
}

// NowNs is the monotonic clock since the process started.
func (d *Device) NowNs() uint64 { return uint64(clock.Monotonic()) }

// Lost reports whether nothing reaches the driver any more.
func (d *Device) Lost() bool { return d.shared.lost != 0 }

// MemInfo returns what is left of the device's share, or what the driver calls free if that is less, and the share.
func (d *Device) MemInfo() (freeBytes, totalBytes uint64) {
	if C.gb_mem_info(d.c) != C.GB_OK {
		return 0, d.limit
	}
	return min(d.limit-d.held, uint64(d.shared.out)), d.limit
}

// charge is what a block counts in the device's share: whole pages, as on the modelled devices. The driver lets small blocks share a page,
// so it never holds more than is counted.
func (d *Device) charge(size uint64) uint64 { return (size + d.page - 1) / d.page * d.page }

// take reserves size bytes of the share.
func (d *Device) take(size uint64) trace.CallStatus {
	d.shared.ticks = 0 // a call that does not reach the driver takes no time of it
	switch {
	case d.Lost():
		return trace.CallDeviceLost
	case size == 0:
		return trace.CallInvalidValue
	case size > d.limit || d.charge(size) > d.limit-d.held:
		return trace.CallOutOfMemory
	}
	d.held += d.charge(size)
	return trace.CallOK
}

// Malloc takes memory of the kind the device was opened with.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	if st := d.take(size); st != trace.CallOK {
		return 0, st
	}
	var r C.int
	switch d.memory {
	case MemoryDevice:
		r = C.gb_malloc(d.c, C.uint64_t(size))
	case MemoryPool:
		r = C.gb_pool_malloc(d.c, C.uint64_t(size), d.pool, 0)
	case MemoryPinned:
		return d.mallocPinned(size)
	case MemoryManaged:
		return d.mallocManaged(size)
	}
	return d.took(r, size)
}

// took keeps the books of an allocation.
func (d *Device) took(r C.int, size uint64) (uint64, trace.CallStatus) {
	if r != C.GB_OK {
		d.held -= d.charge(size)
		return 0, status(r)
	}
	addr := uint64(d.shared.out)
	d.blocks.put(addr, size)
	if d.canary {
		spent := d.shared.ticks
		st := d.Fill(addr, size, addr)
		d.shared.ticks = spent
		return addr, st
	}
	return addr, trace.CallOK
}

// mallocManaged never takes more than is free now: managed memory that does not fit swaps instead of failing.
func (d *Device) mallocManaged(size uint64) (uint64, trace.CallStatus) {
	if r := C.gb_mem_info(d.c); r != C.GB_OK || uint64(d.shared.out) < size {
		d.held -= d.charge(size)
		if r != C.GB_OK {
			return 0, status(r)
		}
		return 0, trace.CallOutOfMemory
	}
	return d.took(C.gb_managed(d.c, C.uint64_t(size)), size)
}

func (d *Device) mallocPinned(size uint64) (uint64, trace.CallStatus) {
	addr, st := d.HostMalloc(size)
	if st != trace.CallOK {
		d.held -= d.charge(size)
		return 0, st
	}
	spent := d.shared.ticks
	r := C.gb_host_pointer(d.c, C.uint64_t(addr))
	d.shared.ticks += spent
	if r != C.GB_OK {
		C.gb_host_free(d.c, C.uint64_t(addr))
	}
	seen, st := d.took(r, size)
	if st == trace.CallOK {
		d.pinned[seen] = addr
	}
	return seen, st
}

// Free gives back what Malloc returned.
func (d *Device) Free(addr uint64) trace.CallStatus {
	d.shared.ticks = 0
	size, ok := d.blocks.get(addr)
	switch {
	case d.Lost():
		return trace.CallDeviceLost
	case !ok:
		return trace.CallInvalidValue
	}
	intact := true
	if d.canary {
		var st trace.CallStatus
		if _, intact, st = d.Check(addr, size, addr); st != trace.CallOK {
			return st
		}
	}
	var r C.int
	switch d.memory {
	case MemoryPool:
		r = C.gb_pool_free(d.c, C.uint64_t(addr), 0)
	case MemoryPinned:
		r = C.gb_host_free(d.c, C.uint64_t(d.pinned[addr]))
		delete(d.hosted, d.pinned[addr])
	default:
		r = C.gb_free(d.c, C.uint64_t(addr))
	}
	if r == C.GB_OK {
		d.blocks.remove(addr)
		delete(d.pinned, addr)
		d.held -= d.charge(size)
		if !intact {
			return trace.CallBroken
		}
	}
	return status(r)
}

// HostMalloc takes pinned host memory that the device sees. It is not part of the device's share; HostFree gives it back.
func (d *Device) HostMalloc(size uint64) (uint64, trace.CallStatus) {
	r := C.gb_host_malloc(d.c, C.uint64_t(size))
	if r != C.GB_OK {
		return 0, status(r)
	}
	addr := uint64(d.shared.out)
	d.hosted[addr] = true
	return addr, trace.CallOK
}

// HostFree gives back what HostMalloc returned.
func (d *Device) HostFree(addr uint64) trace.CallStatus {
	st := status(C.gb_host_free(d.c, C.uint64_t(addr)))
	if st == trace.CallOK {
		delete(d.hosted, addr)
	}
	return st
}

// Reset gives back everything that was handed out.
func (d *Device) Reset() {
	if d.Lost() {
		return
	}
	C.gb_device_sync(d.c)
	d.blocks.all(func(addr uint64) { d.Free(addr) })
	d.asyncs.all(func(addr uint64) { d.FreeAsync(addr, 0) })
	for addr, m := range d.maps {
		d.Unmap(addr, m.size)
	}
	for id, p := range d.phys {
		if !p.released {
			d.Release(id)
		}
	}
	for addr, size := range d.ranges {
		d.Unreserve(addr, size)
	}
	C.gb_device_sync(d.c)
	d.events.forget()
}

// Close gives everything back and destroys the context. A lost device is left to the end of the process.
func (d *Device) Close() error {
	if d.c == nil {
		return nil
	}
	C.gb_set_deadline(d.c, C.uint64_t(OpenDeadline))
	d.Reset()
	d.destroyStreams()
	if d.pool != 0 && !d.Lost() {
		C.gb_pool_destroy(d.c, d.pool)
	}
	var err error
	if !d.Lost() {
		if r := C.gb_context_destroy(d.c); r != C.GB_OK {
			err = d.failed("cuCtxDestroy", r)
		}
	}
	d.close()
	d.c = nil
	return err
}

// SetCallDeadline bounds the calls from now on.
func (d *Device) SetCallDeadline(limit time.Duration) { C.gb_set_deadline(d.c, C.uint64_t(limit)) }

// addresses maps addresses to sizes without allocating once it has grown.
type addresses struct {
	index addrmap.Map
	held  []held
	free  []uint32
}

type held struct{ addr, size uint64 } // addr 0: nothing

func (a *addresses) put(addr, size uint64) {
	i := a.index.Get(addr)
	if n := len(a.free); i == 0 && n > 0 {
		i = a.free[n-1]
		a.free = a.free[:n-1]
	} else if i == 0 {
		a.held = append(a.held, held{})
		i = uint32(len(a.held))
	}
	a.held[i-1] = held{addr, size}
	a.index.Put(addr, i)
}

func (a *addresses) get(addr uint64) (size uint64, ok bool) {
	i := a.index.Get(addr)
	if i == 0 {
		return 0, false
	}
	return a.held[i-1].size, true
}

func (a *addresses) remove(addr uint64) {
	if i := a.index.Delete(addr); i != 0 {
		a.held[i-1] = held{}
		a.free = append(a.free, i)
	}
}

// all calls f with every address; f may remove it.
func (a *addresses) all(f func(addr uint64)) {
	for i := range a.held {
		if addr := a.held[i].addr; addr != 0 {
			f(addr)
		}
	}
}

var (
	_ backends.Device        = (*Device)(nil)
	_ backends.VirtualMemory = (*Device)(nil)
	_ backends.Streams       = (*Device)(nil)
	_ backends.Resetter      = (*Device)(nil)
)
