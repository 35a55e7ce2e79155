package trace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"

	_ "github.com/gpubench/gpubench/internal/testflags"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuilderRecords(t *testing.T) {
	b := trace.NewBuilder()
	s7, p1 := b.Stream(7), b.Pool("1")
	tag := b.String("layer.0")
	must(t, b.Alloc(1, 2<<20, trace.AllocArgs{}))
	b.At(1500)
	b.Saw(0x7000, 640<<10, false)
	must(t, b.Alloc(2, 640<<10, trace.AllocArgs{Stream: s7, Pool: p1, Align: 512, Thread: 4, Tag: tag}))
	must(t, b.Use(1, s7))
	must(t, b.Free(2, trace.FreeArgs{}))
	must(t, b.Free(1, trace.FreeArgs{Stream: s7, OnStream: true, Tag: tag}))
	tr, err := b.Finish(trace.Meta{})
	must(t, err)

	want := []trace.Event{
		{Kind: trace.KindAlloc, Slot: 0, Handle: 1, Size: 2 << 20},
		{Kind: trace.KindAlloc, Flags: trace.FlagExtra, Stream: 1, Slot: 1, Handle: 2, Size: 640 << 10, Pool: 1, AlignLog2: 9},
		{Kind: trace.KindUse, Stream: 1, Slot: 0, Handle: 1},
		{Kind: trace.KindFree, Stream: 1, Slot: 1, Handle: 2}, // freed where it was allocated
		{Kind: trace.KindFree, Flags: trace.FlagStream, Stream: 1, Slot: 0, Handle: 1, Aux: tag},
	}
	if len(tr.Events) != len(want) {
		t.Fatalf("%d events, want %d", len(tr.Events), len(want))
	}
	for i := range want {
		if tr.Events[i] != want[i] {
			t.Errorf("event %d\n got %+v\nwant %+v", i, tr.Events[i], want[i])
		}
	}
	if x := tr.Extras[0]; x.Tag != tag || x.Thread != 4 {
		t.Errorf("extra %+v", x)
	}
	if tr.Pools[1] != "0:1" || tr.Streams[1] != 7 || tr.Slots != 2 {
		t.Errorf("pools %q streams %v slots %d", tr.Pools, tr.Streams, tr.Slots)
	}
	// Times begin at the second event; the one before is at 0. The recorded column likewise, with one entry.
	if got := tr.TimesNs; len(got) != 5 || got[0] != 0 || got[1] != 1500 || got[4] != 1500 {
		t.Errorf("times %v", got)
	}
	if got := tr.Recorded; len(got) != 5 || got[0].Seen != 0 || got[1].Addr != 0x7000 || got[1].Seen != 1 || got[2].Seen != 0 {
		t.Errorf("recorded %+v", got)
	}
}

func TestBuilderRefuses(t *testing.T) {
	b := trace.NewBuilder()
	must(t, b.Alloc(1, 1, trace.AllocArgs{}))
	must(t, b.Alloc(2, 1, trace.AllocArgs{}))
	must(t, b.Free(2, trace.FreeArgs{}))
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"free of unknown", b.Free(9, trace.FreeArgs{}), trace.ErrUnknownHandle},
		{"double free", b.Free(2, trace.FreeArgs{}), trace.ErrFreedHandle},
		{"use of dead", b.Use(2, 0), trace.ErrFreedHandle},
		{"reuse of live", b.Alloc(1, 1, trace.AllocArgs{}), trace.ErrHandleReused},
		{"reuse of dead", b.Alloc(2, 1, trace.AllocArgs{}), trace.ErrHandleReused},
		{"handle 0", b.Alloc(0, 1, trace.AllocArgs{}), trace.ErrHandleZero},
		{"alignment", b.Alloc(3, 1, trace.AllocArgs{Align: 48}), trace.ErrAlignment},
		{"stream index", b.Alloc(3, 1, trace.AllocArgs{Stream: 5}), trace.ErrIndex},
		{"free! of live", b.FreeWrong(1), trace.ErrHandleLive},
		{"restore", b.Restore("c1"), trace.ErrCheckpoint},
		{"pool-end", b.PoolEndLast(), trace.ErrPoolClosed},
		{"realloc of dead", b.Realloc(4, 2, 1, trace.AllocArgs{}), trace.ErrFreedHandle},
		{"fail-next", b.FailNext(0), trace.ErrArgument},
	} {
		var ee *trace.EventError
		if !errors.Is(c.err, c.want) || !errors.As(c.err, &ee) || ee.Event != 3 {
			t.Errorf("%s: got %v, want %v at event 3", c.what, c.err, c.want)
		}
	}
	b.At(10)
	must(t, b.Trim())
	b.At(9)
	if err := b.Trim(); !errors.Is(err, trace.ErrTimeBack) {
		t.Errorf("time back: %v", err)
	}
	must(t, b.Trim()) // the builder goes on at the last legal time
	tr, err := b.Finish(trace.Meta{})
	must(t, err)
	if len(tr.Events) != 5 || tr.TimesNs[4] != 10 {
		t.Errorf("%d events, times %v", len(tr.Events), tr.TimesNs)
	}
}

