package main

import (
	"context"
	"fmt"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/results"
)

// minCapacities finds the smallest device for each strategy and recording. It runs after the trials, since it says nothing of latency.
func (j *job) minCapacities(ctx context.Context) error {
	j.minimum = map[string]uint64{}
	for i := range j.runner.Run.Cases {
		c := &j.runner.Run.Cases[i]
		if c.Scope != results.ScopeDevice || c.Control || c.Canary {
			continue
		}
		n, err := j.runner.MinCapacity(ctx, c)
		if err != nil {
			return fmt.Errorf("minimum capacity of %s on %s: %w", c.Label, j.runner.Run.Traces[c.Trace].Name, err)
		}
		j.minimum[minCapacityKey(c.Trace, c.Label)] = n
	}
	return nil
}

func minCapacityKey(trace int, label string) string { return fmt.Sprintf("%d/%s", trace, label) }

// fillMinCapacities puts the found capacities into the ranking. 0 is a strategy that never fits.
func (j *job) fillMinCapacities(r *results.Ranking) {
	for ti := range r.Traces {
		for ri := range r.Traces[ti].Rows {
			row := &r.Traces[ti].Rows[ri]
			n, ok := j.minimum[minCapacityKey(ti, row.Label)]
			switch {
			case ok && n > 0:
				row.MinCapacityBytes = &n
			case ok:
				row.Warnings = append(row.Warnings, fmt.Sprintf("no device of up to %d × the lower bound fits it without a failure", harness.MaxCapacityFactor))
			}
		}
	}
}
