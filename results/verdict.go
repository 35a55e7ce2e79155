package results

import (
	"fmt"
	"strings"
)

// verdict is the first line a reader sees: who is best, on what, and whether that can be trusted.
func verdict(r *Ranking) string {
	real := 0
	for _, d := range r.Findings {
		if !d.Canary {
			real++
		}
	}
	var s string
	switch {
	case len(r.Traces) == 1:
		s = traceVerdict(&r.Traces[0])
	case r.Across != nil && len(r.Across.Rows) > 0:
		s = fmt.Sprintf("Best average rank over %d recordings: %s (%.2f)", r.Across.Traces, r.Across.Rows[0].Label, r.Across.Rows[0].AverageRank)
	default:
		s = "No recording has a ranked strategy"
	}
	if real > 0 {
		s += fmt.Sprintf("; %d finding(s): see below", real)
	}
	if !r.Complete {
		s += "; preliminary"
	}
	return s + "."
}

func traceVerdict(t *TraceRanking) string {
	var best []string
	for i := range t.Rows {
		if t.Rows[i].Place == 1 {
			best = append(best, t.Rows[i].Label)
		}
	}
	if len(best) == 0 {
		return "No strategy could be ranked on " + t.Trace
	}
	first := &t.Rows[0]
	what := fmt.Sprintf("success %s, external fragmentation %.4f", percent(first.Success.Value), first.Fragmentation.Value)
	if first.Latency.Missing == "" {
		what += ", " + Ns(first.Latency.Value) + " an event"
	}
	if len(best) > 1 {
		return fmt.Sprintf("Best on %s, a tie: %s (%s)", t.Trace, strings.Join(best, ", "), what)
	}
	return fmt.Sprintf("Best on %s: %s (%s)", t.Trace, best[0], what)
}

// weightSteps is the resolution of the sweep over weights: 20 steps a side give 231 points of the triangle.
const weightSteps = 20

// score gives each row 1 for the best and 0 for the worst value of each metric, weighted; and says how much the first place
// depends on the weights.
func score(r *Ranking, w *Weights) {
	stays, all := 0, 0
	for i := range r.Traces {
		rows := r.Traces[i].Rows
		if len(rows) == 0 {
			continue
		}
		own := weighted(rows, w.Success, w.Fragmentation, w.Latency)
		first := argmax(own)
		for j := range rows {
			v := own[j]
			rows[j].Score = &v
		}
		for a := 0; a <= weightSteps; a++ {
			for b := 0; a+b <= weightSteps; b++ {
				all++
				if argmax(weighted(rows, float64(a), float64(b), float64(weightSteps-a-b))) == first {
					stays++
				}
			}
		}
	}
	if all > 0 {
		w.FirstStaysFirst = float64(stays) / float64(all)
		r.Warnings = append(r.Warnings, fmt.Sprintf("scores follow your weights; the first place stays first in %.0f %% of all weights", 100*w.FirstStaysFirst))
	}
}

// weighted is the mean of rank scores: (n − rank) ÷ (n − 1) of each metric.
func weighted(rows []Row, s, f, l float64) []float64 {
	out := make([]float64, len(rows))
	n := float64(len(rows))
	if n == 1 {
		out[0] = 1
		return out
	}
	for i := range rows {
		r := &rows[i]
		out[i] = (s*(n-r.Success.Rank) + f*(n-r.Fragmentation.Rank) + l*(n-r.Latency.Rank)) / ((s + f + l) * (n - 1))
	}
	return out
}

func argmax(xs []float64) int {
	best := 0
	for i := range xs {
		if xs[i] > xs[best] {
			best = i
		}
	}
	return best
}
