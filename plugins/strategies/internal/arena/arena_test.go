package arena_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
	"github.com/gpubench/gpubench/trace"
)

const mib = 1 << 20

// rig is first fit over an ideal device.
type rig struct {
	t   *testing.T
	dev *ideal.Device
	s   *arena.Strategy
}

func open(t *testing.T, totalMiB uint64, streams int, opt arena.Options) *rig {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: totalMiB * mib})
	if err != nil {
		t.Fatal(err)
	}
	env := &sdk.Env{Device: dev, CapacityBytes: totalMiB * mib, Options: json.RawMessage(`{}`), Streams: make([]uint64, streams)}
	s, err := arena.Open("first-fit", env, fit.Kind(fit.First), opt)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, dev, s}
}

// alloc expects the status and, where it is placed, the address in MiB.
func (r *rig) alloc(sizeMiB uint64, stream sdk.Stream, want trace.Status, atMiB uint64) sdk.Block {
	r.t.Helper()
	var b sdk.Block
	st := r.s.Alloc(&sdk.Request{Size: sizeMiB * mib, Stream: stream}, &b)
	if st != want || st.Placed() && b.Addr != atMiB*mib {
		r.t.Fatalf("%d MiB: %v at %d bytes, want %v at %d MiB", sizeMiB, st, b.Addr, want, atMiB)
	}
	return b
}

func (r *rig) free(b sdk.Block, stream sdk.Stream) {
	r.t.Helper()
	if st := r.s.Free(&b, stream); st != trace.StatusOK {
		r.t.Fatalf("free: %v", st)
	}
}

func (r *rig) held(wantMiB uint64) {
	r.t.Helper()
	if free, total := r.dev.MemInfo(); total-free != wantMiB*mib {
		r.t.Fatalf("%d bytes are held from the device, want %d MiB", total-free, wantMiB)
	}
}

func TestArenaTakesTheCapacityOnce(t *testing.T) {
	r := open(t, 8, 1, arena.Defaults())
	r.held(8)
	b := r.alloc(8, 0, trace.StatusOK, 0)
	r.alloc(1, 0, trace.StatusFailed, 0)
	r.free(b, 0)
	if st := r.s.Trim(); st != trace.StatusOK {
		t.Fatal(st)
	}
	r.held(8)
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	r.held(0)
}

// TestGrow: segments of 4 MiB on a device of 16. A request of 6 gets a segment of its own; when 2 MiB are left a request of
// 2 gets just that; then the device is full, and an empty segment is given back for a request that needs its memory.
func TestGrow(t *testing.T) {
	r := open(t, 16, 1, arena.Options{Grow: true, SegmentBytes: 4 * mib})
	r.held(0)
	a := r.alloc(1, 0, trace.StatusOK, 0)
	r.held(4)
	b := r.alloc(6, 0, trace.StatusOK, 4)
	r.held(10)
	r.alloc(4, 0, trace.StatusOK, 10)
	r.held(14)
	r.alloc(2, 0, trace.StatusOK, 1) // behind a, in the first segment
	r.alloc(2, 0, trace.StatusOK, 14)
	r.held(16)
	r.free(b, 0)
	r.alloc(7, 0, trace.StatusFailed, 0) // the empty segment of 6 was given back and does not suffice
	r.held(10)
	r.alloc(5, 0, trace.StatusOK, 4)
	r.free(a, 0)
	if got := r.s.Inspect().Counters["segments"]; got != 4 {
		t.Fatalf("%d segments, want 4", got)
	}
	if st := r.s.Reset(); st != trace.StatusOK {
		t.Fatal(st)
	}
	r.held(0)
	c := r.alloc(1, 0, trace.StatusOK, 0)
	r.free(c, 0)
	r.held(4)
	if st := r.s.Trim(); st != trace.StatusOK {
		t.Fatal(st)
	}
	r.held(0)
}

// TestGrowRecovers: three empty segments of 4 MiB on a device of 12 are given back for one request of 12.
func TestGrowRecovers(t *testing.T) {
	r := open(t, 12, 1, arena.Options{Grow: true, SegmentBytes: 4 * mib})
	var b [3]sdk.Block
	for i := range b {
		b[i] = r.alloc(4, 0, trace.StatusOK, uint64(4*i))
	}
	for i := range b {
		r.free(b[i], 0)
	}
	r.alloc(12, 0, trace.StatusRecovered, 0)
	r.held(12)
}

