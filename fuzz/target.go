package fuzz

import (
	"fmt"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Devices that programs run over, unless the target says otherwise: from the smallest on which caching allocators can take
// their segments to one that a few dozen blocks of the largest size class fill.
const (
	defaultDeviceMin = 2 << 20
	defaultDeviceMax = 256 << 20
	// hostDeviceMax bounds devices of real memory.
	hostDeviceMax = 64 << 20
	// alignmentMax is the largest alignment that programs demand.
	alignmentMax = 4096
	// EventsMax bounds a program of a campaign.
	EventsMax = 400
	// probeBytesMax is the largest device on which a strategy is tried, to see what it can do.
	probeBytesMax = 64 << 30
)

// NewTarget makes a target of a strategy in this process. It opens it once, to see which interfaces it has.
func NewTarget(name string, d sdk.Description) (*Target, error) {
	t := &Target{Name: name, Desc: d}
	d.Capabilities = nil
	var s Session
	var err error
	// The smallest device on which it opens bounds the devices of programs.
	for bytes := uint64(defaultDeviceMin); ; bytes *= 2 {
		if s, err = OpenLocal(&t.Desc, Config{Backend: BackendIdeal, DeviceBytes: bytes, ArenaBytes: bytes}, plan.NewWriter(nil).Trace()); err == nil {
			t.DeviceMin, t.DeviceMax = bytes, max(defaultDeviceMax, 8*bytes)
			break
		}
		if bytes >= probeBytesMax {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
	}
	for _, c := range sdk.StrategyCapabilities(s.(*local).runner.Strategy()) {
		d.Capabilities = append(d.Capabilities, string(c))
	}
	t.Desc = d
	return t, s.Close()
}

// Limits are what programs for the target may hold.
func (t *Target) Limits() plan.Limits {
	l := plan.Limits{Streams: plan.StreamsMax, Pools: plan.PoolsMax, LengthMax: EventsMax, Settings: t.Settings, Variants: 1 + len(t.Options),
		DeviceMin: t.DeviceMin, DeviceMax: t.DeviceMax, PageBytes: 2 << 20, AlignBytes: max(t.Desc.Alignment, 1), AlignMax: alignmentMax}
	if l.DeviceMin == 0 {
		l.DeviceMin = defaultDeviceMin
	}
	if l.DeviceMax == 0 {
		l.DeviceMax = defaultDeviceMax
	}
	if t.Backend == BackendHost {
		l.DeviceMax = min(l.DeviceMax, max(hostDeviceMax, l.DeviceMin))
	}
	needs := map[trace.Kind]sdk.Capability{
		trace.KindFreeWrong: sdk.CapFreeWrong, trace.KindUse: sdk.CapUse, trace.KindTrim: sdk.CapTrim, trace.KindPoolBegin: sdk.CapPools,
		trace.KindPoolEnd: sdk.CapPools, trace.KindPoolRelease: sdk.CapPools, trace.KindSet: sdk.CapSet, trace.KindReset: sdk.CapReset,
		trace.KindCheckpoint: sdk.CapCheckpoint, trace.KindRestore: sdk.CapCheckpoint, trace.KindDefragment: sdk.CapDefragment, trace.KindMark: sdk.CapMark,
	}
	for k := trace.KindAlloc; int(k) < trace.KindCount; k++ {
		switch need, some := needs[k]; {
		case k == trace.KindTouch || k == trace.KindPrefetch:
			l.Kinds[k] = t.can("touch") // no strategy of the contract has managed memory of its own
		case some:
			l.Kinds[k] = t.can(need)
		default:
			l.Kinds[k] = true
		}
	}
	if len(t.Settings) == 0 {
		l.Kinds[trace.KindSet] = false
	}
	if !t.can(sdk.CapPools) {
		l.Pools = 1
	}
	return l
}

// configOf is the configuration of a plan.
func (t *Target) configOf(p *plan.Plan, seed uint64) Config {
	c := Config{Backend: t.Backend, DeviceBytes: p.DeviceBytes, ArenaBytes: p.ArenaBytes, Seed: seed}
	if c.Backend == "" {
		c.Backend = BackendIdeal
	}
	if p.Variant > 0 && p.Variant <= len(t.Options) {
		c.Options = t.Options[p.Variant-1]
	}
	return c
}
