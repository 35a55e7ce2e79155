package ledger

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

const (
	shadowUnits   = 32 // bytes of memory, each watched on its own
	shadowStreams = 4
)

// plainShadow is check O7 told plainly: for every byte what still uses it, and full matrices of what is behind what.
type plainShadow struct {
	manual    bool
	now       uint64
	completed [shadowStreams]uint64
	behind    [shadowStreams][shadowStreams]uint64
	uses      [shadowUnits]*plainUses
	blocks    map[trace.Handle]*plainBlock
}

type plainUses struct {
	own, freer moment
	uses       []moment
}

type plainBlock struct {
	from, to int
	stream   uint16
	slot     uint32
	uses     []moment
}

func (p *plainShadow) ok(s uint16, m moment) bool {
	return s == m.stream || p.completed[m.stream] >= m.seq || p.behind[s][m.stream] >= m.seq
}

// hazard reports whether a block on stream s may not have the bytes; they are its own afterwards.
func (p *plainShadow) hazard(from, to int, s uint16) (bad bool) {
	for i := from; i < to; i++ {
		if u := p.uses[i]; u != nil {
			bad = bad || !p.ok(s, u.own) && !p.ok(s, u.freer)
			for _, m := range u.uses {
				bad = bad || !p.ok(s, m)
			}
		}
		p.uses[i] = nil
	}
	return bad
}

func (p *plainShadow) complete(s uint16) {
	p.completed[s] = p.now
	for b, seq := range p.behind[s] {
		p.completed[b] = max(p.completed[b], seq)
	}
}

func (p *plainShadow) wait(s, on uint16) {
	for b, seq := range p.behind[on] {
		if uint16(b) != s {
			p.behind[s][b] = max(p.behind[s][b], seq)
		}
	}
	p.behind[s][on] = p.now
}

// step does one event and reports whether it is a hazard.
func (p *plainShadow) step(ev *trace.Event, o *trace.Outcome) bool {
	p.now++
	switch b := p.blocks[ev.Handle]; ev.Kind {
	case trace.KindAlloc:
		nb := &plainBlock{from: int(o.Addr), to: int(o.Addr + o.Granted), stream: ev.Stream, slot: ev.Slot}
		p.blocks[ev.Handle] = nb
		return p.hazard(nb.from, nb.to, ev.Stream)
	case trace.KindFree:
		if p.manual {
			for i := b.from; i < b.to; i++ {
				p.uses[i] = &plainUses{moment{p.now, b.stream}, moment{p.now, ev.Stream}, b.uses}
			}
		}
		delete(p.blocks, ev.Handle)
	case trace.KindUse:
		if p.manual && ev.Stream != b.stream {
			b.uses = append(b.uses, moment{p.now, ev.Stream})
		}
	case trace.KindWait:
		if p.manual {
			p.wait(ev.Stream, uint16(ev.Aux))
		}
	case trace.KindComplete:
		p.complete(ev.Stream)
	case trace.KindSync, trace.KindEvents:
		if ev.Kind == trace.KindSync || ev.Size == 0 {
			for s := range p.completed {
				p.completed[s] = p.now
			}
		}
		if ev.Kind == trace.KindEvents {
			p.manual = ev.Size != 0
		}
	}
	return false
}

// drawStreamEvent draws one event that is legal now.
func (p *plainShadow) draw(t *rapid.T, next trace.Handle) (ev trace.Event, o trace.Outcome) {
	stream := rapid.Uint16Range(0, shadowStreams-1)
	ev.Stream = stream.Draw(t, "stream")
	var live []trace.Handle
	for h := trace.Handle(1); h < next; h++ {
		if p.blocks[h] != nil {
			live = append(live, h)
		}
	}
	what := rapid.IntRange(0, 19).Draw(t, "what")
	switch {
	case what < 8:
		from := rapid.IntRange(0, shadowUnits-1).Draw(t, "from")
		to := from
		for limit := from + rapid.IntRange(1, 12).Draw(t, "size"); to < min(limit, shadowUnits); to++ {
			taken := false
			for _, h := range live {
				taken = taken || p.blocks[h].from <= to && to < p.blocks[h].to
			}
			if taken {
				break
			}
		}
		if to > from {
			ev.Kind, ev.Handle, ev.Slot, ev.Size = trace.KindAlloc, next, uint32(next), uint64(to-from)
			o.Addr, o.Granted = uint64(from), uint64(to-from)
			return ev, o
		}
	case what < 16 && len(live) > 0:
		ev.Handle = rapid.SampledFrom(live).Draw(t, "handle")
		ev.Slot, ev.Kind = uint32(ev.Handle), trace.KindUse
		if what >= 11 {
			ev.Kind, ev.Flags = trace.KindFree, trace.FlagStream
		}
		return ev, o
	case what == 16:
		ev.Kind = trace.KindComplete
		return ev, o
	case what == 17:
		ev.Kind, ev.Aux = trace.KindWait, uint32(stream.Draw(t, "on"))
		return ev, o
	case what == 18 && rapid.IntRange(0, 3).Draw(t, "rare") == 0:
		ev.Kind, ev.Flags = trace.KindSync, trace.FlagAll
		return ev, o
	case what == 19:
		ev.Kind, ev.Size = trace.KindEvents, uint64(min(rapid.IntRange(0, 5).Draw(t, "manual"), 1))
		return ev, o
	}
	ev.Kind = trace.KindMark
	return ev, o
}

// TestStreamsEqualPlainShadow compares check O7 with the byte-wise one on random programs.
func TestStreamsEqualPlainShadow(t *testing.T) {
	hazards := 0
	rapid.Check(t, func(t *rapid.T) {
		p := &plainShadow{blocks: map[trace.Handle]*plainBlock{}}
		l := New(Config{})
		open := []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMalloc, Size: shadowUnits}}
		ev, o := trace.Event{Kind: trace.KindEvents, Size: 1}, trace.Outcome{}
		next := trace.Handle(1)
		for n := range uint64(rapid.IntRange(10, 120).Draw(t, "events")) {
			if n > 0 {
				ev, o = p.draw(t, next)
			}
			if ev.Kind == trace.KindAlloc {
				next++
			}
			before := l.violationsTotal
			want := p.step(&ev, &o)
			if err := l.Feed(n, []trace.Event{ev}, nil, []trace.Outcome{o}, open); err != nil {
				t.Fatal(err)
			}
			open = nil
			if got := l.violationsTotal != before; got != want {
				t.Fatalf("event %d %+v at %d+%d: hazard %v, want %v: %v", n, ev, o.Addr, o.Granted, got, want, l.violations)
			}
			if want {
				hazards++
			}
		}
	})
	if hazards == 0 {
		t.Error("no program had a hazard: the test tests nothing")
	}
}

// TestMemoryIsBounded: four times the events with the same number of live blocks take the same books.
func TestMemoryIsBounded(t *testing.T) {
	size := func(events int) [4]int {
		s := powerLaw(events, 2_000, 11)
		l := New(Config{Series: true, Timing: true, PictureRects: 500})
		feed(t, l, s, 4096)
		return [4]int{cap(l.blocks), cap(l.dev.items), cap(l.dev.idx.leaves), len(l.series.points) / MaxSeriesPoints}
	}
	short, long := size(100_000), size(400_000)
	for i := range short {
		if long[i] > short[i]*3/2 {
			t.Errorf("books of 100,000 events %v, of 400,000 %v", short, long)
		}
	}
}
