package ledger

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

// timedScript makes allocs and frees of one block with the given ticks in turn.
func timedScript(ticks []uint32) *script {
	s := &script{calls: []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMalloc, Size: 4096}}}
	for i, v := range ticks {
		ev := trace.Event{Kind: trace.KindAlloc, Handle: trace.Handle(i/2 + 1), Size: 64}
		o := trace.Outcome{Granted: 64, PolicyTicks: v}
		if i%2 == 1 {
			ev.Kind, ev.Size, o.Granted = trace.KindFree, 0, 0
		}
		s.events, s.outcomes = append(s.events, ev), append(s.outcomes, o)
	}
	return s
}

func report(t *testing.T, cfg Config, s *script) Report {
	t.Helper()
	l := New(cfg)
	feed(t, l, s, 1000)
	r := l.Finish()
	if r.Exact.ViolationsTotal != 0 {
		t.Fatal(r.Exact.Violations)
	}
	return r
}

// TestLatencyByHand: 10,000 samples 1 … 10,000 ticks of 0.5 ns, clock cost 0. The order statistics are the numbers
// themselves: p50 = 5,000 ticks, p99.9 = 9,990; mean 5,000.5 ticks.
func TestLatencyByHand(t *testing.T) {
	ticks := make([]uint32, 10_000)
	for i := range ticks {
		ticks[i] = uint32(i*7919%10_000 + 1) // 7,919 is prime to 10,000: a permutation
	}
	r := report(t, Config{Timing: true, TickNs: 0.5}, timedScript(ticks))
	l := r.Timed.Policy.All
	l.Buckets = nil
	want := Latency{Samples: 10_000, P50: Quantile{Ns: 2500}, P90: Quantile{Ns: 4500}, P99: Quantile{Ns: 4950}, P999: Quantile{Ns: 4995},
		MaxNs: 5000, MeanNs: 2500.25}
	if d := cmp.Diff(want, l); d != "" {
		t.Error(d)
	}
	if n := r.Timed.Policy.Alloc.Samples; n != 5000 {
		t.Errorf("%d allocs timed, want 5000", n)
	}
	if p := r.Timed.Policy.Alloc.P999; p.Refused != "5000 samples, 10000 needed" {
		t.Errorf("p99.9 of 5000 samples: %+v", p)
	}
}

// TestLatencyRefusals: the clock costs 100 ticks, all samples are 550: 450 without the clock's cost, below 5 × 100.
func TestLatencyRefusals(t *testing.T) {
	ticks := slices.Repeat([]uint32{550}, 2000)
	r := report(t, Config{Timing: true, ClockCostTicks: 100}, timedScript(ticks))
	p := r.Timed.Policy.All
	if p.P50.Refused != "below 5 × the clock's own cost of 100.0 ns" || p.MeanNs != 450 {
		t.Errorf("p50 %+v, mean %v", p.P50, p.MeanNs)
	}
	ticks[0] = 601 // 501 after the cost: the maximum is given, the median still is not
	s := timedScript(ticks)
	s.outcomes[1].Flags = trace.OutcomeNotTimed
	s.outcomes[2] = trace.Outcome{Granted: 64, PolicyTicks: math.MaxUint32, Flags: trace.OutcomePolicyTimeSaturated}
	r = report(t, Config{Timing: true, ClockCostTicks: 100}, s)
	if r.Timed.NotTimed != 1 || r.Timed.Saturated != 1 || r.Timed.Policy.All.Samples != 1999 {
		t.Errorf("%+v", r.Timed)
	}
	for i := range s.outcomes[:100] { // 5 % of the times did not fit: p90 stands, p99 cannot
		s.outcomes[i].Flags, s.outcomes[i].PolicyTicks = trace.OutcomePolicyTimeSaturated, math.MaxUint32
	}
	r = report(t, Config{Timing: true}, s)
	if p := r.Timed.Policy.All; p.P90.Ns != 550 || !strings.Contains(p.P99.Refused, "100 times did not fit") {
		t.Errorf("p90 %+v, p99 %+v", p.P90, p.P99)
	}
	if p := New(Config{Timing: true}).Finish().Timed.Policy.All.P50; p.Refused != "no samples" {
		t.Errorf("%+v", p)
	}
}

// TestDeviceLatency: a model's device time is exact, a measured one is not; total is policy + device.
func TestDeviceLatency(t *testing.T) {
	s := timedScript(slices.Repeat([]uint32{100}, 40))
	for i := range s.outcomes {
		s.outcomes[i].DeviceNs = 1000
	}
	r := report(t, Config{Timing: true, TickNs: 2, ModelledTime: true}, s)
	if r.Timed.Device != nil || r.Exact.DeviceLatency.P50.Ns != 1000 {
		t.Errorf("modelled: %+v %+v", r.Timed.Device, r.Exact.DeviceLatency)
	}
	if got := r.Timed.Total.All.P50.Ns; got != 1200 {
		t.Errorf("total %v, want 100 ticks of 2 ns + 1000 ns", got)
	}
	r = report(t, Config{Timing: true}, s)
	if r.Exact.DeviceLatency != nil || r.Timed.Device.P50.Ns != 1000 {
		t.Errorf("measured: %+v %+v", r.Timed.Device, r.Exact.DeviceLatency)
	}
}

