package ledger

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

// liar is a first-fit allocator over a few segments that sometimes answers wrongly.
type liar struct {
	t      *rapid.T
	s      *script
	honest bool
	segs   []refSegment
	blocks []refBlock
	slots  []uint32
	next   uint32
	now    int64
}

const unit = 256

func (a *liar) odds(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(a.t, what) < percent
}

func (a *liar) lie(percent int, what string) bool { return !a.honest && a.odds(percent, what) }

// fit returns the lowest free place of size bytes.
func (a *liar) fit(size uint64) (uint64, bool) {
	for _, g := range a.segs {
		for at := g.addr; at+size <= g.addr+g.size; at += unit {
			free := true
			for _, b := range a.blocks {
				free = free && (b.addr >= at+size || at >= b.addr+b.granted)
			}
			if free {
				return at, true
			}
		}
	}
	return 0, false
}

func (a *liar) emit(ev trace.Event, o trace.Outcome, calls ...trace.Call) {
	n := uint64(len(a.s.events))
	for _, c := range calls {
		c.Event = n
		a.s.calls = append(a.s.calls, c)
	}
	o.Calls = uint16(len(calls))
	a.s.events, a.s.outcomes = append(a.s.events, ev), append(a.s.outcomes, o)
	a.now += int64(rapid.IntRange(0, 3).Draw(a.t, "gap"))
	a.s.times = append(a.s.times, a.now)
}

func (a *liar) alloc() {
	size := uint64(rapid.IntRange(1, 12*unit).Draw(a.t, "size"))
	granted := (size + unit - 1) / unit * unit
	ev := trace.Event{Kind: trace.KindAlloc, Handle: trace.Handle(len(a.s.events) + 1), Size: size, Slot: a.next}
	if k := len(a.slots); k > 0 {
		ev.Slot, a.slots = a.slots[k-1], a.slots[:k-1]
	} else {
		a.next++
	}
	var calls []trace.Call
	addr, ok := a.fit(granted)
	if !ok && len(a.segs) < 6 && a.odds(70, "grow") {
		at := uint64(rapid.IntRange(0, 40).Draw(a.t, "segment")) * 16 * unit
		seg := refSegment{at, uint64(rapid.IntRange(1, 20).Draw(a.t, "units")) * unit}
		clash := false
		for _, g := range a.segs {
			clash = clash || at < g.addr+g.size && g.addr < at+seg.size
		}
		if !clash || a.lie(20, "clash") {
			calls = append(calls, trace.Call{Kind: trace.CallMalloc, Addr: seg.addr, Size: seg.size})
			if !clash {
				a.segs = append(a.segs, seg)
			}
		}
		addr, ok = a.fit(granted)
	}
	if a.lie(8, "wrong place") {
		addr, ok = uint64(rapid.IntRange(0, 700).Draw(a.t, "place"))*unit/2, true
	}
	if a.lie(3, "short") {
		granted = size / 2
		if granted == 0 {
			granted = size
		}
	}
	if !ok {
		a.slots = append(a.slots, ev.Slot)
		a.emit(ev, trace.Outcome{Status: trace.StatusFailed}, calls...)
		return
	}
	st := trace.StatusOK
	if a.odds(10, "recovered") {
		st = trace.StatusRecovered
	}
	a.blocks = append(a.blocks, refBlock{slot: ev.Slot, handle: ev.Handle, addr: addr, granted: granted})
	a.emit(ev, trace.Outcome{Status: st, Addr: addr, Granted: granted}, calls...)
}

func (a *liar) free() {
	k := rapid.IntRange(0, len(a.blocks)-1).Draw(a.t, "victim")
	b := a.blocks[k]
	a.blocks = append(a.blocks[:k], a.blocks[k+1:]...)
	ev := trace.Event{Kind: trace.KindFree, Slot: b.slot, Handle: b.handle}
	var calls []trace.Call
	for i, g := range a.segs {
		used := false
		for _, x := range a.blocks {
			used = used || x.addr < g.addr+g.size && g.addr < x.addr+x.granted
		}
		if !used && a.odds(30, "give back") || used && a.lie(2, "give back in use") {
			calls = append(calls, trace.Call{Kind: trace.CallFree, Addr: g.addr, Size: g.size})
			a.segs = append(a.segs[:i:i], a.segs[i+1:]...)
			break
		}
	}
	st := trace.StatusOK
	if a.lie(3, "denied") {
		st = trace.StatusInvalid
	}
	a.emit(ev, trace.Outcome{Status: st}, calls...)
	if a.lie(4, "twice") {
		a.emit(ev, trace.Outcome{Status: trace.StatusOK})
	}
	a.slots = append(a.slots, b.slot)
}

