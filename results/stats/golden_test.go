package stats

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

// Permeability constants of the human chorioamnion at term and at 12 to 26 weeks (Hollander and Wolfe, 1973, table 4.1),
// the example of R's wilcox.test: W = 35, one-sided p = 0.1272, estimate 0.305.
var (
	term = []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	week = []float64{1.15, 0.88, 0.90, 0.74, 1.21}
)

func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		name   string
		xs, ys []float64
		want   UTest
	}{
		{"R wilcox.test", term, week, UTest{35, 764.0 / 3003, true}}, // 764 of C(15,5) deals are as far out
		{"SciPy mannwhitneyu", []float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}, UTest{17, 14.0 / 126, true}},
		{"ties, all 462 deals counted by hand in a loop", []float64{1, 2, 2, 3, 5}, []float64{2, 4, 4, 6, 7, 7}, UTest{5, 31.0 / 462, true}},
		{"all equal", []float64{1, 1, 1}, []float64{1, 1, 1}, UTest{4.5, 1, true}},
		{"3 against 3, apart: 2 of 20", []float64{1, 2, 3}, []float64{4, 5, 6}, UTest{0, 0.1, true}},
		{"4 against 4, apart: 2 of 70", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, UTest{0, 2.0 / 70, true}},
	} {
		got := MannWhitney(c.xs, c.ys)
		near(t, c.name+" U", got.U, c.want.U)
		near(t, c.name+" P", got.P, c.want.P)
		if got.Exact != c.want.Exact {
			t.Errorf("%s: exact %v", c.name, got.Exact)
		}
	}
	// 40 and 45 values with ties: U and the normal P with tie and continuity correction, worked out with math.erfc.
	var xs, ys []float64
	for i := range 40 {
		xs = append(xs, float64(i*37%101)/10)
	}
	for i := range 45 {
		ys = append(ys, float64(i*53%103)/10+1.5)
	}
	got := MannWhitney(xs, ys)
	near(t, "normal U", got.U, 710)
	near(t, "normal P", got.P, 0.09520613994516286)
	if got.Exact {
		t.Error("85 samples counted as exact")
	}
	if p := MannWhitney(slices.Repeat([]float64{2}, 40), slices.Repeat([]float64{2}, 40)).P; p != 1 {
		t.Errorf("80 equal values: P %v", p)
	}
	if p := MannWhitney(nil, ys).P; !math.IsNaN(p) {
		t.Errorf("an empty side: P %v", p)
	}
}

func TestShift(t *testing.T) {
	// R: wilcox.test(week, term, conf.int = TRUE): qwilcox(0.025, 10, 5) = 9, so the 9th smallest and largest differences.
	got := Shift(week, term, 0.95)
	near(t, "estimate", got.Estimate, 0.305)
	near(t, "low", got.Low, -0.15)
	near(t, "high", got.High, 0.76)
	near(t, "coverage", got.Coverage, 0.96003996003996)
	// 3 against 3 cannot give 95 %: all differences, 1 − 2/20.
	got = Shift([]float64{1, 2, 3}, []float64{11, 12, 13}, 0.95)
	if d := cmp.Diff(Interval{10, 8, 12, 0.9}, got); d != "" {
		t.Error(d)
	}
	if s := Shift(nil, term, 0.95); !math.IsNaN(s.Estimate) {
		t.Errorf("%+v", s)
	}
}

// TestShiftApproximation: at 60 samples the exact rank, at 61 the normal one: 465 + 0.5 − 1.96·√(930·62/12) = 329.6, with a
// continuous coverage. And the interval is the one of the test: 0 lies outside exactly when the test rejects.
func TestShiftApproximation(t *testing.T) {
	exact, coverage := shiftRank(30, 30, 0.95)
	normal, approx := shiftRank(30, 31, 0.95)
	if exact != 318 || normal != 329 || math.Abs(coverage-approx) > 0.002 {
		t.Errorf("k %d (%v) and %d (%v)", exact, coverage, normal, approx)
	}
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.SliceOfNDistinct(rapid.Float64Range(-5, 5), 4, 12, rapid.ID[float64])
		xs, ys := side.Draw(t, "xs"), side.Draw(t, "ys")
		s, u := Shift(xs, ys, 0.95), MannWhitney(xs, ys)
		if len(slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(xs), ys...))))) < len(xs)+len(ys) || s.Low == 0 || s.High == 0 {
			return
		}
		if outside := s.Low > 0 || s.High < 0; outside != (u.P <= 1-s.Coverage+1e-12) {
			t.Fatalf("interval %+v, P %v", s, u.P)
		}
	})
}

