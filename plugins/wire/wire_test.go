package wire

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

var goodClock = clock.Info{Source: clock.SourceTSC, FrequencyHz: 2e9, ReadCostMilliticks: 38_000}

// fill writes n outcomes and c calls, as a plugin does.
func fill(w *Window, first uint64, n, c uint64, s Summary) {
	w.Begin(first, 0, 0)
	for i := range c {
		w.Calls()[i] = trace.Call{Event: first, Kind: trace.CallMalloc, Addr: i}
	}
	for i := range n {
		w.Outcomes()[i] = trace.Outcome{Addr: 100 + i}
	}
	w.Publish(n, c)
	if s.Clock.FrequencyHz == 0 {
		s.Clock = goodClock
	}
	w.End(&s)
}

func small(t testing.TB) (*Window, *Reader) {
	t.Helper()
	w, err := NewWindow(Geometry{OutcomeCapacity: 4, CallCapacity: 3})
	if err != nil {
		t.Fatal(err)
	}
	return w, w.Reader()
}

func TestWindowCarriesRecordsAndSummary(t *testing.T) {
	w, r := small(t)
	want := Summary{Reason: StopAreaFull, CallsWaiting: 9, LoopTicks: 1000, DeviceWallTicks: 400, DeviceNs: 7, DeviceCalls: 3, PolicySaturated: 1,
		DeviceSaturated: 2, Skipped: 3, Collections: 1, Clock: goodClock, CallCostMilliticks: 5000, LoopCostMilliticks: 9000}
	fill(w, 77, 4, 3, want)
	d, err := r.Drain(77)
	if err != nil {
		t.Fatal(err)
	}
	if d.Summary != want || d.First != 77 || !d.Complete || len(d.Outcomes) != 4 || len(d.Calls) != 3 || d.Outcomes[3].Addr != 103 || d.Calls[2].Addr != 2 {
		t.Errorf("drained %+v", d)
	}
}

// The table of docs/PLUGINS.md, byte by byte.
func TestHeaderLiesWhereTheDocumentSays(t *testing.T) {
	var h header
	for name, c := range map[string]struct{ got, want uintptr }{
		"magic": {unsafe.Offsetof(h.magic), 0}, "version": {unsafe.Offsetof(h.version), 8}, "header bytes": {unsafe.Offsetof(h.headerBytes), 12},
		"total": {unsafe.Offsetof(h.totalBytes), 16}, "outcome offset": {unsafe.Offsetof(h.outcomeOffset), 24},
		"outcome capacity": {unsafe.Offsetof(h.outcomeCapacity), 32}, "call offset": {unsafe.Offsetof(h.callOffset), 40},
		"call capacity": {unsafe.Offsetof(h.callCapacity), 48}, "outcome bytes": {unsafe.Offsetof(h.outcomeBytes), 56}, "call bytes": {unsafe.Offsetof(h.callBytes), 60},
		"progress": {unsafe.Offsetof(h.progress), 64}, "calls": {unsafe.Offsetof(h.calls), 72},
		"state": {unsafe.Offsetof(h.state), 128}, "reason": {unsafe.Offsetof(h.reason), 132}, "flags": {unsafe.Offsetof(h.flags), 136},
		"sequence": {unsafe.Offsetof(h.sequence), 144}, "first": {unsafe.Offsetof(h.first), 152}, "waiting": {unsafe.Offsetof(h.waiting), 160},
		"loop ticks": {unsafe.Offsetof(h.loopTicks), 192}, "device wall": {unsafe.Offsetof(h.deviceWallTicks), 200}, "device ns": {unsafe.Offsetof(h.deviceNs), 208},
		"device calls": {unsafe.Offsetof(h.deviceCalls), 216}, "policy saturated": {unsafe.Offsetof(h.policySaturated), 224},
		"device saturated": {unsafe.Offsetof(h.deviceSaturated), 232}, "skipped": {unsafe.Offsetof(h.skipped), 240}, "collections": {unsafe.Offsetof(h.collections), 248},
		"clock source": {unsafe.Offsetof(h.clockSource), 256}, "clock Hz": {unsafe.Offsetof(h.clockHz), 264}, "read cost": {unsafe.Offsetof(h.readCostMilliticks), 272},
		"call cost": {unsafe.Offsetof(h.callCostMilliticks), 280}, "loop cost": {unsafe.Offsetof(h.loopCostMilliticks), 288},
	} {
		if c.got != c.want {
			t.Errorf("%s lies at byte %d, documented is %d", name, c.got, c.want)
		}
	}
	g := Geometry{OutcomeCapacity: 5, CallCapacity: 3} // 160 and 144 bytes: each area takes one page
	if g.outcomeOffset() != 4096 || g.callOffset() != 8192 || g.TotalBytes() != 12288 {
		t.Errorf("areas at %d and %d of %d bytes", g.outcomeOffset(), g.callOffset(), g.TotalBytes())
	}
}

