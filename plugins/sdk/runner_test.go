package sdk

import (
	"errors"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

func statuses(outcomes []trace.Outcome) (list []trace.Status) {
	for _, o := range outcomes {
		list = append(list, o.Status)
	}
	return list
}

// A trace that fills a device of 1000 bytes: what fails is skipped afterwards, and the records say who did what.
func TestReplayRecordsOutcomesAndCalls(t *testing.T) {
	tr := parse(alloc(1, 600), alloc(2, 600), free(2), free(1), alloc(3, 900), alloc(4, 0), free(4))
	d := newArenaDevice(1000)
	r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: tr}, d)
	w := window(t, 100, 100)
	outcomes, calls, windows := replayAll(t, r, w)
	if windows != 1 {
		t.Errorf("%d windows", windows)
	}
	want := []trace.Status{trace.StatusOK, trace.StatusFailed, trace.StatusSkipped, trace.StatusOK, trace.StatusOK, trace.StatusOK, trace.StatusOK}
	if got := statuses(outcomes); !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	// Addresses come from a counter that starts at 2 MiB and steps by the size rounded up to 256.
	if o := outcomes[0]; o.Addr != 2<<20 || o.Granted != 600 || o.Calls != 1 || o.DeviceNs != testMallocNs {
		t.Errorf("alloc of 600: %+v", o)
	}
	if o := outcomes[1]; o.Addr != 0 || o.Granted != 0 || o.Calls != 1 || o.DeviceNs != testMallocNs {
		t.Errorf("failed alloc: %+v", o)
	}
	if o := outcomes[2]; o.Calls != 0 || o.Flags != trace.OutcomeNotTimed {
		t.Errorf("skipped free: %+v", o)
	}
	if o := outcomes[4]; o.Addr != 2<<20+768 || o.Granted != 900 {
		t.Errorf("alloc of 900: %+v", o)
	}
	type brief struct {
		event      uint64
		kind       trace.CallKind
		status     trace.CallStatus
		addr, size uint64
		ns         uint32
	}
	var got []brief
	for _, c := range calls {
		got = append(got, brief{c.Event, c.Kind, c.Status, c.Addr, c.Size, c.DeviceNs})
	}
	wantCalls := []brief{
		{0, trace.CallMalloc, trace.CallOK, 2 << 20, 600, 1000},
		{1, trace.CallMalloc, trace.CallOutOfMemory, 0, 600, 1000},
		{3, trace.CallFree, trace.CallOK, 2 << 20, 600, 10},
		{4, trace.CallMalloc, trace.CallOK, 2<<20 + 768, 900, 1000},
	}
	if !slices.Equal(got, wantCalls) {
		t.Errorf("calls\n%v, want\n%v", got, wantCalls)
	}
	if !slices.Equal(d.begun, []uint64{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("the device with recorded answers was shown events %v", d.begun)
	}
}

// The two sequences are the same however small the windows are, and no window shows an outcome before its calls.
func TestWindowsOfAnySizeGiveTheSameSequences(t *testing.T) {
	var events []trace.Event
	for h := trace.Handle(1); h <= 40; h++ {
		events = append(events, alloc(h, 64))
		if h%3 == 0 {
			events = append(events, free(h-1))
		}
	}
	tr := parse(events...)
	run := func(chatty int, outcomes, calls uint64) ([]trace.Outcome, []trace.Call) {
		r := open(t, RunnerConfig{Strategy: describeDirect(chatty), Trace: tr}, newArenaDevice(1<<20))
		w := window(t, outcomes, calls)
		reader := w.Reader()
		var outs []trace.Outcome
		var log []trace.Call
		for {
			first := r.Next()
			if first != uint64(len(outs)) {
				t.Fatalf("next is %d after %d outcomes", first, len(outs))
			}
			if _, err := r.Replay(w, first, 1000, false); err != nil {
				t.Fatal(err)
			}
			d, err := reader.Drain(first)
			if err != nil {
				t.Fatal(err)
			}
			outs, log = append(outs, d.Outcomes...), append(log, d.Calls...)
			have := make(map[uint64]int)
			for _, c := range log {
				have[c.Event]++
			}
			for i, o := range outs {
				if have[uint64(i)] != int(o.Calls) {
					t.Fatalf("%d outcomes, %d calls an area: outcome %d has %d calls, seen %d", outcomes, calls, i, o.Calls, have[uint64(i)])
				}
			}
			if d.Summary.Reason == wire.StopEnd {
				return outs, log
			}
		}
	}
	for _, chatty := range []int{0, 3, 20} {
		wantOut, wantLog := run(chatty, 1000, 10_000)
		if want := 40*(chatty+1) + 13; len(wantLog) != want {
			t.Fatalf("%d calls, want %d", len(wantLog), want)
		}
		for _, g := range [][2]uint64{{1, 1}, {1, 1000}, {7, 5}, {1000, 1}, {3, 21}, {16, 40}} {
			out, log := run(chatty, g[0], g[1])
			if !slices.EqualFunc(out, wantOut, sameOutcome) {
				t.Errorf("chatty %d, window %v: outcomes differ", chatty, g)
			}
			if !slices.EqualFunc(log, wantLog, sameCall) {
				t.Errorf("chatty %d, window %v: calls differ", chatty, g)
			}
		}
	}
}

