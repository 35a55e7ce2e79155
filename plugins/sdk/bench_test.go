package sdk

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// pool hands out fixed places without a search: the least that a strategy with bookkeeping does.
type pool struct {
	free []uint64
	next uint64
}

func (p *pool) Alloc(r *Request, b *Block) trace.Status {
	if n := len(p.free); n > 0 {
		b.Addr = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		b.Addr = p.next
		p.next += 1 << 21
	}
	b.Size = r.Size
	return trace.StatusOK
}
func (p *pool) Free(b *Block, _ Stream) trace.Status {
	p.free = append(p.free, b.Addr)
	return trace.StatusOK
}
func (p *pool) Close() error { return nil }

var describePool = &Description{Name: "pool-test", New: func(*Env) (Strategy, error) { return &pool{}, nil }}

const benchEvents = 1 << 20

func benchTrace() *trace.Trace {
	t := &trace.Trace{Strings: []string{""}, Streams: []uint64{0}, Pools: []string{"0:0"}, Slots: 4096}
	live := make([]trace.Handle, 0, 4096)
	x := uint64(88172645463325252)
	slot := map[trace.Handle]uint32{}
	var freeSlots []uint32
	for i := uint32(0); i < 4096; i++ {
		freeSlots = append(freeSlots, i)
	}
	h := trace.Handle(0)
	for len(t.Events) < benchEvents {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		if len(live) > 0 && (x&1 == 0 || len(freeSlots) == 0) {
			i := int(x>>8) % len(live)
			v := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			t.Events = append(t.Events, trace.Event{Kind: trace.KindFree, Handle: v, Slot: slot[v]})
			freeSlots = append(freeSlots, slot[v])
			delete(slot, v)
			continue
		}
		h++
		s := freeSlots[len(freeSlots)-1]
		freeSlots = freeSlots[:len(freeSlots)-1]
		slot[h] = s
		live = append(live, h)
		t.Events = append(t.Events, trace.Event{Kind: trace.KindAlloc, Handle: h, Slot: s, Size: 64 + x>>40})
	}
	return t
}

// BenchmarkLoopDirect is the yardstick: the same events through the same strategy with a slot table of blocks and nothing
// else, as a program of its own would.
func BenchmarkLoopDirect(b *testing.B) {
	t := benchTrace()
	slots := make([]Block, t.Slots)
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		var s Strategy = &pool{}
		var req Request
		for i := range t.Events {
			ev := &t.Events[i]
			if ev.Kind == trace.KindAlloc {
				req.Size, req.Stream, req.Pool, req.Tag = ev.Size, ev.Stream, ev.Pool, ev.Aux
				s.Alloc(&req, &slots[ev.Slot])
			} else {
				s.Free(&slots[ev.Slot], ev.Stream)
			}
		}
		events += len(t.Events)
	}
	perEvent(b, events)
}

func perEvent(b *testing.B, events int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func benchLoop(b *testing.B, w *wire.Window, timing Timing, quiet bool) {
	r := open(b, RunnerConfig{Strategy: describePool, Trace: benchTrace(), Timing: timing, Quiet: quiet}, nullDevice{})
	reader := w.Reader()
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		if err := r.Reset(); err != nil {
			b.Fatal(err)
		}
		for {
			first := r.Next()
			s, err := r.Replay(w, first, 1<<40, false)
			if err != nil {
				b.Fatal(err)
			}
			d, err := reader.Drain(first)
			if err != nil {
				b.Fatal(err)
			}
			events += len(d.Outcomes)
			if s.Reason == wire.StopEnd {
				break
			}
		}
	}
	perEvent(b, events)
}

func defaultWindow(b *testing.B) *wire.Window {
	return window(b, wire.DefaultGeometry.OutcomeCapacity, wire.DefaultGeometry.CallCapacity)
}

func BenchmarkLoopMemoryBatch(b *testing.B)    { benchLoop(b, defaultWindow(b), TimingBatch, false) }
func BenchmarkLoopMemoryPerEvent(b *testing.B) { benchLoop(b, defaultWindow(b), TimingPerEvent, false) }

// BenchmarkLoopShared fills a memory file, collector off, as in a plugin process.
func BenchmarkLoopSharedBatch(b *testing.B)    { benchShared(b, TimingBatch) }
func BenchmarkLoopSharedPerEvent(b *testing.B) { benchShared(b, TimingPerEvent) }

func benchShared(b *testing.B, timing Timing) {
	f, reader, err := wire.CreateWindow(wire.DefaultGeometry)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	defer reader.Close()
	w, err := wire.MapWindow(f, wire.DefaultGeometry)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	benchLoop(b, w, timing, true)
}
