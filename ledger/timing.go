package ledger

import (
	"fmt"
	"math"

	"github.com/gpubench/gpubench/trace"
)

const (
	// minBeyond is the number of samples that must lie, on average, above a quantile for it to be given: p99.9 needs
	// 10,000. The number above is nearly Poisson; with 10 expected its standard deviation is 3.2, so the quantile is known
	// to about a third of its own tail. Below that the value is mostly luck.
	minBeyond = 10
	// minClockCosts: a quantile below this many times the cost of reading the clock is refused. The cost is known to
	// some 10 % of itself and varies as much from one reading to the next (calibration medians of repeated runs differ by
	// that); at 5 costs this is 4 % of the value with both readings counted, at 1 it would be 20 %.
	minClockCosts = 5
	// MaxLatencyBuckets bounds the distribution handed out for drawing: 8 buckets an octave over 32 octaves.
	MaxLatencyBuckets = 256
)

// The kinds of events whose latency is kept.
const (
	timeAlloc = iota // alloc and realloc
	timeFree
	timeKinds
)

// timing counts policy and device times.
type timing struct {
	modelled        bool
	tickNs          float64
	cost            uint32
	subtract        uint32            // cost, or 0 where the plugin subtracted it
	policy          [timeKinds]counts // ticks, clock cost subtracted, of events without device time: nearly all, so they cost one count
	policyDevice    [timeKinds]counts // ticks of the events with device time
	totalDevice     [timeKinds]counts // ns, policy and device together, of the events with device time
	device          counts            // ns, where not 0
	deviceZero      uint64            // events without device time
	one, all        counts            // scratch: a kind whole, and allocs and frees together
	notTimed        uint64
	saturated       uint64
	saturatedDevice uint64
	saturatedBy     [timeKinds]uint64
	busyTicks       sum128
}

// ready returns a timing for the configuration, reusing t's memory; nil when none is asked for.
func (t *timing) ready(cfg *Config) *timing {
	if !cfg.Timing {
		return nil
	}
	if t == nil {
		t = &timing{}
	}
	for k := range t.policy {
		t.policy[k].reset()
		t.policyDevice[k].reset()
		t.totalDevice[k].reset()
	}
	t.device.reset()
	t.deviceZero = 0
	t.modelled, t.tickNs, t.cost, t.subtract = cfg.ModelledTime, cfg.TickNs, cfg.ClockCostTicks, cfg.ClockCostTicks
	if cfg.ClockCostSubtracted {
		t.subtract = 0
	}
	if t.tickNs == 0 {
		t.tickNs = 1
	}
	t.notTimed, t.saturated, t.saturatedDevice, t.saturatedBy, t.busyTicks = 0, 0, 0, [timeKinds]uint64{}, sum128{}
	return t
}

// add reads the times of one event.
func (t *timing) add(kind trace.Kind, o *trace.Outcome) {
	k := timeAlloc
	switch kind {
	case trace.KindAlloc, trace.KindRealloc:
	case trace.KindFree:
		k = timeFree
	default:
		return
	}
	if o.Status == trace.StatusSkipped || o.Status == trace.StatusUnsupported {
		return
	}
	if o.DeviceNs == 0 {
		t.deviceZero++
	} else {
		t.device.add(uint64(o.DeviceNs), 1)
	}
	if o.Flags != 0 {
		if o.Flags&trace.OutcomeDeviceTimeSaturated != 0 {
			t.saturatedDevice++
		}
		if o.Flags&trace.OutcomeNotTimed != 0 {
			t.notTimed++
			return
		}
		if o.Flags&trace.OutcomePolicyTimeSaturated != 0 {
			t.saturated++
			t.saturatedBy[k]++
		}
	}
	ticks := uint64(o.PolicyTicks - min(o.PolicyTicks, t.subtract))
	if o.DeviceNs == 0 {
		t.policy[k].add(ticks, 1)
		return
	}
	t.policyDevice[k].add(ticks, 1)
	t.totalDevice[k].add(t.ns(ticks)+uint64(o.DeviceNs), 1)
}

// ns rounds ticks to nanoseconds.
func (t *timing) ns(ticks uint64) uint64 { return uint64(float64(ticks)*t.tickNs + 0.5) }

// samples is the number of events with a policy time.
func (t *timing) samples() (n uint64) {
	for k := range t.policy {
		n += t.policy[k].n + t.policyDevice[k].n
	}
	return n
}