// sameOutcome and sameCall compare what is deterministic.
func sameOutcome(a, b trace.Outcome) bool {
	a.PolicyTicks, b.PolicyTicks = 0, 0
	a.Flags &^= trace.OutcomeNotTimed
	b.Flags &^= trace.OutcomeNotTimed
	return a == b
}

func sameCall(a, b trace.Call) bool {
	a.WallTicks, b.WallTicks = 0, 0
	return a == b
}

func TestBatchTimingDiffersInTimeOnly(t *testing.T) {
	tr := parse(alloc(1, 600), alloc(2, 600), free(2), free(1))
	a, callsA, _ := replayAll(t, open(t, RunnerConfig{Strategy: describeDirect(1), Trace: tr}, newArenaDevice(1000)), window(t, 10, 10))
	b, callsB, _ := replayAll(t, open(t, RunnerConfig{Strategy: describeDirect(1), Trace: tr, Timing: TimingBatch}, newArenaDevice(1000)), window(t, 10, 10))
	if !slices.EqualFunc(a, b, sameOutcome) || !slices.EqualFunc(callsA, callsB, sameCall) {
		t.Errorf("per event %v\nbatch %v", a, b)
	}
	for i, o := range b {
		if o.Flags&trace.OutcomeNotTimed == 0 || o.PolicyTicks != 0 {
			t.Errorf("batch outcome %d: %+v", i, o)
		}
	}
}

func TestResetRepeatsExactly(t *testing.T) {
	tr := parse(alloc(1, 600), alloc(2, 300), free(1), alloc(3, 600))
	tr.TimesNs = []int64{0, 500, 500, 2000}
	opened := 0
	r := open(t, RunnerConfig{Strategy: describeDirect(2), Trace: tr, OpenDevice: func() (backends.Device, error) {
		opened++
		return newArenaDevice(1000), nil
	}}, nil)
	w := window(t, 3, 4)
	wantOut, wantCalls, _ := replayAll(t, r, w)
	// 3 allocs of 1000 ns with 2 queries of 10 ns each, a free of 10 ns, gaps of 2000 ns.
	if now := r.Device().NowNs(); now != 3*1020+10+2000 {
		t.Errorf("the model's clock shows %d ns", now)
	}
	if err := r.Reset(); err != nil {
		t.Fatal(err)
	}
	out, calls, _ := replayAll(t, r, w)
	if opened != 2 {
		t.Errorf("device opened %d times", opened)
	}
	if !slices.EqualFunc(out, wantOut, sameOutcome) || !slices.EqualFunc(calls, wantCalls, sameCall) {
		t.Errorf("second run differs:\n%v\n%v", out, wantOut)
	}
}

