package fuzz

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/pmm/script"
)

// With one size and no trims: one program of one event (alloc); two of two (a second alloc, or the free); of three, behind two
// live blocks an alloc or either free, behind none an alloc: 3 + 1 = 4; of four: 4+2+2 behind the first of these (three live, one, one: 4, 2, 2)
// and 2 behind the last: 10.
func TestExhaustiveCountsEveryProgram(t *testing.T) {
	e, err := Exhaust(context.Background(), target(t, toyDescription(toyClean)), Scope{Depth: 4, Sizes: []uint64{256}, ArenaBytes: 2 << 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{1, 2, 4, 10}; !slices.Equal(e.Programs, want) || !e.Complete || e.Finding != nil {
		t.Errorf("programs %v, want %v; complete %v, finding %v", e.Programs, want, e.Complete, e.Finding)
	}
	if s := e.Statement(); !strings.HasPrefix(s, "all 17 programs of up to 4 events: allocs of 256 and") {
		t.Errorf("statement %q", s)
	}
}

// The first breach is shown by a shortest program: the toy panics at the third live block.
func TestExhaustiveFindsAShortestProgram(t *testing.T) {
	tg := target(t, toyDescription(toyPanics))
	e, err := Exhaust(context.Background(), tg, DefaultScope(tg, 6), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Finding == nil || e.Finding.Events != 3 || e.Finding.OriginalEvents != 3 || len(e.Programs) != 3 {
		t.Errorf("%+v", e.Finding)
	}
}

func TestExhaustiveRefusesDepths(t *testing.T) {
	for _, d := range []int{0, DepthMax + 1} {
		if _, err := Exhaust(context.Background(), target(t, toyDescription(toyClean)), Scope{Depth: d}, nil); err == nil {
			t.Errorf("depth %d is not refused", d)
		}
	}
}

// Random scripts keep every invariant of the model, and do something.
func TestScriptsOfTheModel(t *testing.T) {
	names := map[string]bool{}
	for i := range uint64(60) {
		s := NewScript(plan.NewRandom(3, i))
		if b, err := JudgeScript(s); b != nil || err != nil {
			t.Fatalf("%v, %v\n%s", b, err, scriptText(s))
		}
		back, err := ReadScript(string(scriptText(s)))
		if err != nil || len(back.Ops) != len(s.Ops) {
			t.Fatalf("through text: %v", err)
		}
		for _, o := range s.Ops {
			names[o.Name] = true
		}
	}
	if len(names) != len(scriptOps) {
		t.Errorf("%d of %d operations were drawn", len(names), len(scriptOps))
	}
}

// Shrinking a script whose breach needs a split and, later, an evict ends with these two, at their smallest arguments.
func TestShrinkScript(t *testing.T) {
	judge := func(s *script.Script) (*Breach, error) {
		split := false
		for i, o := range s.Ops {
			split = split || o.Name == "split"
			if o.Name == "evict" && split {
				return &Breach{Check: CheckEviction, Code: "invariant", Event: i}, nil
			}
		}
		return nil, nil
	}
	for i := uint64(0); ; i++ {
		s := NewScript(plan.NewRandom(5, i))
		b, _ := judge(s)
		if b == nil || len(s.Ops) < 20 {
			continue
		}
		small, _, runs := ShrinkScript(s, b, judge)
		if len(small.Ops) != 2 || small.Ops[0].String() != "split 0 0" || small.Ops[1].String() != "evict" {
			t.Errorf("%d operations shrunk to %q in %d runs", len(s.Ops), small.Ops, runs)
		}
		return
	}
}
