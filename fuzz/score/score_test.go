package score

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/trace"
)

func target(t *testing.T, name string) *fuzz.Target {
	t.Helper()
	d, ok := zoo.Find(name)
	if !ok {
		t.Fatalf("no strategy %s", name)
	}
	tg, err := targetOf(d, false)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// TestGeneratorsRepeat: the same seed gives the same programs, all legal and within the limits; another seed gives others.
func TestGeneratorsRepeat(t *testing.T) {
	lim := target(t, "streams").Limits()
	draw := func(kind string, seed uint64) (list []plan.Op) {
		g, err := NewGenerator(kind, lim, seed)
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(4) {
			device, arena := g.Batch(n)
			if device < lim.PageBytes || device > 2*lim.DeviceMax || arena > device || arena == 0 {
				t.Errorf("%s: an arena of %d bytes on a device of %d", kind, arena, device)
			}
			for range 20 {
				p := g.Program()
				if err := trace.Validate(p); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				list = plan.Ops(list, p)
			}
		}
		return list
	}
	for _, kind := range Generators() {
		a, b, c := draw(kind, 5), draw(kind, 5), draw(kind, 6)
		if !slices.Equal(a, b) {
			t.Errorf("%s: seed 5 gave two different lists of programs", kind)
		}
		if slices.Equal(a, c) {
			t.Errorf("%s: seeds 5 and 6 gave the same programs", kind)
		}
	}
	if _, err := NewGenerator("luck", lim, 1); err == nil {
		t.Error("there is a generator named luck")
	}
}

// TestSearch: every generator finds a block that is split in the wrong place, and the shrunk program has two events at most.
func TestSearch(t *testing.T) {
	tg := target(t, "Z35")
	for _, kind := range Generators() {
		g, err := NewGenerator(kind, tg.Limits(), 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Search(context.Background(), tg, g, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Found || r.Breach.Check != fuzz.CheckPlacement {
			t.Fatalf("%s: found %v by %v in %d programs", kind, r.Found, r.Breach, r.Programs)
		}
		f, err := Shrunk(tg, &r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Events > 2 {
			t.Errorf("%s: the smallest program has %d events:\n%s", kind, f.Events, text(f))
		}
	}
}

func TestSearchEndsInTime(t *testing.T) {
	tg := target(t, "caching")
	g, err := NewGenerator(Bytes, tg.Limits(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Search(context.Background(), tg, g, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Found || r.Programs == 0 || r.CPU < 50*time.Millisecond {
		t.Errorf("a clean allocator: %+v", r)
	}
	if b := g.(*byteStrings); len(b.corpus) == 0 {
		t.Error("nothing was new to the generator of bytes")
	}
}

// TestRun takes the score of three mutants, and of one with nobody looking inside.
func TestRun(t *testing.T) {
	s, err := Run(context.Background(), Options{Time: 20 * time.Second, Seeds: 2, Only: []string{"Z1", "zoo/Z7", "Z92"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Mutants != 3 || s.FoundAll != 3 || s.FoundAny != 3 || s.EventsMax != 1 || s.EventsMedian != 1 || s.CPUSMedian <= 0 {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{"O5", "O3", "O13"} {
		if r := &s.Rows[i]; r.Found != 2 || r.Checks[0] != want || r.ProgramsMedian < 1 || r.Program == "" {
			t.Errorf("%+v", r)
		}
	}
	if _, err := Run(context.Background(), Options{Only: []string{"Z3"}}); !errors.Is(err, ErrMutant) {
		t.Errorf("Z3: %v", err)
	}
}

func TestCurves(t *testing.T) {
	var told int
	curves, err := Curves(context.Background(), Options{Time: 100 * time.Millisecond, Seeds: 1, Only: []string{"Z35", "Z98"}, Progress: func(string, int, int) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	if len(curves) != 4 || told != 8 {
		t.Fatalf("%d curves, told %d times", len(curves), told)
	}
	for _, c := range curves {
		last := c.Surviving[len(c.Surviving)-1]
		if c.Searches != 2 || last != 1-float64(c.Found)/2 || !slices.IsSortedFunc(c.Surviving, func(a, b float64) int { return cmp.Compare(b, a) }) {
			t.Errorf("%+v", c)
		}
	}
}

// TestSurviving: of four searches one finds at 1 ms, one at 30 ms and one just past the limit of 100 ms.
func TestSurviving(t *testing.T) {
	at := times(100 * time.Millisecond)
	if want := []float64{1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1}; !slices.Equal(at, want) {
		t.Fatalf("times %v, want %v", at, want)
	}
	got := surviving([]time.Duration{time.Millisecond, 30 * time.Millisecond, 101 * time.Millisecond}, 4, at)
	if want := []float64{0.75, 0.75, 0.75, 0.75, 0.75, 0.5, 0.25}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.list); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.list, got, c.want)
		}
	}
}
