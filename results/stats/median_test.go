package stats

import (
	"math"
	"testing"
)

func TestMedianCI(t *testing.T) {
	// Coverages by hand: n=5, k=1: 1 − 2/32. n=6, k=1: 1 − 2/64. n=10, k=2: 1 − 2·(1+10)/1024; k=3 would be 1 − 2·56/1024 = 0.8906.
	for _, c := range []struct {
		xs   []float64
		want Interval
	}{
		{[]float64{5, 1, 4, 2, 3}, Interval{3, 1, 5, 0.9375}},
		{[]float64{6, 1, 2, 3, 4, 5}, Interval{3.5, 1, 6, 0.96875}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Interval{5.5, 2, 9, 1 - 22.0/1024}},
		{[]float64{7}, Interval{7, 7, 7, 0}},
	} {
		if got := MedianCI(c.xs, 0.95); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.xs, got, c.want)
		}
	}
	if got := MedianCI(nil, 0.95); !math.IsNaN(got.Estimate) {
		t.Errorf("no samples: %+v", got)
	}
}