func TestA12(t *testing.T) {
	near(t, "all larger", A12([]float64{4, 5}, []float64{1, 2}), 1)
	near(t, "none larger", A12([]float64{1, 2}, []float64{4, 5}), 0)
	near(t, "equal", A12([]float64{1, 2}, []float64{1, 2}), 0.5)
	near(t, "35 of 50 pairs", A12(term, week), 0.7)
	near(t, "empty", A12(nil, week), math.NaN())
}

func TestQuantiles(t *testing.T) {
	xs := make([]float64, 100)
	for i := range xs {
		xs[i] = float64(100 - i)
	}
	for p, want := range map[float64]float64{0.5: 50, 0.9: 90, 0.99: 99, 0.999: 100, 0.001: 1, 1: 100} {
		near(t, "quantile", Quantile(xs, p), want)
	}
	near(t, "p = 0", Quantile(xs, 0), math.NaN())
	// Binomial sums: n=100, p=0.9: P(Bin < 84) = 0.0206, < 85 0.0399; P(Bin ≥ 96) = 0.0237, ≥ 95 0.0576.
	got := QuantileCI(xs, 0.9, 0.95)
	if got.Estimate != 90 || got.Low != 84 || got.High != 96 {
		t.Errorf("%+v", got)
	}
	near(t, "coverage", got.Coverage, 0.955690107191223)
	// Conover's median of 20: the 6th and the 15th.
	got = QuantileCI(xs[:20], 0.5, 0.95)
	if got.Low != 86 || got.High != 95 {
		t.Errorf("%+v", got)
	}
	near(t, "coverage", got.Coverage, 0.9586105346679688)
	// p99 of 20 samples: the upper end is the largest and the coverage says so: P(Bin(20, 0.99) < 20) = 1 − 0.99^20.
	got = QuantileCI(xs[:20], 0.99, 0.95)
	if got.High != 100 || got.Coverage > 1-math.Pow(0.99, 20)+1e-12 {
		t.Errorf("%+v", got)
	}
}

func TestRanks(t *testing.T) {
	if d := cmp.Diff([]float64{4, 1.5, 3, 1.5, 6, 6, 6}, Ranks([]float64{30, 10, 20, 10, 40, 40, 40})); d != "" {
		t.Error(d)
	}
	near(t, "ties", ties([]float64{30, 10, 20, 10, 40, 40, 40}), 6+24)
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.02), "holm")
	got := Holm([]float64{0.01, 0.04, 0.03, 0.02})
	for i, want := range []float64{0.04, 0.06, 0.06, 0.06} {
		near(t, "holm", got[i], want)
	}
	near(t, "at most 1", Holm([]float64{0.6, 0.7})[0], 1)
}

