package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Shift is the Hodges-Lehmann estimate of how much larger ys are than xs: the median of all differences y − x, with
// the interval that inverts the Mann-Whitney test (Hodges and Lehmann, Ann. Math. Stat. 34, 1963): between the k-th smallest and
// the k-th largest difference, k the largest with P(U < k) ≤ (1−level)/2 under no shift. Coverage is 1 − 2·P(U < k), with ties a
// lower bound. With too few samples k is 1.
func Shift(xs, ys []float64, level float64) Interval {
	n, m := len(xs), len(ys)
	if n == 0 || m == 0 {
		return Interval{Estimate: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	d := make([]float64, 0, n*m)
	for _, x := range xs {
		for _, y := range ys {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	k, coverage := shiftRank(n, m, level)
	return Interval{Estimate: Median(d), Low: d[k-1], High: d[len(d)-k], Coverage: coverage}
}

// shiftRank returns k and the coverage it gives.
func shiftRank(n, m int, level float64) (k int, coverage float64) {
	tail := (1 - level) / 2
	if n+m > maxExact {
		sd := math.Sqrt(float64(n*m) * float64(n+m+1) / 12)
		k = max(1, int(float64(n*m)/2+0.5+distuv.UnitNormal.Quantile(tail)*sd))
		z := (float64(k) - 0.5 - float64(n*m)/2) / sd
		return k, 1 - 2*distuv.UnitNormal.CDF(z)
	}
	ranks := make([]float64, n+m)
	for i := range ranks {
		ranks[i] = float64(i + 1)
	}
	ways, _ := rankSums(ranks, n)
	all := 0.0
	for _, w := range ways {
		all += w
	}
	below := 0.0 // P(U < k)
	for k = 0; ; k++ {
		w := ways[n*(n+1)+2*k] / all // P(U = k): rank sum n(n+1)/2 + k, doubled
		if k > 0 && below+w > tail {
			return k, 1 - 2*below
		}
		below += w
	}
}