// churn is a trace of n events with about live handles live at a time.
func churn(b *trace.Builder, n int, live trace.Handle) {
	h := trace.Handle(0)
	for i := 0; i < n; i++ {
		if h > live && i%2 == 1 {
			b.Free(h-live, trace.FreeArgs{})
			continue
		}
		h++
		b.Alloc(h, uint64(h)%4096, trace.AllocArgs{})
	}
}

func TestSlotsAreReusedAboveTheFreshOnes(t *testing.T) {
	b := trace.NewBuilder()
	churn(b, 200_000, 10)
	tr, err := b.Finish(trace.Meta{})
	must(t, err)
	// 4,096 fresh slots, then at most as many more as handles are live at once (11).
	if tr.Slots < trace.SlotsFresh || tr.Slots > trace.SlotsFresh+12 {
		t.Errorf("slots %d", tr.Slots)
	}
	owner := make([]trace.Handle, tr.Slots)
	for i, ev := range tr.Events {
		switch ev.Kind {
		case trace.KindAlloc:
			if owner[ev.Slot] != 0 {
				t.Fatalf("event %d: slot %d of h%d still belongs to h%d", i, ev.Slot, ev.Handle, owner[ev.Slot])
			}
			owner[ev.Slot] = ev.Handle
		case trace.KindFree:
			if owner[ev.Slot] != ev.Handle {
				t.Fatalf("event %d: slot %d belongs to h%d, not h%d", i, ev.Slot, owner[ev.Slot], ev.Handle)
			}
			owner[ev.Slot] = 0
		}
	}
}

func TestCheckpointBringsHandlesBack(t *testing.T) {
	b := trace.NewBuilder()
	must(t, b.Alloc(1, 1, trace.AllocArgs{}))
	must(t, b.Alloc(2, 1, trace.AllocArgs{}))
	must(t, b.Checkpoint("c"))
	must(t, b.Free(1, trace.FreeArgs{}))
	must(t, b.Alloc(3, 1, trace.AllocArgs{}))
	must(t, b.Restore("c"))
	must(t, b.Free(1, trace.FreeArgs{}))
	if err := b.Free(3, trace.FreeArgs{}); !errors.Is(err, trace.ErrFreedHandle) {
		t.Errorf("a handle made after the checkpoint: %v", err)
	}
	must(t, b.Reset())
	if err := b.Free(2, trace.FreeArgs{}); !errors.Is(err, trace.ErrFreedHandle) {
		t.Errorf("a handle from before the reset: %v", err)
	}
}

func BenchmarkBuilder(b *testing.B) {
	const n = 1_000_000
	b.ReportAllocs()
	for range b.N {
		tb := trace.NewBuilder()
		churn(tb, n, 3000)
		if _, err := tb.Finish(trace.Meta{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// TestLayoutWorkIsBounded: a text that restores a large checkpoint again and again is refused instead of read for days.
func TestLayoutWorkIsBounded(t *testing.T) {
	b := trace.NewBuilder()
	for h := trace.Handle(1); h <= 10_000; h++ {
		must(t, b.Alloc(h, 1, trace.AllocArgs{}))
	}
	must(t, b.Checkpoint("c"))
	// Each restore looks at 10,000 slots and at the table of 32,768 places for the live handles.
	b.SpendLayoutWork(trace.MaxLayoutWork - 2*(10_000+32_768)) // the checkpoint was one such look, one is left
	must(t, b.Restore("c"))
	if err := b.Restore("c"); !errors.Is(err, trace.ErrLimit) || !strings.Contains(err.Error(), "MaxLayoutWork") {
		t.Error(err)
	}
	if err := b.Reset(); !errors.Is(err, trace.ErrLimit) {
		t.Error(err)
	}
}