func TestReplayRefusesWhatMakesNoSense(t *testing.T) {
	r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: parse(alloc(1, 8), free(1))}, newArenaDevice(1000))
	w := window(t, 4, 4)
	if _, err := r.Replay(w, 1, 1, false); !errors.Is(err, ErrWrongEvent) {
		t.Errorf("wrong first event: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Replay(w, 0, 1, false); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if s, err := r.Replay(w, 0, 0, false); err != nil || s.Reason != wire.StopMax {
		t.Errorf("draining after Close: %v %v", s.Reason, err)
	}
	for name, ev := range map[string]trace.Event{
		"slot":    {Kind: trace.KindAlloc, Handle: 9, Slot: 9},
		"stream":  {Kind: trace.KindSync, Stream: 2},
		"pool":    {Kind: trace.KindPoolBegin, Pool: 2},
		"string":  {Kind: trace.KindSet, Aux: 4},
		"extra":   {Kind: trace.KindAlloc, Flags: trace.FlagExtra, Aux: 0},
		"realloc": {Kind: trace.KindRealloc},
		"wait":    {Kind: trace.KindWait, Aux: 2},
		"align":   {Kind: trace.KindAlloc, AlignLog2: 64},
	} {
		tr := parse(ev)
		tr.Slots = 1
		r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: tr}, newArenaDevice(1000))
		if _, err := r.Replay(w, 0, 1, false); !errors.Is(err, ErrBadTrace) {
			t.Errorf("%s outside its table: %v", name, err)
		}
	}
}

// Records of opening and closing come with the windows, under pseudo events.
func TestCallsOutsideEventsAreDelivered(t *testing.T) {
	d := newArenaDevice(1 << 20)
	r := open(t, RunnerConfig{Trace: parse(alloc(1, 8)), Strategy: &Description{Name: "arena", New: func(env *Env) (Strategy, error) {
		a, _ := env.Device.Malloc(4096)
		return &arena{direct: direct{env: env}, base: a}, nil
	}}}, d)
	w := window(t, 1, 1)
	_, calls, windows := replayAll(t, r, w)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := r.CallsWaiting(); n != 1 {
		t.Fatalf("%d calls wait after Close", n)
	}
	if _, err := r.Replay(w, r.Next(), 0, false); err != nil {
		t.Fatal(err)
	}
	calls = append(calls, w.Calls()[:1]...)
	var got []uint64
	for _, c := range calls {
		got = append(got, c.Event)
	}
	if want := []uint64{trace.EventOpen, 0, trace.EventClose}; !slices.Equal(got, want) || windows != 2 {
		t.Errorf("events of the calls %v, want %v, in %d windows", got, want, windows)
	}
	if !d.closed || d.used != 8 { // the arena went back, the block of the program was never freed
		t.Errorf("device closed %v, %d bytes used", d.closed, d.used)
	}
}

type arena struct {
	direct
	base uint64
}

func (a *arena) Close() error {
	a.env.Device.Free(a.base)
	return nil
}

func TestQuietReplayReportsNoCollection(t *testing.T) {
	r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: parse(alloc(1, 8), free(1)), Quiet: true}, newArenaDevice(1000))
	w := window(t, 4, 4)
	s, err := r.Replay(w, 0, 10, true)
	if err != nil || s.Collections != 0 {
		t.Errorf("%d collections, %v", s.Collections, err)
	}
	d, err := w.Reader().Drain(0)
	if err != nil || d.Flags != wire.HeaderWarmUp {
		t.Errorf("flags %v, %v", d.Flags, err)
	}
}

// Near the memory limit the collector runs inside the loop, and says so.
func TestCollectionInsideAWindowIsReported(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	r := open(t, RunnerConfig{Trace: parse(alloc(1, 8), alloc(2, 8), alloc(3, 8)), Quiet: true, MemoryMax: 16 << 20,
		Strategy: &Description{Name: "wasteful", New: func(env *Env) (Strategy, error) { return &wasteful{}, nil }}}, newArenaDevice(1000))
	s, err := r.Replay(window(t, 4, 4), 0, 10, false)
	if err != nil || s.Collections == 0 {
		t.Errorf("%d collections, %v", s.Collections, err)
	}
}

type wasteful struct {
	direct
	kept []byte
}

func (w *wasteful) Alloc(_ *Request, b *Block) trace.Status {
	for range 16 {
		w.kept = make([]byte, 4<<20)
	}
	*b = Block{Size: 8}
	return trace.StatusOK
}
