package stats

import (
	"math"
	"slices"
)

// Outliers counts samples outside Tukey's fences (Exploratory Data Analysis, 1977): mild ones lie more than 1.5 interquartile ranges
// outside the quartiles, severe ones more than 3. Nothing is ever removed because of it.
type Outliers struct {
	LowSevere, LowMild, HighMild, HighSevere int
	Q1, Q3                                   float64
	// Share is the number of outliers ÷ the number of samples.
	Share float64
}

// FindOutliers counts them. Quartiles are interpolated (Hyndman and Fan's type 7). Fewer than 4 samples have none.
func FindOutliers(xs []float64) (o Outliers) {
	if len(xs) < 4 {
		return Outliers{Q1: math.NaN(), Q3: math.NaN()}
	}
	s := slices.Sorted(slices.Values(xs))
	o.Q1, o.Q3 = interpolated(s, 0.25), interpolated(s, 0.75)
	iqr := o.Q3 - o.Q1
	for _, x := range s {
		switch {
		case x < o.Q1-3*iqr:
			o.LowSevere++
		case x < o.Q1-1.5*iqr:
			o.LowMild++
		case x > o.Q3+3*iqr:
			o.HighSevere++
		case x > o.Q3+1.5*iqr:
			o.HighMild++
		}
	}
	o.Share = float64(o.LowSevere+o.LowMild+o.HighMild+o.HighSevere) / float64(len(s))
	return o
}

// interpolated is the quantile of sorted samples at (n−1)·p.
func interpolated(s []float64, p float64) float64 {
	at := float64(len(s)-1) * p
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}
