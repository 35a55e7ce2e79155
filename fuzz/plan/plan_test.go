package plan

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// everything is a target that can do everything.
func everything() Limits {
	l := Limits{Streams: StreamsMax, Pools: PoolsMax, LengthMax: 60, Settings: []string{"a=1", "b=2"}, Variants: 3, DeviceMin: 2 << 20,
		DeviceMax: 256 << 20, PageBytes: 2 << 20, AlignBytes: 256, AlignMax: 4096}
	for k := trace.KindAlloc; int(k) < trace.KindCount; k++ {
		l.Kinds[k] = true
	}
	return l
}

func format(t testing.TB, tr *trace.Trace) string {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Format(&b, tr); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// legal checks a program as strictly as a reader of the file would, through its text.
func legal(t testing.TB, tr *trace.Trace) {
	t.Helper()
	if err := trace.Validate(tr); err != nil {
		t.Fatalf("%v\n%s", err, format(t, tr))
	}
	back, err := trace.Parse(bytes.NewReader([]byte(format(t, tr))), "program")
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Events) != len(tr.Events) {
		t.Fatalf("%d events, %d through text", len(tr.Events), len(back.Events))
	}
	if a, b := Ops(nil, tr), Ops(nil, back); !slices.Equal(a, b) {
		t.Fatalf("ops differ through text:\n%v\n%v", a, b)
	}
}

func TestProgramsAreLegalAndOfEveryKind(t *testing.T) {
	var kinds [trace.KindCount]int
	shapes := map[Shape]int{}
	g := NewGenerator(everything())
	var a, b, scratch []Op
	for batch := range uint64(120) {
		p := Fill(batch, everything())
		shapes[p.Shape]++
		if p.ArenaBytes > p.DeviceBytes || p.ArenaBytes == 0 || p.DeviceBytes%(2<<20) != 0 {
			t.Fatalf("plan %d: arena of %d on a device of %d", batch, p.ArenaBytes, p.DeviceBytes)
		}
		g.SetPlan(p)
		src := NewRandom(7, batch)
		for i := range 8 {
			if i%4 == 0 {
				g.Swarm(src)
			}
			tr := g.Program(src)
			legal(t, tr)
			for _, ev := range tr.Events {
				kinds[ev.Kind]++
			}
			a, b = Ops(b[:0], tr), a
			m, list := g.Mutate(src, a, b, scratch)
			scratch = list
			legal(t, m)
		}
	}
	for k := trace.KindAlloc; int(k) < trace.KindCount; k++ {
		if kinds[k] == 0 && k != trace.KindTouch && k != trace.KindPrefetch {
			t.Errorf("no %v in any program", k)
		}
	}
	if len(shapes) != int(ShapeUniform) {
		t.Errorf("plans of %d shapes, want all but the uniform one: %v", len(shapes), shapes)
	}
}

func TestSameSeedSameProgram(t *testing.T) {
	run := func() string {
		g := NewGenerator(everything())
		g.SetPlan(Fill(3, everything()))
		src := NewRandom(1, 2)
		g.Swarm(src)
		return format(t, g.Program(src)) + format(t, g.Program(src))
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs of one seed differ:\n%s\n%s", a, b)
	}
}

func TestBoundarySizesAreReached(t *testing.T) {
	g := NewGenerator(everything())
	seen := map[uint64]bool{}
	huge, odd := false, false
	for batch := range uint64(600) {
		p := Fill(batch, everything())
		g.SetPlan(p)
		for _, ev := range g.Program(NewRandom(1, batch)).Events {
			if ev.Kind == trace.KindAlloc {
				seen[ev.Size] = true
				huge = huge || ev.Size > 1<<63
				odd = odd || ev.Size == p.ArenaBytes || ev.Size == p.ArenaBytes+1
			}
		}
	}
	for _, want := range []uint64{0, 255, 256, 257, 513} {
		if !seen[want] {
			t.Errorf("size %d is never drawn", want)
		}
	}
	if !huge || !odd {
		t.Errorf("sizes near 2^64: %v; sizes of the arena: %v", huge, odd)
	}
}

// The odometer draws every sequence once: of a decision of two whose second answer leads to one of three, that is 1 + 3.
func TestOdometerDrawsEverySequenceOnce(t *testing.T) {
	var got [][2]int
	for o := new(Odometer); ; {
		s := [2]int{o.Draw(2), -1}
		if s[0] == 1 {
			s[1] = o.Draw(3)
		}
		got = append(got, s)
		if !o.Next() {
			break
		}
	}
	want := [][2]int{{0, -1}, {1, 0}, {1, 1}, {1, 2}}
	if !slices.Equal(got, want) {
		t.Errorf("drew %v, want %v", got, want)
	}
}

func TestBytesEndInZeros(t *testing.T) {
	b := NewBytes([]byte{5, 1, 2})
	// One byte for a bound of 10, two (big end first: 0x0102 = 258) for one of 1000, then nothing is left.
	if x, y, z := b.Draw(10), b.Draw(1000), b.Draw(10); x != 5 || y != 258 || z != 0 || !b.Empty() {
		t.Errorf("drew %d, %d, %d, want 5, 258, 0", x, y, z)
	}
}

// What depends on an op that is left out goes with it, and nothing changes its name.
func TestWriterLeavesOutWhatIsIllegal(t *testing.T) {
	w := NewWriter(nil)
	tr := w.Write([]Op{
		{Kind: trace.KindFree, Handle: 1}, {Kind: trace.KindAlloc, Handle: 2, Size: 8}, {Kind: trace.KindAlloc, Handle: 2, Size: 9},
		{Kind: trace.KindRealloc, Handle: 5, Old: 3}, {Kind: trace.KindRestore, Text: "c1"}, {Kind: trace.KindPoolEnd, Pool: 1},
		{Kind: trace.KindFreeWrong, Handle: 2}, {Kind: trace.KindFree, Handle: 2}, {Kind: trace.KindFree, Handle: 2}, {Kind: trace.KindFreeWrong, Handle: 2},
	}, 0)
	want := "h2 = alloc 8\nfree h2\nfree! h2\n"
	if got := format(t, tr); got[len(got)-len(want):] != want || len(tr.Events) != 3 {
		t.Errorf("wrote %q, want the end %q", got, want)
	}
}

// FuzzBytes makes programs from any bytes: they are legal, and their text says the same.
func FuzzBytes(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte("many different decisions follow from these bytes, one after the other"), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		g := NewGenerator(everything())
		g.SetPlan(Fill(seed, everything()))
		src := NewBytes(data)
		g.Swarm(src)
		legal(t, g.Program(src))
	})
}

func BenchmarkProgram(b *testing.B) {
	g := NewGenerator(everything())
	p := Fill(2, everything())
	p.LengthMax = 8
	g.SetPlan(p)
	src := NewRandom(1, 1)
	b.ReportAllocs()
	events := 0
	for i := 0; b.Loop(); i++ {
		if i%8 == 0 {
			g.Swarm(src)
		}
		events += len(g.Program(src).Events)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
