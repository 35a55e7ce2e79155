package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ErrShape says that a table is not a rectangle of at least two blocks and two treatments.
var ErrShape = errors.New("stats: not a table of at least 2 rows and 2 columns")

// FriedmanTest is the result of a Friedman test.
type FriedmanTest struct {
	Statistic    float64   // chi-square distributed with k − 1 degrees of freedom when there is no difference
	P            float64   // 1 when all values of every row are equal
	AverageRanks []float64 // by column; 1 is the smallest value
	Rows         int
	Warnings     []string
}

// Friedman tests whether the columns of a table (strategies) differ over its rows (traces), by the ranks within each row, ties
// corrected (Friedman, J. Am. Stat. Assoc. 32, 1937; Conover, Practical Nonparametric Statistics, 5.8).
func Friedman(table [][]float64) (FriedmanTest, error) {
	if len(table) < 2 || len(table[0]) < 2 {
		return FriedmanTest{}, fmt.Errorf("%w: %d rows", ErrShape, len(table))
	}
	n, k := len(table), len(table[0])
	sums, squares := make([]float64, k), 0.0
	for i, row := range table {
		if len(row) != k {
			return FriedmanTest{}, fmt.Errorf("%w: row %d has %d columns, row 0 has %d", ErrShape, i, len(row), k)
		}
		for j, r := range Ranks(row) {
			sums[j] += r
			squares += r * r
		}
	}
	t := FriedmanTest{AverageRanks: make([]float64, k), Rows: n, P: 1}
	even := float64(n) * float64(k) * float64(k+1) * float64(k+1) / 4
	between := 0.0
	for j, s := range sums {
		t.AverageRanks[j] = s / float64(n)
		between += s * s
	}
	if spread := squares - even; spread > 1e-9 {
		t.Statistic = float64(k-1) * (between - float64(n)*even) / spread
		t.P = distuv.ChiSquared{K: float64(k - 1)}.Survival(t.Statistic)
	}
	if n <= 10 || k <= 4 && n < 15 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d rows of %d: the chi-square approximation is rough", n, k))
	}
	return t, nil
}

// CriticalDifference is Nemenyi's: average ranks of k treatments over n rows that differ by less are not told apart at alpha (Nemenyi 1963;
// Demšar, J. Mach. Learn. Res. 7, 2006): q·√(k(k+1)/6n), where q is the quantile of the range of k normal values,
// divided by √2. NaN for fewer than two treatments or no row.
func CriticalDifference(k, n int, alpha float64) float64 {
	if k < 2 || n < 1 || !(alpha > 0 && alpha < 1) {
		return math.NaN()
	}
	q := rangeQuantile(k, 1-alpha) / math.Sqrt2
	return q * math.Sqrt(float64(k*(k+1))/(6*float64(n)))
}

// rangeQuantile is the quantile of the range of k standard normal values (the studentized range with infinite degrees of
// freedom), by bisection.
func rangeQuantile(k int, p float64) float64 {
	lo, hi := 0.0, 20.0
	for range 60 {
		mid := (lo + hi) / 2
		if rangeCDF(k, mid) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// rangeCDF is P(range ≤ q) = k ∫ φ(z) (Φ(z) − Φ(z−q))^(k−1) dz, by Simpson's rule on [−8, 8+q]; the integrand is smooth and vanishes
// outside, so 800 steps give ten digits.
func rangeCDF(k int, q float64) float64 {
	const steps = 800
	lo, hi := -8.0, 8+q
	h := (hi - lo) / steps
	sum := 0.0
	for i := range steps + 1 {
		z := lo + float64(i)*h
		w := 2.0
		switch {
		case i == 0 || i == steps:
			w = 1
		case i%2 == 1:
			w = 4
		}
		sum += w * distuv.UnitNormal.Prob(z) * math.Pow(distuv.UnitNormal.CDF(z)-distuv.UnitNormal.CDF(z-q), float64(k-1))
	}
	return float64(k) * sum * h / 3
}

// Groups returns the maximal runs of treatments, in order of average rank, whose ranks lie within cd of each other: what a critical
// difference diagram joins with a bar. Single treatments that join nobody are groups of one.
func Groups(averageRanks []float64, cd float64) [][]int {
	order := make([]int, len(averageRanks))
	for i := range order {
		order[i] = i
	}
	sortBy(order, averageRanks)
	var groups [][]int
	covered := 0
	for i := range order {
		j := i + 1
		for j < len(order) && averageRanks[order[j]]-averageRanks[order[i]] < cd {
			j++
		}
		if j > covered {
			groups = append(groups, append([]int(nil), order[i:j]...))
			covered = j
		}
	}
	return groups
}
