package results

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results/bounds"
)

// entry is one strategy of a hand-made run: what it reached at the tight capacity, and the latencies of its trials.
type entry struct {
	label   string
	success float64
	frag    float64
	ns      []float64
}

// handMade builds a run of one recording and its trials; the first entry is also the A/A control, whose second measurement is off by
// control ns.
func handMade(traces int, control float64, entries ...entry) (*Run, []Trial) {
	run := &Run{ID: "r", Device: DeviceFacts{Name: "d", CapacityBytes: 1 << 40}}
	var trials []Trial
	add := func(c Case, e *entry, shift float64) {
		c.ID = fmt.Sprintf("c%03d", len(run.Cases))
		c.Label, c.Strategy = e.label, e.label
		run.Cases = append(run.Cases, c)
		for i, ns := range e.ns {
			u := Unit{Case: c.ID, Number: i + 1}
			run.Order = append(run.Order, u)
			x := &ledger.Exact{}
			x.Allocs.SuccessRate, x.Fragmentation.ExternalWeighted = e.success, e.frag
			trials = append(trials, Trial{ID: u.TrialID(), Case: c.ID, Status: TrialOK, Exact: x, ExactHash: e.label,
				Batch: &Batch{Events: 1000, PolicyMeanNs: ns + shift}})
		}
	}
	for ti := range traces {
		run.Traces = append(run.Traces, TraceFacts{Name: fmt.Sprintf("t%d", ti), Path: "p", LowerBoundBytes: 1 << 30})
		for i := range entries {
			e := &entries[i]
			add(Case{Trace: ti, Scope: ScopeDevice, CapacityBytes: 1 << 40}, e, 0)
			add(Case{Trace: ti, Scope: ScopeTight, CapacityBytes: 1 << 31}, e, 0)
			if i == 0 {
				add(Case{Trace: ti, Scope: ScopeDevice, CapacityBytes: 1 << 40, Control: true}, e, control)
			}
		}
	}
	return run, trials
}

func five(base float64) []float64 { return []float64{base, base + 1, base + 2, base + 3, base + 4} }

func rowsText(t *TraceRanking) string {
	var b strings.Builder
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "%d%s %s success=%.1f frag=%.1f latency=%.1f pareto=%v\n", r.Place, map[bool]string{true: "="}[r.Tied], r.Label,
			r.Success.Rank, r.Fragmentation.Rank, r.Latency.Rank, r.Pareto)
	}
	return b.String()
}

func TestRankingBySuccessThenMeanRank(t *testing.T) {
	run, trials := handMade(1, 0,
		entry{"slow-perfect", 1, 0.10, five(1000)},
		entry{"fast-perfect", 1, 0.30, five(100)},
		entry{"tight-loser", 0.9, 0.00, five(10)},
		entry{"like-fast", 1, 0.30, five(102)}) // interval 102…106 overlaps 100…104: a tie in latency
	r := Rank(run, trials, nil)
	// Ranks by hand. Success: three at 1 share (1+2+3)/3 = 2, the loser has 4. Fragmentation ascending: tight-loser 1, slow 2, the two
	// equal ones (3+4)/2 = 3.5. Latency: tight-loser 1, the tied pair (2+3)/2 = 2.5, slow 4. Mean ranks: slow 8/3, fast and
	// like-fast (2+3.5+2.5)/3 = 8/3 as well: all three tie for place 1. The loser's mean rank is lower, but success goes first.
	want := `1= slow-perfect success=2.0 frag=2.0 latency=4.0 pareto=true
1= fast-perfect success=2.0 frag=3.5 latency=2.5 pareto=true
1= like-fast success=2.0 frag=3.5 latency=2.5 pareto=true
4 tight-loser success=4.0 frag=1.0 latency=1.0 pareto=true
`
	if got := rowsText(&r.Traces[0]); got != want {
		t.Errorf("ranking:\n%swant:\n%s", got, want)
	}
	if !strings.HasPrefix(r.Verdict, "Best on t0, a tie: slow-perfect, fast-perfect, like-fast") {
		t.Errorf("verdict %q", r.Verdict)
	}
	if l := r.Traces[0].Rows[0].Latency; l.Value != 1002 || l.Low != 1000 || l.High != 1004 || l.Coverage != 0.9375 {
		t.Errorf("interval of five trials: %+v", l)
	}
}

