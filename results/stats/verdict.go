package stats

import (
	"fmt"
	"math"
)

// Conclusion is the word of a verdict.
type Conclusion string

// The conclusions.
const (
	Better       Conclusion = "better"
	Worse        Conclusion = "worse"
	Same         Conclusion = "same"         // a difference above the threshold is ruled out
	Inconclusive Conclusion = "inconclusive" // neither a difference nor its absence could be shown
)

// Direction says which way a metric is better.
type Direction int

// The directions.
const (
	LowerIsBetter Direction = iota
	HigherIsBetter
)

// Rules are what a comparison is judged by.
type Rules struct {
	Direction  Direction
	Alpha      float64 // level of the test; 0 = 0.05
	MinEffect  float64 // smallest relative difference that matters (0.02 = 2 %)
	NoiseFloor float64 // relative difference between two runs of the same thing (see NoiseFloor)
	Exact      bool    // the metric is deterministic: any difference is real, any variation a fault
	AdjustedP  float64 // p value after correction for a family (Holm); 0 = use the test's own
}

// Verdict is the outcome of a comparison; its warnings are part of it.
type Verdict struct {
	Conclusion Conclusion
	Test       UTest
	Shift      Interval // new − old, in the metric's unit
	Relative   float64  // Shift.Estimate ÷ median of old; NaN where that is 0
	A12        float64  // probability that a new value is larger than an old one
	Threshold  float64  // relative difference that had to be exceeded
	Warnings   []string
}

// Compare judges new against old. Better or worse needs both a significant test and a shift beyond the threshold, the larger of noise
// floor and smallest effect. Same needs an interval of the shift wholly within the threshold. All else is inconclusive. An exact metric
// needs no test: one value each side decides, and a side whose values differ among themselves is a warning.
func Compare(old, fresh []float64, rules Rules) Verdict {
	if rules.Alpha == 0 {
		rules.Alpha = 0.05
	}
	v := Verdict{Conclusion: Inconclusive, Test: MannWhitney(old, fresh), Shift: Shift(old, fresh, 1-rules.Alpha),
		A12: A12(fresh, old), Threshold: math.Max(rules.NoiseFloor, rules.MinEffect), Relative: math.NaN()}
	if len(old) == 0 || len(fresh) == 0 {
		v.warn("no samples on one side")
		return v
	}
	base := math.Abs(Median(old))
	if base > 0 {
		v.Relative = v.Shift.Estimate / base
	}
	if rules.Exact {
		v.exact(old, fresh, rules.Direction)
		return v
	}
	v.judge(len(old), len(fresh), base, rules)
	for i, xs := range [][]float64{old, fresh} {
		if o := FindOutliers(xs); o.Share > 0.1 {
			v.warn("%.0f %% of the %s values are outliers", 100*o.Share, [...]string{"old", "new"}[i])
		}
	}
	return v
}

func (v *Verdict) judge(n, m int, base float64, rules Rules) {
	if need := MinSamples(rules.Alpha); min(n, m) < need {
		v.warn("need ≥ %d samples a side to detect a difference at alpha = %g, have %d and %d", need, rules.Alpha, n, m)
		return
	}
	if base == 0 {
		v.warn("the old median is 0: no relative difference can be given")
		return
	}
	p := v.Test.P
	if rules.AdjustedP > 0 {
		p = rules.AdjustedP
	}
	limit := v.Threshold * base
	switch {
	case p <= rules.Alpha && math.Abs(v.Shift.Estimate) > limit:
		v.Conclusion = towards(v.Shift.Estimate, rules.Direction)
	case v.Shift.Low >= -limit && v.Shift.High <= limit:
		v.Conclusion = Same
	case p <= rules.Alpha:
		v.warn("the difference of %.2g %% is significant but not above the threshold of %.2g %%", 100*v.Relative, 100*v.Threshold)
	}
	if rules.NoiseFloor > rules.MinEffect && rules.MinEffect > 0 {
		v.warn("the noise floor of %.2g %% hides differences down to the %.2g %% that matter", 100*rules.NoiseFloor, 100*rules.MinEffect)
	}
}

func (v *Verdict) exact(old, fresh []float64, d Direction) {
	for i, xs := range [][]float64{old, fresh} {
		for _, x := range xs {
			if x != xs[0] {
				v.warn("the %s values of an exact metric differ among themselves (%v and %v): the case is not deterministic", [...]string{"old", "new"}[i], xs[0], x)
				return
			}
		}
	}
	if old[0] == fresh[0] {
		v.Conclusion = Same
		return
	}
	v.Conclusion = towards(fresh[0]-old[0], d)
}

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

func towards(change float64, d Direction) Conclusion {
	if (change < 0) == (d == LowerIsBetter) {
		return Better
	}
	return Worse
}

// NoiseFloor is the relative difference that two measurements of one and the same case (A/A) show: the end of the interval of
// their shift that lies farther from 0, over the median of the first. It is what a comparison must exceed to mean anything. NaN without samples
// or with a median of 0.
func NoiseFloor(a, b []float64, level float64) float64 {
	s := Shift(a, b, level)
	base := math.Abs(Median(a))
	if base == 0 {
		return math.NaN()
	}
	return math.Max(math.Abs(s.Low), math.Abs(s.High)) / base
}