// Whatever a plugin writes into the header, the reader answers with ErrLied or with slices that lie inside the areas.
func TestReaderDoesNotBelieve(t *testing.T) {
	for name, lie := range map[string]func(h *header){
		"outcomes":    func(h *header) { h.progress = 5 },
		"overflow":    func(h *header) { h.progress = 1 << 63 },
		"calls":       func(h *header) { h.calls = 4 },
		"state":       func(h *header) { h.state = 3 },
		"reason":      func(h *header) { h.reason = 4 },
		"no reason":   func(h *header) { h.reason = 0 },
		"flags":       func(h *header) { h.flags = 4 },
		"first":       func(h *header) { h.first++ },
		"clock":       func(h *header) { h.clockHz = 0 },
		"fast clock":  func(h *header) { h.clockHz = 1 << 60 },
		"saturated":   func(h *header) { h.policySaturated = 3 },
		"skipped":     func(h *header) { h.skipped = 3 },
		"device time": func(h *header) { h.deviceWallTicks = h.loopTicks + 1 },
		"waiting":     func(h *header) { h.reason = uint32(StopEnd); h.waiting = 1 },
	} {
		w, r := small(t)
		fill(w, 0, 2, 2, Summary{Reason: StopMax})
		if _, err := r.Drain(0); err != nil {
			t.Fatalf("before the lie: %v", err)
		}
		lie(w.head)
		if _, err := r.Drain(0); !errors.Is(err, ErrLied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The geometry in the header is not even looked at by the reader.
	w, r := small(t)
	fill(w, 0, 2, 2, Summary{Reason: StopMax})
	w.head.outcomeCapacity, w.head.callOffset, w.head.magic = 1<<40, 1<<40, 0
	if d, err := r.Drain(0); err != nil || len(d.Outcomes) != 2 {
		t.Errorf("a changed geometry: %v", err)
	}
}

func FuzzReaderDoesNotBelieve(f *testing.F) {
	w, r := small(f)
	fill(w, 0, 2, 2, Summary{Reason: StopMax})
	f.Add(slices.Clone(w.memory[:HeaderBytes]))
	f.Fuzz(func(t *testing.T, page []byte) {
		copy(w.memory[:HeaderBytes], page)
		d, err := r.Drain(0)
		if err == nil && (len(d.Outcomes) > 4 || len(d.Calls) > 3) {
			t.Errorf("%d outcomes, %d calls", len(d.Outcomes), len(d.Calls))
		}
		if err != nil && !errors.Is(err, ErrLied) {
			t.Error(err)
		}
		r.Progress()
	})
}

func TestCrashLeavesTheValidPrefix(t *testing.T) {
	w, r := small(t)
	fill(w, 0, 4, 3, Summary{Reason: StopMax})
	w.Begin(4, 1, 0)
	w.Calls()[0] = trace.Call{Event: 4}
	w.Outcomes()[0] = trace.Outcome{Addr: 5}
	w.Publish(1, 1)
	first, done, running, ok := r.Progress()
	if first != 4 || done != 1 || !running || !ok {
		t.Errorf("progress %d + %d, running %v, ok %v", first, done, running, ok)
	}
	d, err := r.Drain(4)
	if err != nil || d.Complete || len(d.Outcomes) != 1 || len(d.Calls) != 1 || d.Summary != (Summary{}) {
		t.Errorf("drained %+v, %v", d, err)
	}
}

func TestSharedWindow(t *testing.T) {
	g := Geometry{OutcomeCapacity: 100, CallCapacity: 100}
	f, r, err := CreateWindow(g)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer r.Close()
	if r.address()%pageBytes != 0 {
		t.Errorf("the window lies at %#x", r.address())
	}
	w, err := MapWindow(f, g)
	if err != nil {
		t.Fatal(err)
	}
	fill(w, 3, 50, 60, Summary{Reason: StopMax})
	d, err := r.Drain(3)
	if err != nil || len(d.Outcomes) != 50 || len(d.Calls) != 60 || d.Outcomes[49].Addr != 149 {
		t.Errorf("drained %d outcomes, %d calls, %v", len(d.Outcomes), len(d.Calls), err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err == nil {
		t.Error("closed twice without an error")
	}
	// The size is sealed: a plugin cannot pull the pages from under the harness.
	if err := f.Truncate(0); err == nil {
		t.Error("the window could be shrunk")
	}
	for _, c := range []struct {
		g    Geometry
		want string
	}{
		{Geometry{99, 100}, "Open said 99 and 100"}, {Geometry{1 << 20, 100}, "need"}, {Geometry{0, 1}, "0 outcomes"}, {Geometry{1, MaxRecords + 1}, "calls, must be"},
	} {
		if _, err := MapWindow(f, c.g); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("geometry %v: %v", c.g, err)
		}
	}
	r.head.version = 2
	if _, err := MapWindow(f, g); !errors.Is(err, ErrWindow) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("another version: %v", err)
	}
	r.head.magic = 1
	if _, err := MapWindow(f, g); !errors.Is(err, ErrWindow) {
		t.Errorf("another magic: %v", err)
	}
	plain, err := os.CreateTemp(t.TempDir(), "plain")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Truncate(int64(g.TotalBytes())); err != nil {
		t.Fatal(err)
	}
	if _, err := MapWindow(plain, g); !errors.Is(err, ErrWindow) {
		t.Errorf("a plain file: %v", err)
	}
}

// A reader that polls while the writer runs never sees a counter before its records.
func TestCounterComesAfterItsRecords(t *testing.T) {
	const n = 100_000
	g := Geometry{OutcomeCapacity: n, CallCapacity: n}
	w, err := NewWindow(g)
	if err != nil {
		t.Fatal(err)
	}
	r := w.Reader()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := w.Progress()
		for i := range uint64(n) {
			w.Calls()[i] = trace.Call{Event: i, Kind: trace.CallMalloc}
			p.SetCalls(i + 1)
			w.Outcomes()[i] = trace.Outcome{Addr: i + 1}
			p.Store(i + 1)
		}
	}()
	for seen := uint64(0); seen < n; {
		_, p, _, ok := r.Progress()
		if !ok {
			t.Fatal("progress beyond the area")
		}
		for ; seen < p; seen++ {
			if w.Outcomes()[seen].Addr != seen+1 || w.Calls()[seen].Kind != trace.CallMalloc {
				t.Fatalf("counter at %d before record %d", p, seen)
			}
		}
	}
	<-done
}

func BenchmarkDrain(b *testing.B) {
	f, r, err := CreateWindow(DefaultGeometry)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	defer r.Close()
	w, err := MapWindow(f, DefaultGeometry)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	fill(w, 0, DefaultGeometry.OutcomeCapacity, DefaultGeometry.CallCapacity, Summary{Reason: StopMax})
	b.ReportAllocs()
	var sum uint64
	for b.Loop() {
		d, err := r.Drain(0)
		if err != nil {
			b.Fatal(err)
		}
		for i := range d.Outcomes {
			sum += d.Outcomes[i].Addr
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(DefaultGeometry.OutcomeCapacity), "ns/outcome")
	if sum == 0 {
		b.Fatal("nothing read")
	}
}
