package pmm

import (
	"fmt"
	"math"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	model "github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/trace"
)

// Config says what device is modelled.
type Config struct {
	TotalBytes uint64       // device memory, rounded down to chunks of 2 MiB; more than 0
	Name       string       // for Info, such as "pmm a100-80"; "pmm" if empty
	Costs      *model.Costs // nil: model.DefaultCosts
	CostSource string       // where the costs come from, for Info
	// ScrubNsPerFrame is the time to zero 64 KiB after a free; negative: what Costs.ScrubBytesPerSec gives.
	ScrubNsPerFrame int64
}

// frameBytes is the unit in which freed memory is zeroed.
const frameBytes = 64 << 10

// Device is the device. It implements what ideal.Device does. Make one with New.
type Device struct {
	*ideal.Device
	info   backends.Info
	chunks *chunks
	mapNs  int64
	tlbNs  int64
}

// New returns a device with all its memory free.
func New(cfg Config) (*Device, error) {
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
			mc.ScrubNsPerFrame = int64(math.Round(frameBytes * 1e9 / float64(rate)))
		}
	}
	c := &chunks{cfg: mc}
	if err := c.open(); err != nil {
		return nil, fmt.Errorf("device of %d bytes: %w", cfg.TotalBytes, err)
	}
	name := cfg.Name
	if name == "" {
		name = "pmm"
	}
	total := uint64(mc.Roots) * model.RootBytes
	inner, err := ideal.New(ideal.Config{TotalBytes: total, Name: name, Memory: c})
	if err != nil {
		return nil, err
	}
	d := &Device{Device: inner, info: inner.Info(), chunks: c, mapNs: costs.MapPageNs.Value, tlbNs: costs.TLBInvalidateNs.Value}
	d.info.CostSource = source
	d.info.UncalibratedTime = costs.MapPageNs.Uncalibrated || costs.TLBInvalidateNs.Uncalibrated ||
		costs.AllocNs.Uncalibrated || costs.FreeNs.Uncalibrated || costs.PMACallNs.Uncalibrated || costs.PMARootNs.Uncalibrated
	return d, nil
}

// Info describes the device.
func (d *Device) Info() backends.Info { return d.info }

// Model returns the model below, to look at.
func (d *Device) Model() *model.Model { return d.chunks.m }

// NowNs is the model's clock.
func (d *Device) NowNs() uint64 { return uint64(d.chunks.m.NowNs()) }

// AdvanceNs moves the model's clock forward; scrubbing proceeds.
func (d *Device) AdvanceNs(ns uint64) { d.chunks.m.AdvanceNs(int64(min(ns, math.MaxInt64))) }

// Malloc takes chunks and maps them.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	addr, st := d.Device.Malloc(size)
	if st == trace.CallOK {
		d.mapped(size)
	}
	return addr, st
}

// Free unmaps and gives the chunks back.
func (d *Device) Free(addr uint64) trace.CallStatus {
	st := d.Device.Free(addr)
	if st == trace.CallOK {
		d.chunks.m.AdvanceNs(d.tlbNs)
	}
	return st
}

// Map maps physical memory, at a cost a page.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	st := d.Device.Map(addr, size, id)
	if st == trace.CallOK {
		d.mapped(size)
	}
	return st
}

// Unmap unmaps, at the cost of one invalidate.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	st := d.Device.Unmap(addr, size)
	if st == trace.CallOK {
		d.chunks.m.AdvanceNs(d.tlbNs)
	}
	return st
}

func (d *Device) mapped(size uint64) {
	d.chunks.m.AdvanceNs(d.mapNs * int64((size+model.RootBytes-1)/model.RootBytes))
}

// chunks is ideal.Memory out of kernel chunks of the model. A token is the first of a list of pages.
type chunks struct {
	cfg   model.Config
	m     *model.Model
	pages []page // [0] unused
	spare uint32 // list of unused pages
	buf   []model.Chunk
}

type page struct {
	chunk model.Chunk
	next  uint32
}

func (c *chunks) open() (err error) {
	c.m, err = model.New(c.cfg)
	c.pages, c.spare = append(c.pages[:0], page{}), 0
	return err
}

// Take allocates a chunk a page, all or none, and waits for the scrubber once if there are too few.
func (c *chunks) Take(bytes uint64) (uint32, bool) {
	n := int((bytes + model.RootBytes - 1) / model.RootBytes)
	if n > c.cfg.Roots {
		return 0, false
	}
	for len(c.buf) < n {
		c.buf = append(c.buf, model.NoChunk)
	}
	out := c.buf[:n]
	st := c.m.AllocRoots(out)
	if st != model.OK {
		wait := c.m.NextScrubNs() - c.m.NowNs()
		if wait <= 0 {
			return 0, false
		}
		c.m.AdvanceNs(wait)
		if c.m.AllocRoots(out) != model.OK {
			return 0, false
		}
	}
	first := uint32(0)
	for i := n - 1; i >= 0; i-- {
		p := c.spare
		if p != 0 {
			c.spare = c.pages[p].next
		} else {
			p = uint32(len(c.pages))
			c.pages = append(c.pages, page{})
		}
		c.pages[p] = page{out[i], first}
		first = p
	}
	return first, true
}

// Give frees the chunks of a token.
func (c *chunks) Give(_ uint64, token uint32) {
	for p := token; p != 0; {
		next := c.pages[p].next
		if st := c.m.FreeChunk(c.pages[p].chunk); st != model.OK {
			panic(fmt.Sprintf("pmm device: chunk %d that the device holds cannot be freed: %v", c.pages[p].chunk, st))
		}
		c.pages[p] = page{next: c.spare}
		c.spare = p
		p = next
	}
}

// FreeBytes counts memory that is still being zeroed as free: a call that needs it waits for it.
func (c *chunks) FreeBytes() uint64 {
	in := c.m.MemInfo()
	return in.FreeBytes + in.ScrubbingBytes
}

// Reset makes the model anew. The configuration was accepted before, so that it cannot be refused now.
func (c *chunks) Reset() {
	if err := c.open(); err != nil {
		panic(err)
	}
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
	_ ideal.Memory            = (*chunks)(nil)
)