// TestCountsExact compares order statistics with a sorted slice, over all magnitudes, with merging.
func TestCountsExact(t *testing.T) {
	a, b := &counts{}, &counts{}
	rapid.Check(t, func(t *rapid.T) {
		a.reset()
		b.reset()
		var all []uint64
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			v := rapid.Uint64Range(0, 1<<rapid.IntRange(0, 40).Draw(t, "log2")).Draw(t, "v")
			all = append(all, v)
			if v%2 == 0 {
				a.add(v, 1)
			} else {
				b.add(v, 1)
			}
		}
		b.merge(a)
		slices.Sort(all)
		s := b.sort()
		for _, permille := range []uint64{1, 500, 900, 990, 999} {
			rank := (uint64(len(all))*permille + 999) / 1000
			if got := s.quantile(permille, 1000); got.value != all[rank-1] || got.half != 0 {
				t.Fatalf("quantile %d ‰ of %d: %+v, want %d", permille, len(all), got, all[rank-1])
			}
		}
		if b.max != all[len(all)-1] {
			t.Fatalf("max %d", b.max)
		}
	})
}

// TestCountsBounded: with more distinct large values than the table holds, memory stays bounded and values are known to
// one part in 4,096.
func TestCountsBounded(t *testing.T) {
	c := &counts{}
	const n = 3 * maxDistinct
	for i := range uint64(n) {
		c.add(1<<20+i*37, 1)
	}
	if len(c.table) > 2*maxDistinct || c.used > maxDistinct {
		t.Errorf("table of %d with %d used", len(c.table), c.used)
	}
	s := c.sort()
	got, want := s.quantile(999, 1000), uint64(1<<20+(n*999/1000-1)*37)
	if off := math.Abs(float64(got.value) - float64(want)); off > float64(want)/2048 || got.half == 0 {
		t.Errorf("p99.9 %d ± %d, want %d", got.value, got.half, want)
	}
}

// TestSeriesKeepsExtremes: one event in 100,000 frees everything and one reaches the peak; the joined points show both.
func TestSeriesKeepsExtremes(t *testing.T) {
	s := powerLaw(100_000, 300, 9)
	r := report(t, Config{Series: true}, s)
	p := r.Series.Points
	if len(p) > MaxSeriesPoints || len(p) < MaxSeriesPoints/2 || uint64(len(p))*r.Series.EventsPerPoint < 100_000 {
		t.Fatalf("%d points of %d events", len(p), r.Series.EventsPerPoint)
	}
	var live uint64
	var ext float64
	for i := range p {
		live, ext = max(live, p[i].LiveBytesMax), max(ext, p[i].ExternalMax)
		if p[i].First != uint64(i)*r.Series.EventsPerPoint || p[i].TimeNs != int64(p[i].First)*1000 {
			t.Fatalf("point %d starts at event %d, %d ns", i, p[i].First, p[i].TimeNs)
		}
		if p[i].LiveBytesMin > p[i].LiveBytesMax || p[i].ReservedBytesMin != p[i].ReservedBytesMax {
			t.Fatalf("point %d: %+v", i, p[i])
		}
	}
	if live != r.Exact.Peak.LiveBytes || ext != r.Exact.Fragmentation.ExternalMax {
		t.Errorf("series peaks at %d and %v, the books at %d and %v", live, ext, r.Exact.Peak.LiveBytes, r.Exact.Fragmentation.ExternalMax)
	}
	if p[0].LiveBytesMin != s.events[0].Size {
		t.Errorf("the first point starts at %d bytes, the first event allocates %d", p[0].LiveBytesMin, s.events[0].Size)
	}
}

// TestPicture keeps the largest rectangles by bytes × events: of h1 (512 × 3), h2 (1024 × 1), h3 (256 × 2) and the
// segment (4096 × 5) three fit.
func TestPicture(t *testing.T) {
	s := &script{calls: []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMalloc, Size: 4096}}}
	add := func(k trace.Kind, h trace.Handle, addr, size uint64) {
		s.events = append(s.events, trace.Event{Kind: k, Handle: h, Slot: uint32(h), Size: size, Aux: uint32(h)})
		s.outcomes = append(s.outcomes, trace.Outcome{Addr: addr, Granted: size})
	}
	add(trace.KindAlloc, 1, 0, 512)
	add(trace.KindAlloc, 2, 512, 1024)
	add(trace.KindFree, 2, 0, 0)
	add(trace.KindFree, 1, 0, 0)
	add(trace.KindAlloc, 3, 0, 256)
	r := report(t, Config{PictureRects: 3}, s)
	want := &Picture{Events: 5, Dropped: 1, Rects: []PictureRect{
		{Addr: 0, Bytes: 4096, First: 0, Last: 5},
		{Addr: 0, Bytes: 512, First: 0, Last: 3, Handle: 1, Tag: 1},
		{Addr: 512, Bytes: 1024, First: 1, Last: 2, Handle: 2, Tag: 2},
	}}
	if d := cmp.Diff(want, r.Picture); d != "" {
		t.Error(d)
	}
}

