package fuzz

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	pmmdevice "github.com/gpubench/gpubench/backends/pmm"
	"github.com/gpubench/gpubench/trace"
)

// The devices that strategies are fuzzed over in process.
const (
	BackendIdeal = "ideal"
	BackendPMM   = "pmm"
	BackendHost  = "host"
)

// A strategy may make so many calls during one program, and so many more for each event, before it is taken to be in an endless loop:
// trimming and retrying cost a few calls for each segment, and programs have few segments.
const (
	callsBase     = 4096
	callsPerEvent = 64
)

// errEndless is what a device panics with in a strategy that never stops calling it.
var errEndless = errors.New("the strategy does not stop calling the device")

// modelDevice is everything that the devices which are models can do.
type modelDevice interface {
	backends.Device
	backends.VirtualMemory
	backends.HostMemory
	backends.Streams
	backends.StreamControl
	backends.Clocked
	backends.FaultInjector
	backends.Resetter
	backends.SegmentAdopter
}

// probe stands before a device: it counts calls and sees what is still held when the strategy has been closed.
type probe struct {
	modelDevice
	calls  int
	most   int    // calls that are allowed
	leaked uint64 // bytes held at the last close or reset
}

// openProbe opens a device that is a model.
func openProbe(backend string, totalBytes uint64) (*probe, error) {
	var d modelDevice
	var err error
	switch backend {
	case BackendIdeal, "":
		d, err = ideal.New(ideal.Config{TotalBytes: totalBytes})
	case BackendPMM:
		d, err = pmmdevice.New(pmmdevice.Config{TotalBytes: totalBytes, ScrubNsPerFrame: -1})
	default:
		return nil, fmt.Errorf("backend %q: programs run in process over %s, %s and %s", backend, BackendIdeal, BackendPMM, BackendHost)
	}
	if err != nil {
		return nil, err
	}
	return &probe{modelDevice: d, most: callsBase}, nil
}

func (p *probe) count() {
	if p.calls++; p.calls > p.most {
		panic(errEndless)
	}
}

func (p *probe) Malloc(size uint64) (uint64, trace.CallStatus) {
	p.count()
	return p.modelDevice.Malloc(size)
}

func (p *probe) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	p.count()
	return p.modelDevice.Create(size)
}

func (p *probe) Reserve(size uint64) (uint64, trace.CallStatus) {
	p.count()
	return p.modelDevice.Reserve(size)
}

func (p *probe) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	p.count()
	return p.modelDevice.Map(addr, size, id)
}

func (p *probe) Query(e backends.EventID) bool {
	p.count()
	return p.modelDevice.Query(e)
}

func (p *probe) MemInfo() (freeBytes, totalBytes uint64) {
	p.count()
	return p.modelDevice.MemInfo()
}

// look notes what is held: the strategy has given everything back by now.
func (p *probe) look() {
	free, total := p.modelDevice.MemInfo()
	p.leaked = total - min(free, total)
	p.calls = 0
}

// Reset is called between programs, after the strategy was closed.
func (p *probe) Reset() {
	p.look()
	p.modelDevice.Reset()
}

// Close is called after the strategy was closed.
func (p *probe) Close() error {
	p.look()
	return p.modelDevice.Close()
}