func drawScript(t *rapid.T, honest bool) *script {
	a := &liar{t: t, s: &script{}, honest: honest}
	a.segs = []refSegment{{1 << 20, 32 * unit}}
	a.s.calls = []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMalloc, Addr: 1 << 20, Size: 32 * unit}}
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		if len(a.blocks) > 0 && a.odds(45, "free") {
			a.free()
		} else {
			a.alloc()
		}
	}
	if rapid.Bool().Draw(t, "untimed") {
		a.s.times = nil
	}
	return a.s
}

// feed gives a script to a ledger in windows of the given width.
func feed(t interface{ Fatal(...any) }, l *Ledger, s *script, window int) {
	next := 0
	for from := 0; from < len(s.events); from += window {
		to := min(from+window, len(s.events))
		start := next
		for next < len(s.calls) && (s.calls[next].Event < uint64(to) || from == 0 && s.calls[next].Event == trace.EventOpen) {
			next++
		}
		var times []int64
		if s.times != nil {
			times = s.times[from:to]
		}
		if err := l.Feed(uint64(from), s.events[from:to], times, s.outcomes[from:to], s.calls[start:next]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEqualsReference compares every exact metric and every violation with the naive ledger, on programs of an allocator
// that lies and of one that does not.
func TestEqualsReference(t *testing.T) {
	reused := New(Config{})
	rapid.Check(t, func(t *rapid.T) {
		honest := rapid.Bool().Draw(t, "honest")
		s := drawScript(t, honest)
		cfg := Config{Hostages: true, Timing: rapid.Bool().Draw(t, "timing"), DevicePageBytes: rapid.SampledFrom([]uint64{0, 1024}).Draw(t, "page"),
			DeviceTotalBytes: rapid.SampledFrom([]uint64{0, 64 * unit, 1 << 30}).Draw(t, "total"),
			AlignmentBytes:   rapid.SampledFrom([]uint64{0, unit}).Draw(t, "align")}
		reused.Reset(cfg)
		feed(t, reused, s, rapid.IntRange(1, 70).Draw(t, "window"))
		got := reused.Finish().Exact
		ref := newReference(cfg)
		ref.feed(s)
		want := ref.report()
		if honest && cfg.DeviceTotalBytes == 0 && got.ViolationsTotal != 0 {
			t.Fatalf("an honest allocator was accused: %v", got.Violations)
		}
		for i := range got.Violations { // texts and maps are tested elsewhere
			v := &got.Violations[i]
			v.Expected, v.Observed, v.Map = "", "", ""
		}
		ignore := cmpopts.IgnoreFields(Exact{}, "Counts", "DeviceLatency", "Warnings")
		byKind := cmpopts.IgnoreFields(DeviceUse{}, "Calls", "CallsPerThousandEvents", "ByKind")
		if d := cmp.Diff(want, got, ignore, byKind, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateEmpty()); d != "" {
			text, _ := json.Marshal(s.events)
			t.Fatalf("reference (−) and ledger (+) differ:\n%s\n%s", d, text)
		}
	})
}

// TestWindowsDoNotMatter: the exact report is byte-identical however the trace is cut, and with a reused ledger.
func TestWindowsDoNotMatter(t *testing.T) {
	s := powerLaw(20_000, 500, 3)
	cfg := Config{Hostages: true, Series: true, PictureRects: 100, Timing: true, ModelledTime: true}
	var want []byte
	l := New(cfg)
	for _, window := range []int{20_000, 1, 777, 4096} {
		l.Reset(cfg)
		feed(t, l, s, window)
		got, err := json.Marshal(l.Finish())
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		} else if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Fatalf("window %d: %s", window, d)
		}
	}
}

// TestBooksTile walks the books after a long run: items and gaps of every region cover it exactly, and the bins hold the
// largest gap.
func TestBooksTile(t *testing.T) {
	s := powerLaw(200_000, 20_000, 5)
	l := New(Config{})
	feed(t, l, s, 10_000)
	sp := &l.dev
	var largest, total, blocks uint64
	for c := sp.idx.next(noCursor); c.dir >= 0; {
		id := sp.idx.id(c)
		it := &sp.items[id]
		if f := sp.idx.find(it.addr, id); f != c {
			t.Fatalf("item %d found at %v, is at %v", id, f, c)
		}
		largest, total = max(largest, it.gap), total+it.gap
		if it.size > 0 {
			blocks++
		}
		next := sp.idx.next(c)
		if next.dir >= 0 {
			if after := sp.items[sp.idx.id(next)]; it.end()+it.gap != after.addr {
				t.Fatalf("gap of item %d ends at 0x%x, the next item starts at 0x%x", id, it.end()+it.gap, after.addr)
			}
		}
		c = next
	}
	if blocks != l.liveBlocks || total != sp.gaps.total || largest != sp.largest() {
		t.Errorf("walked %d blocks, %d free, largest %d; the books say %d, %d, %d", blocks, total, largest, l.liveBlocks, sp.gaps.total, sp.largest())
	}
	if total+l.grantedBytes != sp.held {
		t.Errorf("free %d + granted %d ≠ held %d", total, l.grantedBytes, sp.held)
	}
}
