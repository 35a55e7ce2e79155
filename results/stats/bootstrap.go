package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap returns the percentile interval of a statistic (Efron, Ann. Stat. 7, 1979): it is computed for rounds samples drawn from xs
// with replacement, by a generator with the given seed, so that equal calls give equal intervals. Coverage is the level asked;
// with fewer than some 20 samples the true one is lower.
func Bootstrap(xs []float64, stat func([]float64) float64, rounds int, level float64, seed uint64) Interval {
	if len(xs) == 0 || rounds < 1 {
		return Interval{Estimate: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	r := rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))
	draw, values := make([]float64, len(xs)), make([]float64, rounds)
	for i := range values {
		for j := range draw {
			draw[j] = xs[r.IntN(len(xs))]
		}
		values[i] = stat(draw)
	}
	slices.Sort(values)
	tail := (1 - level) / 2
	lo := max(0, int(math.Floor(tail*float64(rounds))))
	return Interval{Estimate: stat(xs), Low: values[lo], High: values[rounds-1-lo], Coverage: level}
}