// TestSteadyStateAllocatesNothing: a reused ledger reads a program without allocating.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := powerLaw(5_000, 200, 2)
	cfg := Config{AlignmentBytes: 64, Hostages: true, Series: true, Timing: true}
	l := New(cfg)
	run := func() {
		l.Reset(cfg)
		if err := l.Feed(0, s.events, s.times, s.outcomes, s.calls); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(5, run); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// TestMalformedWindows: each is one clear line, and nothing is read after it.
func TestMalformedWindows(t *testing.T) {
	ev, o := make([]trace.Event, 2), make([]trace.Outcome, 2)
	for i := range ev {
		ev[i].Kind = trace.KindMark
	}
	call := func(e uint64) []trace.Call { return []trace.Call{{Event: e, Kind: trace.CallDeviceSync}} }
	for _, c := range []struct {
		feed func(l *Ledger) error
		want string
	}{
		{func(l *Ledger) error { return l.Feed(1, ev, nil, o, nil) }, "ledger: window starts at event 1, expected 0"},
		{func(l *Ledger) error { return l.Feed(0, ev[:1], nil, o, nil) }, "ledger: window at event 0 has 2 outcomes for 1 events"},
		{func(l *Ledger) error { return l.Feed(0, ev, make([]int64, 1), o, nil) }, "ledger: window at event 0 has 1 times for 2 outcomes"},
		{func(l *Ledger) error { return l.Feed(0, ev, nil, o, call(0)) }, "ledger: event 0: the outcome counts 0 calls, the call log has 1"},
		{func(l *Ledger) error { return l.Feed(0, ev, nil, o, call(7)) }, "ledger: call log: a record of event 7 where event 2 was expected"},
	} {
		l := New(Config{})
		err := c.feed(l)
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if again := l.Feed(0, nil, nil, nil, nil); again == nil {
			t.Error("reading went on after a malformed window")
		}
		if w := l.Finish().Exact.Warnings; len(w) == 0 || !strings.Contains(w[0], c.want) {
			t.Errorf("warnings %q", w)
		}
	}
	// A plugin that died in event 1 leaves calls without an outcome: a warning, no error.
	l := New(Config{})
	if err := l.Feed(0, ev, nil, o[:1], call(1)); err != nil {
		t.Error(err)
	}
	if w := l.Finish().Exact.Warnings; len(w) != 1 || w[0] != "1 calls belong to event 1, which never ended" {
		t.Errorf("warnings %q", w)
	}
}

// TestStartState: segments and blocks of a recording that starts mid-way are held from the start; those that the calls of
// the restore made are not entered twice.
func TestStartState(t *testing.T) {
	start := &trace.State{Segments: []trace.StateSegment{
		{Addr: 0, Bytes: 4096, Blocks: []trace.StateBlock{{Addr: 0, Bytes: 512, RequestedBytes: 500, Handle: 1, Slot: 0}, {Addr: 512, Bytes: 3584}}},
		{Addr: 1 << 20, Bytes: 4096, Expandable: true, Blocks: []trace.StateBlock{{Addr: 1 << 20, Bytes: 4096, RequestedBytes: 4096, Handle: 2, Slot: 1}}},
	}}
	s := &script{calls: []trace.Call{{Event: trace.EventRestore, Kind: trace.CallMalloc, Size: 4096},
		{Event: 1, Kind: trace.CallUnmap, Addr: 1<<20 + 2048, Size: 2048}}}
	s.events = []trace.Event{{Kind: trace.KindFree, Handle: 2, Slot: 1}, {Kind: trace.KindTrim}, {Kind: trace.KindFree, Handle: 1}}
	s.outcomes = []trace.Outcome{{}, {Calls: 1}, {}}
	l := New(Config{Start: start})
	if err := l.Feed(0, s.events, nil, s.outcomes, s.calls); err != nil {
		t.Fatal(err)
	}
	e := l.Finish().Exact
	if e.ViolationsTotal != 0 || e.Peak.ReservedBytes != 8192 || e.Peak.LiveBytes != 4596 || e.Peak.LiveEvent != -1 ||
		e.Device.HeldAtEndBytes != 6144 || e.LiveAtEnd != 0 {
		t.Errorf("%+v\n%v", e, e.Violations)
	}
}

// TestViolationsAreBounded: all are counted, the first are kept.
func TestViolationsAreBounded(t *testing.T) {
	s := timedScript(make([]uint32, 400))
	for i := range s.outcomes {
		s.outcomes[i].Addr = 1 << 30
	}
	l := New(Config{})
	feed(t, l, s, 100)
	e := l.Finish().Exact
	want := []ViolationCount{{CheckPlacement, CodeOutOfRange, 200}}
	if len(e.Violations) != MaxStoredViolations || e.ViolationsTotal != 200 || !cmp.Equal(e.ViolationCounts, want) {
		t.Errorf("%d kept, %d counted: %v", len(e.Violations), e.ViolationsTotal, e.ViolationCounts)
	}
}
