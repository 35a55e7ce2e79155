package stats

import (
	"cmp"
	"slices"
)

// Ranks returns the rank of each value, 1 for the smallest; equal values share the mean of the ranks they take.
func Ranks(xs []float64) []float64 {
	order := make([]int, len(xs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(xs[a], xs[b]) })
	ranks := make([]float64, len(xs))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && xs[order[j]] == xs[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2 // mean of i+1 … j
		}
		i = j
	}
	return ranks
}

// ties returns Σ(t³ − t) over the groups of equal values: the correction of rank tests.
func ties(xs []float64) (sum float64) {
	s := slices.Sorted(slices.Values(xs))
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && s[j] == s[i] {
			j++
		}
		t := float64(j - i)
		sum += t*t*t - t
		i = j
	}
	return sum
}

// sortBy sorts indexes by their value, stably.
func sortBy(order []int, xs []float64) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(xs[a], xs[b]) })
}
