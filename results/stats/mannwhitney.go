package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// maxExact is the number of samples, both sides together, up to which the permutation distribution is counted out. The
// count needs n·m·N² additions (2 million at 60); beyond it the normal approximation is good to three digits.
const maxExact = 60

// UTest is the result of a Mann-Whitney test.
type UTest struct {
	U     float64 // number of pairs (x, y) with x > y, equal pairs half
	P     float64 // two-sided
	Exact bool    // counted out, else by the normal approximation
}

// MannWhitney tests whether one sample tends to larger values than the other (Mann and Whitney, Ann. Math. Stat. 18, 1947).
// Up to maxExact samples P is exact, with ties as well: the share of all ways to deal the pooled midranks whose rank sum is at least
// as far from its mean. Beyond, it is the normal approximation with correction for ties and continuity.
// P is NaN when a side is empty.
func MannWhitney(xs, ys []float64) UTest {
	n, m := len(xs), len(ys)
	if n == 0 || m == 0 {
		return UTest{U: math.NaN(), P: math.NaN()}
	}
	pool := append(append(make([]float64, 0, n+m), xs...), ys...)
	ranks := Ranks(pool)
	sum := 0.0
	for _, r := range ranks[:n] {
		sum += r
	}
	t := UTest{U: sum - float64(n*(n+1))/2}
	if n+m <= maxExact {
		t.P, t.Exact = exactP(ranks, n, sum), true
		return t
	}
	size := float64(n + m)
	mean := float64(n*m) / 2
	variance := float64(n*m) / 12 * (size + 1 - ties(pool)/(size*(size-1)))
	if variance == 0 { // all values equal
		t.P = 1
		return t
	}
	z := (math.Abs(t.U-mean) - 0.5) / math.Sqrt(variance)
	t.P = min(1, 2*distuv.UnitNormal.Survival(max(0, z)))
	return t
}

// exactP counts, by doubled ranks (whole numbers), the subsets of size n whose sum is as far from the mean as sum.
func exactP(ranks []float64, n int, sum float64) float64 {
	ways, mean2 := rankSums(ranks, n)
	far := math.Abs(2*sum - mean2)
	hit, all := 0.0, 0.0
	for s, w := range ways {
		all += w
		if math.Abs(float64(s)-mean2) >= far-1e-9 {
			hit += w
		}
	}
	return hit / all
}

// rankSums returns for each doubled rank sum the number of subsets of size n that have it, and the mean of the doubled sums.
func rankSums(ranks []float64, n int) (ways []float64, mean2 float64) {
	total := 0
	for _, r := range ranks {
		total += int(2 * r)
	}
	table := make([][]float64, n+1)
	for k := range table {
		table[k] = make([]float64, total+1)
	}
	table[0][0] = 1
	for i, r := range ranks {
		d := int(2 * r)
		for k := min(i+1, n); k >= 1; k-- {
			for s := total; s >= d; s-- {
				table[k][s] += table[k-1][s-d]
			}
		}
	}
	return table[n], float64(total) * float64(n) / float64(len(ranks))
}

// MinSamples returns the smallest number of samples a side with which a two-sided Mann-Whitney test can reach alpha at
// all: the smallest n with 2 ÷ C(2n, n) ≤ alpha. 4 for 0.05.
func MinSamples(alpha float64) int {
	choose := 1.0
	for n := 1; ; n++ {
		choose *= float64(2*n) * float64(2*n-1) / float64(n*n)
		if 2/choose <= alpha || n >= 1000 {
			return n
		}
	}
}

// A12 is Vargha and Delaney's effect size: the probability that a value of xs is larger than one of ys, ties half (J. Educ. Behav.
// Stat. 25, 2000). 0.5 is no effect; 0.56, 0.64 and 0.71 are called small, medium and large. NaN when a side is empty.
func A12(xs, ys []float64) float64 {
	if len(xs) == 0 || len(ys) == 0 {
		return math.NaN()
	}
	return MannWhitney(xs, ys).U / float64(len(xs)*len(ys))
}
