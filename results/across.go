package results

import (
	"fmt"
	"sort"
	"strings"

	"github.com/gpubench/gpubench/results/stats"
)

// acrossAlpha is the level of the critical difference.
const acrossAlpha = 0.05

// across compares the strategies that have a place on every recording by their average ranks (Demšar, Statistical Comparisons of
// Classifiers over Multiple Data Sets, 2006: Friedman's test, then Nemenyi's critical difference). The rank on a recording is
// that of the table: success first, then the mean of the three ranks.
func across(traces []TraceRanking) *Across {
	a := &Across{Traces: len(traces), Rows: []AcrossRow{}, Warnings: []string{}}
	labels, left := commonLabels(traces)
	if len(left) > 0 {
		a.Warnings = append(a.Warnings, "not compared across recordings, because they have no place on some: "+strings.Join(left, ", "))
	}
	if len(labels) < 2 {
		a.Warnings = append(a.Warnings, "fewer than two strategies have a place on every recording: there is nothing to compare")
		return a
	}
	table := make([][]float64, len(traces))
	for ti := range traces {
		table[ti] = placesOf(&traces[ti], labels)
	}
	f, err := stats.Friedman(table)
	if err != nil {
		a.Warnings = append(a.Warnings, err.Error())
		return a
	}
	for i, l := range labels {
		a.Rows = append(a.Rows, AcrossRow{Label: l, AverageRank: f.AverageRanks[i]})
	}
	for _, row := range table {
		for i, r := range stats.Ranks(row) {
			if r == 1 {
				a.Rows[i].Wins++
			}
		}
	}
	a.CriticalDifference = stats.CriticalDifference(len(labels), len(traces), acrossAlpha)
	a.FriedmanP = f.P
	a.Warnings = append(a.Warnings, f.Warnings...)
	if f.P > acrossAlpha {
		a.Warnings = append(a.Warnings, fmt.Sprintf("Friedman's test finds no difference between the strategies over these recordings (p = %.2f): the order may be chance", f.P))
	}
	letters(a, f.AverageRanks)
	sort.SliceStable(a.Rows, func(i, j int) bool { return a.Rows[i].AverageRank < a.Rows[j].AverageRank })
	return a
}

// commonLabels returns the strategies with a row on every recording, in the order of the first, and those left out.
func commonLabels(traces []TraceRanking) (labels, left []string) {
	count := map[string]int{}
	var order []string
	for i := range traces {
		for j := range traces[i].Rows {
			l := traces[i].Rows[j].Label
			if count[l] == 0 {
				order = append(order, l)
			}
			count[l]++
		}
	}
	for _, l := range order {
		if count[l] == len(traces) {
			labels = append(labels, l)
		} else {
			left = append(left, l)
		}
	}
	return labels, left
}

// placesOf are the places of the labels on a recording.
func placesOf(t *TraceRanking, labels []string) []float64 {
	place := map[string]float64{}
	for i := range t.Rows {
		place[t.Rows[i].Label] = float64(t.Rows[i].Place)
	}
	out := make([]float64, len(labels))
	for i, l := range labels {
		out[i] = place[l]
	}
	return out
}

// letters gives each group of strategies that are not told apart a letter.
func letters(a *Across, averages []float64) {
	for g, members := range stats.Groups(averages, a.CriticalDifference) {
		for _, i := range members {
			a.Rows[i].Group += string(rune('a' + g%26))
		}
	}
}
