package ideal

import (
	"fmt"
	"math"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/internal/streams"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/trace"
)

const (
	// PageBytes is the granularity of the device: the 2 MiB page of NVIDIA GPUs.
	PageBytes = 2 << 20
	// PackedBytes is the granularity of Malloc with Config.Packed: the alignment that cudaMalloc guarantees.
	PackedBytes = 256
	// VirtualBase is where virtual reservations begin; mallocs lie below.
	VirtualBase uint64 = 1 << 44
	// virtualLimit bounds reservations: 2^62 bytes, far above any device, so that sums of addresses cannot overflow.
	virtualLimit uint64 = 1 << 62
	// maxRequestBytes bounds one call, so that rounding up cannot overflow.
	maxRequestBytes uint64 = 1 << 61
)

// Config says how large the device is and how it hands out addresses.
type Config struct {
	TotalBytes uint64 // the physical budget; more than 0
	Contiguous bool   // mallocs must end at or below TotalBytes
	Packed     bool   // malloc addresses and charges by PackedBytes instead of PageBytes
	// ExactCharge charges mallocs by PackedBytes although addresses are by pages; only over the budget, not with Memory.
	ExactCharge bool
	Name        string // for Info; "ideal" if empty
	Memory      Memory // where physical memory comes from; a budget of TotalBytes if nil
}

// Memory is the physical memory behind the addresses. It decides alone whether a call runs out of memory.
type Memory interface {
	// Take takes bytes, a multiple of PageBytes (of PackedBytes with Config.Packed); false when there are not enough. The
	// token is the memory's own and comes back with Give.
	Take(bytes uint64) (token uint32, ok bool)
	// Give gives back what Take took.
	Give(bytes uint64, token uint32)
	// FreeBytes is what could be taken at once.
	FreeBytes() uint64
	// Reset gives everything back.
	Reset()
}

// budget is memory of which only the sum matters.
type budget struct{ total, charged uint64 }

func (b *budget) Take(bytes uint64) (uint32, bool) {
	if bytes > b.total-b.charged {
		return 0, false
	}
	b.charged += bytes
	return 0, true
}

func (b *budget) Give(bytes uint64, _ uint32) { b.charged -= bytes }
func (b *budget) FreeBytes() uint64           { return b.total - b.charged }
func (b *budget) Reset()                      { b.charged = 0 }

// Device implements backends.Device, VirtualMemory, Streams, StreamControl, Clocked, FaultInjector, Resetter
// and SegmentAdopter.
// Make one with New.
type Device struct {
	cfg     Config
	unit    uint64 // granularity of Malloc
	memory  Memory
	mallocs *blocks.Space
	nowNs   uint64
	fail    uint64 // calls until the one that fails; 0 = none
	streams.Streams
	virtual
	host *blocks.Space // ranges of host memory
}

// New returns a device with all its memory free.
func New(cfg Config) (*Device, error) {
	if cfg.TotalBytes == 0 {
		return nil, fmt.Errorf("ideal device: total bytes is 0; give the size of the device")
	}
	if cfg.TotalBytes >= VirtualBase {
		return nil, fmt.Errorf("ideal device: %d bytes is more than the address range of mallocs, %d bytes", cfg.TotalBytes, VirtualBase)
	}
	if cfg.ExactCharge && cfg.Memory != nil {
		return nil, fmt.Errorf("ideal device: exact charges need the budget, not other memory")
	}
	d := &Device{cfg: cfg, unit: PageBytes, memory: cfg.Memory}
	if d.memory == nil {
		d.memory = &budget{total: cfg.TotalBytes}
	}
	if cfg.Packed {
		d.unit = PackedBytes
	}
	if cfg.Name == "" {
		d.cfg.Name = "ideal"
	}
	limit := VirtualBase
	if cfg.Contiguous {
		limit = cfg.TotalBytes / d.unit * d.unit
	}
	d.mallocs = blocks.NewSpace(0, limit)
	d.virtual.init()
	d.host = blocks.NewSpace(HostBase, hostLimit)
	return d, nil
}

// Info describes the device.
func (d *Device) Info() backends.Info {
	info := backends.Info{
		Name: d.cfg.Name, TotalBytes: d.cfg.TotalBytes, PageBytes: PageBytes,
		VirtualMemory: true, StreamEvents: true, Deterministic: true, ModelledTime: true,
		CostSource: "none: every call costs nothing",
	}
	if d.cfg.Contiguous {
		info.AddrLimit = d.cfg.TotalBytes
	}
	return info
}

// MemInfo returns the free and the total bytes of the physical memory.
func (d *Device) MemInfo() (freeBytes, totalBytes uint64) {
	return d.memory.FreeBytes(), d.cfg.TotalBytes
}