func TestNoiseFloorMakesTies(t *testing.T) {
	// The control differs by 50 ns of about 100, so 120 ns is not told from 100, though the intervals are apart; 400 ns is.
	run, trials := handMade(1, 50, entry{"a", 1, 0, five(100)}, entry{"b", 1, 0, five(120)}, entry{"c", 1, 0, five(400)})
	r := Rank(run, trials, nil)
	want := "1= a success=2.0 frag=2.0 latency=1.5 pareto=true\n1= b success=2.0 frag=2.0 latency=1.5 pareto=true\n3 c success=2.0 frag=2.0 latency=3.0 pareto=false\n"
	if got := rowsText(&r.Traces[0]); got != want {
		t.Errorf("ranking:\n%swant:\n%s", got, want)
	}
	if f := r.Traces[0].NoiseFloorRelative; f == nil || *f < 0.4 || len(r.Traces[0].Warnings) == 0 {
		t.Errorf("noise floor %v, warnings %v", f, r.Traces[0].Warnings)
	}
}

func TestDisqualifiedIsNotRanked(t *testing.T) {
	run, trials := handMade(1, 0, entry{"good", 1, 0, five(10)}, entry{"liar", 1, 0, five(1)}, entry{"dice", 1, 0, five(1)})
	for i := range trials {
		c := run.Cases[0]
		for _, k := range run.Cases {
			if k.ID == trials[i].Case {
				c = k
			}
		}
		switch {
		case c.Label == "liar" && c.Scope == ScopeTight:
			trials[i].Exact.ViolationsTotal = 3
			trials[i].Exact.Violations = []ledger.Violation{{Event: 7, Handle: 9, Check: ledger.CheckOverlap, Code: ledger.CodeOverlap, Expected: "e", Observed: "o"}}
		case c.Label == "dice" && c.Scope == ScopeDevice && strings.HasSuffix(trials[i].ID, "-t3"):
			trials[i].ExactHash = "other"
		}
	}
	r := Rank(run, trials, nil)
	if got := rowsText(&r.Traces[0]); got != "1 good success=1.0 frag=1.0 latency=1.0 pareto=true\n" {
		t.Errorf("ranked:\n%s", got)
	}
	if len(r.Findings) != 2 || !strings.Contains(r.Findings[0].Finding, "event 7 (h9): O1 overlap: o; expected e") || !strings.Contains(r.Findings[1].Finding, "O10 nondeterminism") {
		t.Errorf("findings %+v", r.Findings)
	}
	if !strings.HasPrefix(r.Findings[0].Next, "gpubench replay p --strategy liar") {
		t.Errorf("next command %q", r.Findings[0].Next)
	}
}

