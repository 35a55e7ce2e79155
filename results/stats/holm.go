package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts a family of p values so that the chance of any false rejection stays below the level each is compared with
// (Holm, Scand. J. Stat. 6, 1979): the i-th smallest of n is multiplied by n − i + 1, never falling below the one before, at most 1.
// The order of the values is kept.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out := make([]float64, len(ps))
	last := 0.0
	for i, k := range order {
		last = max(last, min(1, ps[k]*float64(len(ps)-i)))
		out[k] = last
	}
	return out
}
