package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Quantile returns the order statistic number ⌈n·p⌉, the smallest sample with at least the share p at or below it (Hyndman
// and Fan's type 1): always a value that was measured. NaN for no samples or a p outside (0, 1].
func Quantile(xs []float64, p float64) float64 {
	if len(xs) == 0 || !(p > 0 && p <= 1) {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(xs))[rankOf(len(xs), p)-1]
}

func rankOf(n int, p float64) int { return min(n, max(1, int(math.Ceil(float64(n)*p)))) }

// QuantileCI returns the quantile with the interval between the order statistics x₍ₗ₎ and x₍ᵤ₎, whatever the distribution:
// the true quantile lies in it with probability P(l ≤ Bin(n, p) < u) (Conover, Practical Nonparametric Statistics, 3.2). l and u are
// taken so that at most (1−level)/2 is lost on each side. Where the samples do not reach that far the end of the
// samples is taken and Coverage says what that gives.
func QuantileCI(xs []float64, p, level float64) Interval {
	n := len(xs)
	if n == 0 || !(p > 0 && p < 1) {
		return Interval{Estimate: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	s := slices.Sorted(slices.Values(xs))
	bin := distuv.Binomial{N: float64(n), P: p}
	tail := (1 - level) / 2
	l, u := 1, n
	for l < n && bin.CDF(float64(l)) <= tail { // P(Bin ≤ l) is what is lost below x₍ₗ₊₁₎
		l++
	}
	for u > l && 1-bin.CDF(float64(u-2)) <= tail { // P(Bin ≥ u−1) is what is lost above x₍ᵤ₋₁₎
		u--
	}
	return Interval{Estimate: s[rankOf(n, p)-1], Low: s[l-1], High: s[u-1], Coverage: bin.CDF(float64(u-1)) - bin.CDF(float64(l-1))}
}
