package clock

import (
	"math/bits"
	"sync"
	"time"
)

// Source names what Ticks reads.
type Source uint32

// The sources. The numbers are part of the window header.
const (
	SourceMonotonic Source = 1
	SourceTSC       Source = 2
	SourceCNTVCT    Source = 3
)

// String returns the name used in JSON and text.
func (s Source) String() string {
	switch s {
	case SourceMonotonic:
		return "monotonic"
	case SourceTSC:
		return "tsc"
	case SourceCNTVCT:
		return "cntvct"
	}
	return "unknown"
}

// MilliticksPerTick is the unit of costs: thousandths of a tick.
const MilliticksPerTick = 1000

const (
	calibrationSpan  = 5 * time.Millisecond // long enough for 10 ppm, short enough not to be felt at the start of a process
	calibrationTries = 64                   // bracketed readings at each end; one undisturbed is enough
	costPairs        = 4096                 // pairs of readings; the median of their differences is the cost
	costBatch        = 16                   // readings averaged in one pair, to resolve costs below one tick
)

// Info describes the calibrated clock of this process.
type Info struct {
	Source             Source
	FrequencyHz        uint64 // ticks per second
	ReadCostMilliticks uint64 // what an interval between two adjacent readings holds, in thousandths of a tick
}

// ReadCostTicks returns the cost of an interval, rounded to ticks.
func (i Info) ReadCostTicks() uint64 {
	return (i.ReadCostMilliticks + MilliticksPerTick/2) / MilliticksPerTick
}

// Ns converts ticks to nanoseconds, rounded down. It is exact for every 64-bit number of ticks whose result fits; a
// greater one saturates.
func (i Info) Ns(ticks uint64) uint64 {
	if i.FrequencyHz == 1e9 {
		return ticks
	}
	hi, lo := bits.Mul64(ticks, 1e9)
	if hi >= i.FrequencyHz { // the quotient would not fit; also avoids dividing by zero
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, i.FrequencyHz)
	return q
}

var calibrated = sync.OnceValue(calibrate)

// Calibrated returns the clock's rate and cost. The first call takes about 10 ms; later ones nothing.
func Calibrated() Info { return calibrated() }

// Now returns the wall-clock time, for stamps in files; never for measuring.
func Now() time.Time { return time.Now() }

var processStart = time.Now()

// Monotonic returns the time since the process started, for deadlines, rates and progress lines.
func Monotonic() time.Duration { return time.Since(processStart) }

// monotonicTicks is the fallback source: one tick a nanosecond.
func monotonicTicks() uint64 { return uint64(time.Since(processStart)) }

func calibrate() Info {
	info := Info{Source: source()}
	switch info.Source {
	case SourceMonotonic:
		info.FrequencyHz = 1e9
	case SourceCNTVCT:
		info.FrequencyHz = counterFrequency()
	default:
		info.FrequencyHz = measureFrequency()
	}
	info.ReadCostMilliticks = measureCost()
	return info
}

// reading is one simultaneous look at both clocks.
type reading struct {
	ticks uint64
	ns    uint64
}

// bracketed reads the counter between two looks at the monotonic clock, several times, and keeps the tightest.
func bracketed() reading {
	var best reading
	tightest := ^uint64(0)
	for range calibrationTries {
		before := monotonicTicks()
		ticks := Ticks()
		after := monotonicTicks()
		if span := after - before; span < tightest {
			tightest = span
			best = reading{ticks: ticks, ns: before + span/2}
		}
	}
	return best
}

func measureFrequency() uint64 {
	a := bracketed()
	for monotonicTicks()-a.ns < uint64(calibrationSpan) {
	}
	b := bracketed()
	hi, lo := bits.Mul64(b.ticks-a.ticks, 1e9)
	q, _ := bits.Div64(hi, lo, b.ns-a.ns)
	return q
}

// measureCost takes the median over costPairs of the mean distance of costBatch adjacent readings. A histogram of small
// numbers replaces a sort: costs beyond it are interruptions.
func measureCost() uint64 {
	const maxTicks = 8192
	var histogram [maxTicks]uint32
	for range costPairs {
		first := Ticks()
		last := first
		for range costBatch {
			last = Ticks()
		}
		d := last - first
		histogram[min(d, maxTicks-1)]++
	}
	var seen uint32
	for d, n := range histogram {
		seen += n
		if seen > costPairs/2 {
			return uint64(d) * MilliticksPerTick / costBatch
		}
	}
	return maxTicks * MilliticksPerTick / costBatch
}