// Malloc takes size bytes at the lowest address where they fit.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	if d.injected() {
		return 0, trace.CallInjected
	}
	if size == 0 || size > maxRequestBytes {
		return 0, invalidOrTooLarge(size)
	}
	n := roundUp(size, d.unit)
	charge := n
	if d.cfg.ExactCharge {
		charge = roundUp(size, PackedBytes)
	}
	token, ok := d.memory.Take(charge)
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	addr, ok := d.mallocs.Take(n)
	if !ok {
		d.memory.Give(charge, token)
		return 0, trace.CallOutOfMemory
	}
	if d.cfg.ExactCharge {
		token = uint32((n - charge) / PackedBytes)
	}
	d.mallocs.SetUser(addr, token)
	return addr, trace.CallOK
}

// Free gives back what Malloc returned at addr.
func (d *Device) Free(addr uint64) trace.CallStatus {
	space := d.mallocs
	if addr >= VirtualBase {
		if r := d.reservationOf(addr); r != nil {
			return trace.CallInvalidValue
		}
		space = d.space
	}
	size, token, ok := space.Give(addr)
	if !ok {
		return trace.CallInvalidValue
	}
	if d.adopted.Len() > 0 {
		d.adopted.Delete(addr)
	}
	if d.cfg.ExactCharge { // the budget has no tokens: it is what was not charged
		size -= uint64(token) * PackedBytes
	}
	d.memory.Give(size, token)
	return trace.CallOK
}

// Adopt makes [addr, addr+size) memory that Malloc has returned. The address must be a multiple of the granularity; above
// VirtualBase, where recorded addresses of real devices lie, it takes a piece of the range of reservations.
func (d *Device) Adopt(addr, size uint64) trace.CallStatus {
	if size == 0 || size > maxRequestBytes || addr%d.unit != 0 {
		return trace.CallInvalidValue
	}
	n := roundUp(size, d.unit)
	space := d.mallocs
	if addr >= VirtualBase {
		space = d.space
	}
	if !space.TakeAt(addr, n) {
		return trace.CallInvalidValue
	}
	token, ok := d.memory.Take(n)
	if !ok {
		space.Give(addr)
		return trace.CallOutOfMemory
	}
	space.SetUser(addr, token)
	d.adopted.Put(addr, 1)
	return trace.CallOK
}

// NowNs returns the sum of all AdvanceNs: calls cost nothing.
func (d *Device) NowNs() uint64 { return d.nowNs }

// AdvanceNs moves the clock forward; it stops at the largest number.
func (d *Device) AdvanceNs(ns uint64) {
	if ns > math.MaxUint64-d.nowNs {
		ns = math.MaxUint64 - d.nowNs
	}
	d.nowNs += ns
}

// FailNext makes the k-th call from now among Malloc, Create, Reserve and Map fail; 0 cancels.
func (d *Device) FailNext(k uint64) { d.fail = k }

func (d *Device) injected() bool {
	if d.fail == 0 {
		return false
	}
	d.fail--
	return d.fail == 0
}

// Reset returns to the state after New.
func (d *Device) Reset() {
	d.nowNs, d.fail = 0, 0
	d.memory.Reset()
	d.mallocs.Reset()
	d.ResetStreams()
	d.virtual.reset()
	d.host.Reset()
}

// Close gives everything back.
func (d *Device) Close() error {
	d.Reset()
	return nil
}

func invalidOrTooLarge(size uint64) trace.CallStatus {
	if size == 0 {
		return trace.CallInvalidValue
	}
	return trace.CallOutOfMemory
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// The interfaces that the package comment promises.
var (
	_ backends.Device         = (*Device)(nil)
	_ backends.VirtualMemory  = (*Device)(nil)
	_ backends.Streams        = (*Device)(nil)
	_ backends.HostMemory     = (*Device)(nil)
	_ backends.StreamControl  = (*Device)(nil)
	_ backends.Clocked        = (*Device)(nil)
	_ backends.FaultInjector  = (*Device)(nil)
	_ backends.Resetter       = (*Device)(nil)
	_ backends.SegmentAdopter = (*Device)(nil)
)

// virtual is the virtual-memory half of the device.
type virtual struct {
	space    *blocks.Space
	ranges   []reservation // in address order
	spare    [][]uint64    // bitmaps of reservations that are gone
	phys     []physical    // phys[i] is named by PhysID generation<<32 | i+1
	freePhys []uint32
	mapped   addrmap.Map // first address of a mapping -> index in mappings
	mappings []mapping   // [0] unused
	freeMaps []uint32
	adopted  addrmap.Map // addresses that Adopt has taken, until they are given back
}

type reservation struct {
	addr, size uint64
	pages      []uint64 // bit i: page i is mapped
	mapped     uint64   // number of mapped pages
}

type physical struct {
	size     uint64 // 0 = not in use
	token    uint32
	mappings uint32
	released bool
	gen      uint32
}

type mapping struct {
	size uint64
	phys uint32
}
