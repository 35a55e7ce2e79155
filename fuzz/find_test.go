package fuzz

import (
	"context"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// TestEveryBugOfTheToyIsFoundAndShrunk plants one bug at a time. The lengths are those of the shortest programs, worked out by hand, or
// one or two above where shrinking may end in another minimum.
func TestEveryBugOfTheToyIsFoundAndShrunk(t *testing.T) {
	for _, c := range []struct {
		name   string
		bug    toyBug
		checks []string // any of them
		events int      // of the smallest program, at most
	}{
		{"merge-too-far", toyMergeTooFar, []string{CheckOverlap, CheckConservation, CheckCoalescing}, 7},
		{"size-wraps", toySizeWraps, []string{CheckPlacement, CheckOverlap}, 1}, // one alloc near 2^64
		{"misaligned", toyMisaligned, []string{CheckPlacement}, 2},              // a small block, then one with an alignment
		{"no-merge", toyNoMerge, []string{CheckCoalescing}, 2},                  // one block: its free lies beside the rest
		{"last-piece", toyLastPiece, []string{CheckSpurious}, 1},                // an alloc of the whole arena
		{"double-free", toyDoubleFree, []string{CheckConservation}, 3},          // alloc, free, free!
		{"panics", toyPanics, []string{CheckCrash}, 3},                          // three allocs
		{"endless", toyEndless, []string{CheckHang}, 8},                         // allocs that do not fit, until the device has no more
		{"leaks", toyLeaks, []string{CheckReclaim}, 3},                          // a hole: two allocs, a free
		{"forgets-reset", toyForgetsReset, []string{CheckMetamorphic, CheckCoalescing}, 2},
		{"wastes", toyWastes, []string{CheckCost}, 1},
		{"phantom", toyPhantom, []string{CheckConservation, CheckSpurious}, 2},
		{"grows-meta", toyGrowsMeta, []string{CheckMetadata}, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tg := target(t, toyDescription(c.bug))
			r, err := Run(context.Background(), tg, Options{Seed: 1, Programs: 60_000, UntilFinding: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) == 0 {
				t.Fatalf("not found in %d programs", r.Programs)
			}
			f := r.Findings[0]
			ok := false
			for _, check := range c.checks {
				ok = ok || f.Breach.Check == check
			}
			if !ok || f.Events > c.events || f.Reliability != "5/5" {
				var events []string
				for i := range f.Minimal.Events {
					events = append(events, string(f.Minimal.AppendEvent(nil, uint64(i))))
				}
				t.Errorf("%v with %d events in %s runs, want one of %v with at most %d\n%q", f.Breach.String(), f.Events, f.Reliability, c.checks, c.events, events)
			}
			// The smallest program shows it from its text alone.
			target, cfg, err := ConfigOf(withConfig(f.Minimal, f.Target, &f.Config, f.Title))
			if err != nil || target != "toy" {
				t.Fatal(target, err)
			}
			if b, err := Replay(tg, cfg, f.Minimal); err != nil || !f.Breach.Same(b) {
				t.Errorf("replay: %v, %v", b, err)
			}
		})
	}
}

func TestCleanToyIsLeftInPeace(t *testing.T) {
	r, err := Run(context.Background(), target(t, toyDescription(toyClean)), Options{Seed: 2, Programs: 10_000, Canary: builtin(t, "canary-overlap")})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("%s: %v", f.Title, f.Breach.String())
	}
	if r.Unreproduced > 0 || r.Canary != canaryFound {
		t.Errorf("%d breaches that did not show again, canary %s", r.Unreproduced, r.Canary)
	}
	if r.Matrix[trace.KindAlloc][trace.StatusOK] == 0 || r.Matrix[trace.KindAlloc][trace.StatusFailed] == 0 {
		t.Error("allocs never succeeded, or never failed")
	}
}

// A campaign whose canary is not found says that it is blind.
func TestBlindCampaignSaysSo(t *testing.T) {
	r, err := Run(context.Background(), target(t, toyDescription(toyClean)), Options{Seed: 1, Programs: 1, Canary: target(t, toyDescription(toyClean))})
	if err != nil || !r.Blind() {
		t.Errorf("a canary without a bug: %v, %v", r.Canary, err)
	}
}
