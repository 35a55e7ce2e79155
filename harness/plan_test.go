package harness

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/results"
)

func smallSpec() Spec {
	return Spec{
		Seed: 1, Trials: 3, Control: true, TightFactor: 1.10, CapacityBytes: 80 << 30, Backend: "pmm",
		Recordings: []Recording{{Name: "a", LowerBound: 100 << 20}, {Name: "b", LowerBound: 100 << 30}},
		Contenders: []Contender{{Strategy: "canary-overlap", Label: "canary-overlap", Canary: true, Backends: []string{"pmm"}}, {Strategy: "tlsf", Label: "tlsf", Backends: []string{"ideal"}}},
	}
}

func TestPlanHoldsEveryCombinationOnce(t *testing.T) {
	cases, order, err := Plan(smallSpec())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range cases {
		lines = append(lines, fmt.Sprintf("%s trace=%d %s %s %dMiB control=%v %s", c.ID, c.Trace, c.Label, c.Scope, c.CapacityBytes>>20, c.Control, c.Binding))
	}
	// Trace a has a tight capacity of 1.10 × 100 MiB = 110 MiB (55 pages); trace b's 110 GiB exceed the device, so it has none.
	// The control is the first strategy that is no canary. The executable of tlsf does not serve pmm, so it needs two processes.
	want := `c000 trace=0 canary-overlap device 81920MiB control=false fused
c001 trace=0 canary-overlap tight 110MiB control=false fused
c002 trace=0 tlsf device 81920MiB control=false remote
c003 trace=0 tlsf tight 110MiB control=false remote
c004 trace=0 tlsf device 81920MiB control=true remote
c005 trace=1 canary-overlap device 81920MiB control=false fused
c006 trace=1 tlsf device 81920MiB control=false remote
c007 trace=1 tlsf device 81920MiB control=true remote`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("cases:\n%s\nwant:\n%s", got, want)
	}
	// 6 device cases × 3 trials + 2 tight cases × 2
	if len(order) != 22 {
		t.Errorf("%d trials planned, want 22", len(order))
	}
	seen := map[string]int{}
	for _, u := range order {
		seen[u.TrialID()]++
	}
	if len(seen) != len(order) {
		t.Errorf("a trial is planned twice: %v", seen)
	}
}

func TestOrderIsSeededAndInterleaved(t *testing.T) {
	_, first, _ := Plan(smallSpec())
	_, again, _ := Plan(smallSpec())
	other := smallSpec()
	other.Seed = 2
	_, different, _ := Plan(other)
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Error("the same seed gave another order")
	}
	if fmt.Sprint(first) == fmt.Sprint(different) {
		t.Error("another seed gave the same order")
	}
	for i := 1; i < len(first); i++ {
		if first[i].Number < first[i-1].Number {
			t.Fatalf("round %d comes after round %d: rounds must not overlap", first[i].Number, first[i-1].Number)
		}
	}
}

func TestMissingIsWhatResumingRuns(t *testing.T) {
	_, order, _ := Plan(smallSpec())
	done := []results.Trial{{ID: order[0].TrialID()}, {ID: order[5].TrialID()}}
	left := Missing(order, done)
	if len(left) != len(order)-2 || left[0] != order[1] || left[4] != order[6] {
		t.Errorf("missing %v", left[:6])
	}
}

func TestTightCapacity(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		lower    uint64
		factor   float64
		capacity uint64
		want     uint64
	}{
		{100 * mib, 1.10, 80 << 30, 110 * mib},
		{101 * mib, 1.10, 80 << 30, 112 * mib}, // 111.1 MiB up to whole 2 MiB pages
		{1, 1.10, 80 << 30, 2 * mib},
		{0, 1.10, 80 << 30, 0},
		{100 * mib, 0, 80 << 30, 0},
		{100 * mib, 1.10, 110 * mib, 0}, // no smaller than the device
	} {
		if got := TightCapacity(c.lower, c.factor, c.capacity); got != c.want {
			t.Errorf("TightCapacity(%d, %v, %d) = %d, want %d", c.lower, c.factor, c.capacity, got, c.want)
		}
	}
}

func TestAnEmptyPlanIsAnError(t *testing.T) {
	s := smallSpec()
	s.Recordings = nil
	if _, _, err := Plan(s); !errors.Is(err, ErrNothingToRun) {
		t.Error(err)
	}
	s = smallSpec()
	s.Contenders = nil
	if _, _, err := Plan(s); !errors.Is(err, ErrNothingToRun) {
		t.Error(err)
	}
}