// TestStreams: with two streams a freed block waits for its stream; a use on the other stream holds it back longer; an
// unfinished stream does not hold back what other streams have freed; running out of memory waits.
func TestStreams(t *testing.T) {
	r := open(t, 8, 2, arena.Defaults())
	r.dev.SetManualEvents(true)
	a := r.alloc(2, 0, trace.StatusOK, 0)
	b := r.alloc(2, 1, trace.StatusOK, 2)
	r.free(a, 0)
	if st := r.s.FreeWrong(&a, 0); st != trace.StatusInvalid {
		t.Fatalf("second free of a pending block: %v", st)
	}
	c := r.alloc(2, 1, trace.StatusOK, 4) // a is still pending
	r.free(b, 1)
	r.dev.Complete(1)
	d := r.alloc(2, 0, trace.StatusOK, 2) // b is free, a is not
	r.dev.Complete(0)
	a = r.alloc(2, 0, trace.StatusOK, 0)
	if st := r.s.Use(&a, 1); st != trace.StatusOK {
		t.Fatal(st)
	}
	r.free(a, 0)
	r.dev.Complete(0)
	e := r.alloc(2, 0, trace.StatusOK, 6) // stream 1 may still use a
	in := r.s.Inspect()
	if s := in.Segments[0].Blocks[0].State; s != "pending" || in.Counters["pending_frees"] != 1 {
		t.Fatalf("block 0 is %s, %d pending frees", s, in.Counters["pending_frees"])
	}
	r.alloc(2, 0, trace.StatusRecovered, 0) // waited for stream 1
	r.alloc(2, 0, trace.StatusFailed, 0)
	for _, x := range []sdk.Block{c, d, e} {
		r.free(x, 0)
	}
	r.s.Reset()
	r.alloc(8, 0, trace.StatusOK, 0)
}

// TestOneStreamAsksNothing: without other streams a freed block is free at once, even with manual events, and no event is
// recorded; a recorded use changes that for its block.
func TestOneStreamAsksNothing(t *testing.T) {
	r := open(t, 4, 1, arena.Defaults())
	r.dev.SetManualEvents(true)
	a := r.alloc(2, 0, trace.StatusOK, 0)
	r.free(a, 0)
	a = r.alloc(2, 0, trace.StatusOK, 0)
	r.s.Use(&a, 3)
	r.s.Use(&a, 3)
	r.free(a, 0)
	b := r.alloc(2, 0, trace.StatusOK, 2)
	r.free(b, 0)
	r.alloc(2, 0, trace.StatusOK, 2)
	r.dev.CompleteAll()
	r.alloc(2, 0, trace.StatusOK, 0)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	r := open(t, 64, 4, arena.Defaults())
	r.dev.SetManualEvents(true)
	var live [16]sdk.Block
	step := 0
	turn := func() {
		for i := range live {
			step++
			if live[i].Size != 0 {
				r.s.Use(&live[i], sdk.Stream(step%4))
				r.s.Free(&live[i], sdk.Stream(step%3))
			}
			r.s.Alloc(&sdk.Request{Size: uint64(1+step%5) * 100_000, Stream: sdk.Stream(step % 4)}, &live[i])
			if step%7 == 0 {
				r.dev.Complete(backends.Stream(step % 4))
			}
		}
	}
	for i := 0; i < 200; i++ {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Fatalf("%v allocations a turn of 48 calls, want 0", n)
	}
}

func TestOpenErrors(t *testing.T) {
	dev, err := ideal.New(ideal.Config{TotalBytes: 4 * mib})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		capacity uint64
		opt      arena.Options
		want     string
	}{
		{255, arena.Defaults(), "less than one unit"},
		{4 * mib, arena.Options{Grow: true}, "segment_bytes is 0"},
		{8 * mib, arena.Defaults(), ""}, // no more than the device has
	} {
		s, err := arena.Open("x", &sdk.Env{Device: dev, CapacityBytes: c.capacity}, fit.Kind(fit.First), c.opt)
		if c.want == "" {
			if err != nil {
				t.Errorf("capacity %d: %v", c.capacity, err)
			} else if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("capacity %d, %+v: %v, want %q", c.capacity, c.opt, err, c.want)
		}
	}
	if _, st := dev.Malloc(2 * mib); st != trace.CallOK {
		t.Fatal(st)
	}
	if _, err := arena.Open("x", &sdk.Env{Device: dev, CapacityBytes: 4 * mib}, fit.Kind(fit.First), arena.Defaults()); err == nil {
		t.Error("an arena was opened on a device that is half full")
	}
}
