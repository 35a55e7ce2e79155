package clock

import (
	"math"
	"testing"
	"time"
)

// A source that is not the counter costs several times as much; the test names it so that a log tells which was measured.
func TestCalibratedAgreesWithTheSystemClock(t *testing.T) {
	info := Calibrated()
	t.Logf("source %s, %d Hz, %d milliticks a reading (%d ns)", info.Source, info.FrequencyHz, info.ReadCostMilliticks,
		info.Ns(info.ReadCostTicks()))
	start, ticks := time.Now(), Ticks()
	for time.Since(start) < 20*time.Millisecond {
	}
	gotNs, wantNs := float64(info.Ns(Ticks()-ticks)), float64(time.Since(start))
	// The reading of wantNs comes later than that of gotNs and an interruption may fall between: only a rate that is off
	// by more than the span of a long interruption is an error.
	if ratio := gotNs / wantNs; ratio < 0.5 || ratio > 1.01 {
		t.Errorf("20 ms measured as %.0f ns by ticks and %.0f ns by the system clock", gotNs, wantNs)
	}
}

func TestTicksNeverGoBackwards(t *testing.T) {
	last := Ticks()
	for i := range 100_000 {
		now := Ticks()
		if now < last {
			t.Fatalf("reading %d: %d after %d", i, now, last)
		}
		last = now
	}
}

func TestNs(t *testing.T) {
	for _, c := range []struct {
		hz, ticks, want uint64
	}{
		{1e9, 17, 17},
		{25e6, 1, 40}, // arm64 at 25 MHz: one tick is 40 ns
		{2.5e9, 5, 2}, // 2 ns
		{3e9, 10, 3},  // 3.33 ns rounds down
		{2e9, math.MaxUint64, math.MaxUint64 / 2}, // no overflow in between
		{1e8, math.MaxUint64, math.MaxUint64},     // would not fit: saturates
		{0, 5, math.MaxUint64},                    // a clock that was never calibrated shows, and does not panic
	} {
		if got := (Info{FrequencyHz: c.hz}).Ns(c.ticks); got != c.want {
			t.Errorf("%d ticks at %d Hz: %d ns, want %d", c.ticks, c.hz, got, c.want)
		}
	}
}

func TestReadCostRounds(t *testing.T) {
	for milli, want := range map[uint64]uint64{0: 0, 499: 0, 500: 1, 1499: 1, 40_600: 41} {
		if got := (Info{ReadCostMilliticks: milli}).ReadCostTicks(); got != want {
			t.Errorf("%d milliticks: %d ticks, want %d", milli, got, want)
		}
	}
}

// The cost that is subtracted from every measured interval must be what an empty interval really holds: the median of
// empty intervals, taken anew, lies within one half of it.
func TestReadCostIsThatOfAnEmptyInterval(t *testing.T) {
	info := Calibrated()
	again := measureCost()
	lo, hi := info.ReadCostMilliticks/2, info.ReadCostMilliticks*2+MilliticksPerTick
	if again < lo || again > hi {
		t.Errorf("cost %d milliticks at first, %d now", info.ReadCostMilliticks, again)
	}
}

func TestSourceNames(t *testing.T) {
	for s, want := range map[Source]string{SourceMonotonic: "monotonic", SourceTSC: "tsc", SourceCNTVCT: "cntvct", 9: "unknown"} {
		if got := s.String(); got != want {
			t.Errorf("source %d: %q, want %q", uint32(s), got, want)
		}
	}
}

func BenchmarkTicks(b *testing.B) {
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		sum += Ticks()
	}
	_ = sum
}

func BenchmarkMonotonic(b *testing.B) {
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		sum += monotonicTicks()
	}
	_ = sum
}