func TestUncaughtCanaryAndFaultsHaveNoPlace(t *testing.T) {
	run, trials := handMade(1, 0, entry{"good", 1, 0, five(10)}, entry{"canary", 1, 0, five(1)}, entry{"crashed", 1, 0, five(1)})
	for i := range run.Cases {
		run.Cases[i].Canary = run.Cases[i].Label == "canary"
		if run.Cases[i].Label == "crashed" {
			for j := range trials {
				if trials[j].Case == run.Cases[i].ID {
					trials[j].Status, trials[j].Exact, trials[j].Fault = TrialFault, nil, &Fault{Class: "crash", Text: "crashed at event 5"}
				}
			}
		}
	}
	r := Rank(run, trials, nil)
	if len(r.Traces[0].Rows) != 1 || len(r.Traces[0].Unmeasured) != 2 {
		t.Fatalf("rows %d, unmeasured %+v", len(r.Traces[0].Rows), r.Traces[0].Unmeasured)
	}
	if u := r.Traces[0].Unmeasured; u[0].Class != ClassBlind || u[1].Class != "crash" {
		t.Errorf("unmeasured %+v", u)
	}
	var text bytes.Buffer
	if err := RenderText(&text, r, false); err != nil || !strings.Contains(text.String(), "crash: crashed at event 5") || !strings.Contains(text.String(), "was not caught on this recording") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestAcrossRecordings(t *testing.T) {
	run, trials := handMade(6, 0, entry{"a", 1, 0.1, five(100)}, entry{"b", 1, 0.2, five(200)}, entry{"c", 0.5, 0.3, five(300)})
	r := Rank(run, trials, nil)
	// The same order on all six: average ranks 1, 2, 3. Nemenyi for k=3, n=6: 2.343·√(3·4/36) = 1.353, so a and b, b and c are joined.
	var got []string
	for _, x := range r.Across.Rows {
		got = append(got, fmt.Sprintf("%s %.0f wins=%d %s", x.Label, x.AverageRank, x.Wins, x.Group))
	}
	if want := "a 1 wins=6 a|b 2 wins=0 ab|c 3 wins=0 b"; strings.Join(got, "|") != want {
		t.Errorf("across: %v, want %s", got, want)
	}
	if cd := r.Across.CriticalDifference; cd < 1.35 || cd > 1.36 {
		t.Errorf("critical difference %v", cd)
	}
	if !strings.HasPrefix(r.Verdict, "Best average rank over 6 recordings: a (1.00)") {
		t.Errorf("verdict %q", r.Verdict)
	}
}

func TestWeightsGiveAScoreAndItsSensitivity(t *testing.T) {
	run, trials := handMade(1, 0, entry{"fits", 1, 0.5, five(1000)}, entry{"fast", 0.9, 0.5, five(10)})
	r := Rank(run, trials, &Weights{Success: 3, Latency: 1})
	// Two rows, rank scores 1 and 0: fits = (3·1 + 1·0)/4, fast = (3·0 + 1·1)/4. Fragmentation ties (rank 1.5: 0.5 each) weigh 0.
	if a, b := *r.Traces[0].Rows[0].Score, *r.Traces[0].Rows[1].Score; a != 0.75 || b != 0.25 {
		t.Errorf("scores %v, %v", a, b)
	}
	if w := r.Weights.FirstStaysFirst; w <= 0.4 || w >= 0.6 {
		t.Errorf("first stays first in %v of the weights; symmetric entries give about half", w)
	}
	if err := (&Weights{}).Validate(); err == nil {
		t.Error("weights of nothing were accepted")
	}
}

// TestSharedWarningsAreSaidOnce: a warning that several strategies have in common is one line that names them.
func TestSharedWarningsAreSaidOnce(t *testing.T) {
	run, trials := handMade(1, 0, entry{"alpha", 1, 0.1, five(100)}, entry{"beta", 0.875, 0.2, five(200)})
	r := Rank(run, trials, nil)
	rows := r.Traces[0].Rows
	rows[0].Warnings, rows[1].Warnings = []string{"noisy", "slow"}, []string{"noisy"}
	got := strings.Join(rowWarnings(rows), "\n")
	if want := rows[0].Label + ", " + rows[1].Label + ": noisy\n" + rows[0].Label + ": slow"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRenderedFormsHoldEveryStrategy(t *testing.T) {
	run, trials := handMade(2, 0, entry{"alpha", 1, 0.1, five(100)}, entry{"beta", 0.875, 0.2, five(200)})
	r := Rank(run, trials, nil)
	for name, render := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return RenderText(b, r, false) },
		"markdown": func(b *bytes.Buffer) error { return RenderMarkdown(b, r) },
		"csv":      func(b *bytes.Buffer) error { return RenderCSV(b, r) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"alpha", "beta", "t0", "t1"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, b.String())
			}
		}
	}
	if percent(0.99999) != "99.99 %" || percent(1) != "100 %" {
		t.Error("a rate below 1 must never read 100 %")
	}
}

func TestTitleTellsWhatAPackingNeeds(t *testing.T) {
	for _, c := range []struct {
		b    *bounds.Report
		want string
	}{
		{nil, ""},
		{&bounds.Report{GreedyBytes: 3 << 20}, ", 3 MiB packed greedily with the future known"},
		{&bounds.Report{GreedyBytes: 3 << 20, PackedBytes: 2 << 20}, ", 2 MiB in the best packing found, 3 MiB greedily"},
		{&bounds.Report{GreedyBytes: 3 << 20, PackedBytes: 2 << 20, PackedOptimal: true}, ", 2 MiB without moving blocks (optimal packing)"},
	} {
		if got := packingText(&TraceRanking{Bounds: c.b}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.b, got, c.want)
		}
	}
}