// report makes the Timed part, and returns the device latency apart when the device's time is a model's.
func (t *timing) report() (timed *Timed, modelled *Latency) {
	r := &Timed{TickNs: t.tickNs, ClockCostNs: float64(t.cost) * t.tickNs, NotTimed: t.notTimed,
		Saturated: t.saturated, SaturatedDevice: t.saturatedDevice}
	floor := minClockCosts * r.ClockCostNs
	r.Policy = t.byKind(t.tickNs, floor, func(into *counts, kind int) {
		into.merge(&t.policy[kind])
		into.merge(&t.policyDevice[kind])
	})
	r.Total = t.byKind(1, floor, func(into *counts, kind int) {
		into.mergeAs(&t.policy[kind], t.ns)
		into.merge(&t.totalDevice[kind])
	})
	r.PolicyBusyNs = r.Policy.All.MeanNs * float64(r.Policy.All.Samples)
	t.one.reset()
	t.one.merge(&t.device)
	t.one.add(0, t.deviceZero)
	device := latency(&t.one, 1, 0, t.saturatedDevice)
	if t.modelled {
		return r, &device
	}
	r.Device = &device
	return r, nil
}

// byKind reads the distributions that gather makes of each kind.
func (t *timing) byKind(unitNs, floorNs float64, gather func(into *counts, kind int)) (l LatencyByKind) {
	t.all.reset()
	read := func(kind int) Latency {
		t.one.reset()
		gather(&t.one, kind)
		t.all.merge(&t.one)
		return latency(&t.one, unitNs, floorNs, t.saturatedBy[kind])
	}
	l.Alloc, l.Free = read(timeAlloc), read(timeFree)
	l.All = latency(&t.all, unitNs, floorNs, t.saturated)
	return l
}

// latency reads a distribution. unitNs is the length of its unit; quantiles below floorNs are refused.
func latency(c *counts, unitNs, floorNs float64, saturated uint64) (l Latency) {
	l.Samples = c.n
	if c.n == 0 {
		q := Quantile{Refused: "no samples"}
		l.P50, l.P90, l.P99, l.P999 = q, q, q, q
		return l
	}
	s := c.sort()
	l.MaxNs = float64(c.max) * unitNs
	l.MeanNs = c.sum.float() / float64(c.n) * unitNs
	at := func(permille uint64) Quantile { return quantile(&s, permille, unitNs, floorNs, saturated) }
	l.P50, l.P90, l.P99, l.P999 = at(500), at(900), at(990), at(999)
	l.Buckets = buckets(&s, unitNs)
	return l
}

// quantile gives one order statistic, or says why not.
func quantile(s *sorted, permille uint64, unitNs, floorNs float64, saturated uint64) Quantile {
	if need := minBeyond * 1000 / (1000 - permille); s.n < need {
		return Quantile{Refused: fmt.Sprintf("%d samples, %d needed", s.n, need)}
	}
	if s.n-s.n*permille/1000 <= saturated { // the times that did not fit are the largest
		return Quantile{Refused: fmt.Sprintf("%d times did not fit the counter", saturated)}
	}
	v := s.quantile(permille, 1000)
	ns := float64(v.value) * unitNs
	if ns < floorNs {
		return Quantile{Refused: fmt.Sprintf("below %d × the clock's own cost of %.1f ns", minClockCosts, floorNs/minClockCosts)}
	}
	return Quantile{Ns: ns, ResolutionNs: float64(v.half) * unitNs}
}

// buckets makes the distribution for drawing: eight buckets an octave.
func buckets(s *sorted, unitNs float64) (list []LatencyBucket) {
	last := math.MinInt
	for _, v := range s.values {
		b := -1
		if v.value > 0 {
			b = int(math.Floor(math.Log2(float64(v.value)) * 8))
		}
		if b != last {
			lo, hi := 0.0, unitNs
			if b >= 0 {
				lo, hi = math.Exp2(float64(b)/8)*unitNs, math.Exp2(float64(b+1)/8)*unitNs
			}
			list = append(list, LatencyBucket{LowNs: lo, HighNs: hi})
			last = b
		}
		list[len(list)-1].Count += v.count
	}
	if k := len(list); k > MaxLatencyBuckets { // values above 2^32 units: the last bucket takes them
		for _, b := range list[MaxLatencyBuckets:] {
			list[MaxLatencyBuckets-1].Count += b.Count
			list[MaxLatencyBuckets-1].HighNs = b.HighNs
		}
		list = list[:MaxLatencyBuckets]
	}
	return list
}