// TestFriedman has the example of SciPy's friedmanchisquare, and one with ties by hand.
func TestFriedman(t *testing.T) {
	before, after, later := []float64{72, 96, 88, 92, 74, 76, 82}, []float64{120, 120, 132, 120, 101, 96, 112}, []float64{76, 95, 104, 96, 84, 72, 76}
	var table [][]float64
	for i := range before {
		table = append(table, []float64{before[i], after[i], later[i]})
	}
	got, err := Friedman(table)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "statistic", got.Statistic, 10.57142857142857)
	near(t, "P", got.P, 0.005063414171757498)
	if len(got.Warnings) != 1 {
		t.Errorf("7 rows: %q", got.Warnings)
	}
	// Ties by hand: ranks (1.5 1.5 3), (1 2.5 2.5), (2 2 2): sums 4.5 6 7.5; squares 13.5+13.5+12 = 39; even 3·3·16/4 = 36;
	// 20.25 + 36 + 56.25 − 3·36 = 4.5; 2·4.5/(39 − 36) = 3.
	got, err = Friedman([][]float64{{1, 1, 2}, {0, 5, 5}, {7, 7, 7}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "tied statistic", got.Statistic, 3)
	near(t, "tied P: exp(−3/2)", got.P, math.Exp(-1.5))
	if d := cmp.Diff([]float64{1.5, 2, 2.5}, got.AverageRanks); d != "" {
		t.Error(d)
	}
	got, _ = Friedman([][]float64{{1, 1}, {2, 2}})
	near(t, "no difference", got.P, 1)
	for _, bad := range [][][]float64{nil, {{1, 2}}, {{1}, {2}}, {{1, 2}, {1}}} {
		if _, err := Friedman(bad); !errors.Is(err, ErrShape) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestCriticalDifference: the q of Demšar's table 5a for alpha 0.05 and 0.10, and his example (4 classifiers, 14 data sets:
// 1.25).
func TestCriticalDifference(t *testing.T) {
	q05 := []float64{1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164}
	q10 := []float64{1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920}
	for i := range q05 {
		k := i + 2
		for alpha, want := range map[float64]float64{0.05: q05[i], 0.10: q10[i]} {
			q := CriticalDifference(k, 1, alpha) / math.Sqrt(float64(k*(k+1))/6)
			if math.Abs(q-want) > 0.0011 { // the table is cut, not rounded
				t.Errorf("k=%d alpha=%v: q %.4f, want %v", k, alpha, q, want)
			}
		}
	}
	if cd := CriticalDifference(4, 14, 0.05); math.Abs(cd-1.25) > 0.005 {
		t.Errorf("Demšar's example: %v", cd)
	}
	near(t, "one treatment", CriticalDifference(1, 5, 0.05), math.NaN())
}

func TestGroups(t *testing.T) {
	// Ranks 1.2 1.8 3.0 3.9 with cd 1.25: {0,1}, {1,2} (1.2 apart), {2,3}.
	got := Groups([]float64{3.9, 1.2, 3.0, 1.8}, 1.25)
	if d := cmp.Diff([][]int{{1, 3}, {3, 2}, {2, 0}}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([][]int{{0}, {1}}, Groups([]float64{1, 3}, 0.5)); d != "" {
		t.Error(d)
	}
}

func TestOutliers(t *testing.T) {
	// Quartiles of 1 … 9, 20, 100 (type 7): at 2.5 and 7.5: 3.5 and 8.5; fences −4, 16 and −11.5, 23.5.
	got := FindOutliers([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 100})
	want := Outliers{HighMild: 1, HighSevere: 1, Q1: 3.5, Q3: 8.5, Share: 2.0 / 11}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	got = FindOutliers([]float64{-100, -7, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	if got.LowSevere != 1 || got.LowMild != 1 || got.HighMild+got.HighSevere != 0 {
		t.Errorf("%+v", got)
	}
	if o := FindOutliers([]float64{1, 2, 1000}); o.Share != 0 {
		t.Errorf("three samples: %+v", o)
	}
}

func TestBootstrap(t *testing.T) {
	xs := make([]float64, 200)
	for i := range xs {
		xs[i] = float64(i)
	}
	mean := func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	a, b := Bootstrap(xs, mean, 4000, 0.95, 7), Bootstrap(xs, mean, 4000, 0.95, 7)
	if a != b {
		t.Errorf("equal seeds, %+v and %+v", a, b)
	}
	if c := Bootstrap(xs, mean, 4000, 0.95, 8); c == a {
		t.Error("another seed gave the same interval")
	}
	// The mean's standard error is √((200²−1)/12 ÷ 200) = 4.082; 1.96 of it each side: 91.5 … 107.5.
	if math.Abs(a.Low-91.5) > 0.6 || math.Abs(a.High-107.5) > 0.6 || a.Estimate != 99.5 {
		t.Errorf("%+v", a)
	}
	if !math.IsNaN(Bootstrap(nil, mean, 10, 0.95, 1).Estimate) {
		t.Error("no samples gave an estimate")
	}
}

// TestMinSamples: 2 ÷ C(2n, n) for n = 3, 4, 5, 6 is 0.1, 0.0286, 0.0079, 0.0022.
func TestMinSamples(t *testing.T) {
	for alpha, want := range map[float64]int{0.1: 3, 0.05: 4, 0.01: 5, 0.005: 6, 0.001: 7} {
		if got := MinSamples(alpha); got != want {
			t.Errorf("alpha %v: %d, want %d", alpha, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	base := []float64{100, 101, 99, 102, 98, 100.5, 99.5, 101.5, 98.5, 100.2}
	scaled := func(f float64) []float64 {
		out := slices.Clone(base)
		for i := range out {
			out[i] *= f
		}
		return out
	}
	for _, c := range []struct {
		name  string
		fresh []float64
		rules Rules
		want  Conclusion
		warns string
	}{
		{"20 % slower", scaled(1.2), Rules{NoiseFloor: 0.03}, Worse, ""},
		{"20 % faster", scaled(0.8), Rules{NoiseFloor: 0.03}, Better, ""},
		{"20 % more, which is good", scaled(1.2), Rules{Direction: HigherIsBetter}, Better, ""},
		{"the same again", scaled(1), Rules{NoiseFloor: 0.03}, Same, ""},
		{"significant, below the noise", scaled(1.04), Rules{NoiseFloor: 0.045}, Inconclusive, "significant but not above the threshold"},
		{"neither shown nor ruled out", scaled(1.005), Rules{MinEffect: 0.001}, Inconclusive, ""},
		{"significant alone, not in its family", scaled(1.2), Rules{AdjustedP: 0.2}, Inconclusive, ""},
		{"too few", []float64{120, 121, 122}, Rules{}, Inconclusive, "need ≥ 4 samples a side"},
		{"none", nil, Rules{}, Inconclusive, "no samples on one side"},
		{"noise hides what matters", scaled(1.2), Rules{NoiseFloor: 0.1, MinEffect: 0.02}, Worse, "the noise floor of 10 %"},
	} {
		v := Compare(base, c.fresh, c.rules)
		if all := strings.Join(v.Warnings, "; "); v.Conclusion != c.want || !strings.Contains(all, c.warns) || c.warns == "" && all != "" {
			t.Errorf("%s: %s, want %s; warnings %q; %+v", c.name, v.Conclusion, c.want, all, v)
		}
	}
	v := Compare(base, scaled(1.2), Rules{})
	if math.Abs(v.Relative-0.2) > 0.01 || v.A12 != 1 {
		t.Errorf("relative %v, A12 %v", v.Relative, v.A12)
	}
}

func TestCompareExact(t *testing.T) {
	one := Rules{Exact: true}
	if v := Compare([]float64{0.25}, []float64{0.25}, one); v.Conclusion != Same {
		t.Errorf("%+v", v)
	}
	if v := Compare([]float64{0.25}, []float64{0.2500001}, one); v.Conclusion != Worse {
		t.Errorf("%+v", v)
	}
	v := Compare([]float64{0.25, 0.26}, []float64{0.25}, one)
	if v.Conclusion != Inconclusive || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "not deterministic") {
		t.Errorf("%+v", v)
	}
}

func TestNoiseFloor(t *testing.T) {
	// Shift of {11,12,13} over {1,2,3}: 8 … 12; the farther end over the median 2 is 6.
	near(t, "floor", NoiseFloor([]float64{1, 2, 3}, []float64{11, 12, 13}, 0.95), 6)
	near(t, "median 0", NoiseFloor([]float64{0, 0}, []float64{1, 1}, 0.95), math.NaN())
}
