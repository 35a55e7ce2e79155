package stats

import (
	"math"
	"slices"
)

// Interval is an estimate with a confidence interval.
type Interval struct {
	Estimate float64
	Low      float64
	High     float64
	Coverage float64 // what the interval really covers; it may be less than asked when samples are few
}

// Median returns the middle value, the mean of the two middle ones for an even number, NaN for none. xs is not changed.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// MedianCI returns the median with the interval between two order statistics, x₍ₖ₎ and x₍ₙ₊₁₋ₖ₎: whatever the distribution, it
// covers the true median with probability 1 − 2·P(Bin(n, ½) < k) (Conover, Practical Nonparametric Statistics, 3.2). The
// largest k with at least the asked level is taken; with too few samples k is 1 and Coverage says what that gives
// (1 − 2^(1−n): 93.75 % for 5 samples).
func MedianCI(xs []float64, level float64) Interval {
	n := len(xs)
	if n == 0 {
		return Interval{Estimate: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	s := slices.Sorted(slices.Values(xs))
	k, coverage := 1, coverageOf(n, 1)
	for next := 2; next <= (n+1)/2; next++ {
		c := coverageOf(n, next)
		if c < level {
			break
		}
		k, coverage = next, c
	}
	return Interval{Estimate: Median(s), Low: s[k-1], High: s[n-k], Coverage: coverage}
}

// coverageOf is 1 − 2·P(Bin(n, ½) < k); 0 for one sample.
func coverageOf(n, k int) float64 {
	p, term := 0.0, math.Exp2(-float64(n))
	for i := range k {
		p += term
		term *= float64(n-i) / float64(i+1)
	}
	return math.Max(0, 1-2*p)
}
