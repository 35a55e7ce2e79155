package pytorch

import (
	"fmt"
	"strconv"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Allocator is the caching allocator of one device (DeviceCachingAllocator). Make one with Description().New.
type Allocator struct {
	dev        backends.Device
	vm         backends.VirtualMemory // nil when the device has none
	ev         backends.Streams       // nil when the device has none: work is complete when it is issued
	streams    []uint64               // handles by stream
	totalBytes uint64                 // totalGlobalMem
	opts       Options
	rules      rules
	cfg        settings

	blocks     []block // [0] is none
	deadBlocks uint32
	sets       []*freeSet // [0] is none
	spareSets  []*freeSet
	small      pool
	large      pool
	private    []*privatePool // by sdk.Pool
	sparePools []*privatePool
	routing    []sdk.Pool   // captures_underway, oldest first
	segments   []expSegment // [0] is none
	toUnmap    []uint32

	queues    []eventQueue // by stream
	waiting   uint64       // events outstanding and blocks deferred
	deferred  []uint32     // blocks freed while allocations were routed
	useNodes  []useNode    // [0] is none
	spareUses uint32

	heldBytes  uint64 // total_allocated_memory
	hasLimit   bool   // allowed_memory_maximum has a value
	limitBytes uint64
	gcArmed    bool // a limit and a garbage collection threshold are set

	st      stats
	lastOOM OOM
	lastErr error
	opErr   error // breaks the running operation off
}

// Options are the options of the strategy.
type Options struct {
	Conf           string  `json:"conf"`            // PYTORCH_CUDA_ALLOC_CONF
	Version        Version `json:"version"`         // which PyTorch; "" = auto
	MemoryFraction float64 `json:"memory_fraction"` // set_per_process_memory_fraction before the first event; 0 = not called
}

// open is what Description().New calls.
func open(env *sdk.Env) (*Allocator, error) {
	a := &Allocator{dev: env.Device, streams: env.Streams}
	if err := sdk.DecodeOptions(env.Options, &a.opts); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	a.totalBytes = env.Device.Info().TotalBytes
	a.vm, _ = backends.As[backends.VirtualMemory](env.Device)
	a.ev, _ = backends.As[backends.Streams](env.Device)
	var err error
	if a.rules, err = rulesOf(a.opts.Version, a.opts.Conf); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	if err := a.begin(); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return a, nil
}

// begin brings an allocator that holds nothing into the state after opening.
func (a *Allocator) begin() error {
	cfg, err := parseSettings(&a.rules, defaultSettings(), a.opts.Conf)
	if err != nil {
		return err
	}
	if cfg.expandable && a.vm == nil {
		return ErrNoVirtualMemory
	}
	a.cfg = cfg
	a.blocks = append(a.blocks[:0], block{})
	a.sets = append(a.sets[:0], nil)
	a.segments = append(a.segments[:0], expSegment{})
	a.useNodes = append(a.useNodes[:0], useNode{})
	a.deadBlocks, a.spareUses = 0, 0
	a.spareSets, a.sparePools, a.private = nil, nil, nil
	a.small, a.large = pool{kind: PoolSmall}, pool{kind: PoolLarge}
	a.routing, a.deferred, a.queues, a.waiting = a.routing[:0], a.deferred[:0], a.queues[:0], 0
	a.heldBytes, a.hasLimit, a.limitBytes = 0, false, 0
	a.st, a.lastOOM, a.lastErr, a.opErr = stats{}, OOM{}, nil, nil
	if a.rules.hasFractionKey && cfg.memoryFraction != 1 {
		a.setFraction(cfg.memoryFraction)
	}
	if a.opts.MemoryFraction != 0 {
		if err := a.checkFraction(a.opts.MemoryFraction); err != nil {
			return err
		}
		a.setFraction(a.opts.MemoryFraction)
	}
	a.armGC()
	return nil
}

func (a *Allocator) armGC() { a.gcArmed = a.hasLimit && a.cfg.gcThreshold > 0 }

func (a *Allocator) checkFraction(f float64) error {
	if f >= 0 && f <= 1 {
		return nil
	}
	return fmt.Errorf("memory_fraction %v is not in [0, 1]", f)
}

// setFraction is setMemoryFraction.
func (a *Allocator) setFraction(f float64) {
	whole := a.totalBytes
	if a.rules.fractionOneIsLimit {
		_, whole = a.dev.MemInfo()
	}
	a.hasLimit = f < 1 || a.rules.fractionOneIsLimit
	a.limitBytes = 0
	if a.hasLimit {
		a.limitBytes = uint64(f * float64(whole))
	}
	a.armGC()
}

// Set changes an option mid-trace: conf (or one of the names of the environment variable) is
// torch.cuda.memory._set_allocator_settings, memory_fraction is set_per_process_memory_fraction.
func (a *Allocator) Set(key, value string) trace.Status {
	switch key {
	case "conf", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF":
		cfg, err := parseSettings(&a.rules, a.cfg, value)
		if err == nil && cfg.expandable && a.vm == nil {
			err = ErrNoVirtualMemory
		}
		if err != nil {
			return a.invalid(err)
		}
		a.cfg = cfg
		a.armGC()
	case "memory_fraction":
		f, err := strconv.ParseFloat(value, 64)
		if err == nil {
			err = a.checkFraction(f)
		}
		if err != nil {
			return a.invalid(err)
		}
		a.setFraction(f)
	default:
		return a.invalid(fmt.Errorf("%q: %w", key, ErrUnknownSetting))
	}
	return trace.StatusOK
}

// Reset gives everything back, live blocks included, and returns to the state after opening.
func (a *Allocator) Reset() trace.Status {
	if err := a.giveAllBack(); err != nil {
		a.lastErr = err
		return trace.StatusError
	}
	if err := a.begin(); err != nil { // the same options opened once
		a.lastErr = err
		return trace.StatusError
	}
	return trace.StatusOK
}

// Close gives all memory back to the device.
func (a *Allocator) Close() error {
	if err := a.giveAllBack(); err != nil {
		return fmt.Errorf("%s: close: %w", Name, err)
	}
	return a.begin()
}

// giveAllBack returns every segment, whatever lives in it, and drops outstanding events.
func (a *Allocator) giveAllBack() error {
	a.opErr = nil
	for k := range a.queues {
		for q := &a.queues[k]; q.count > 0; {
			e := q.pop()
			if a.ev != nil {
				a.ev.Drop(e.id)
			}
		}
	}
	for i := 1; i < len(a.blocks); i++ {
		if b := &a.blocks[i]; b.state != blockDead && b.seg == 0 && b.prev == 0 {
			a.check("free", a.dev.Free(b.addr))
		}
	}
	for k := 1; k < len(a.segments); k++ {
		sg := &a.segments[k]
		if !sg.inUse {
			continue
		}
		for p, id := range sg.pages {
			if id != 0 {
				a.dropPage(sg, p)
			}
		}
		a.unreserve(sg)
	}
	return a.opErr
}
