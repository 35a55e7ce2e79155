package harness

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/results"
)

// Watcher watches the hardware during trials.
type Watcher interface {
	// Begin starts to watch a trial; the function that it returns ends that and judges.
	Begin() (end func() *results.Qualification)
}

// voidRepeatsMax is how often a void trial is made again before its case has to do without: a neighbour that stays for three
// trials stays for the run.
const voidRepeatsMax = 2

// FaultVoid is the class of a trial that no repetition made valid: its case is inconclusive.
const FaultVoid = "void"

// qualified runs a unit under the eyes of the watcher. A void trial is repeated; the last one is kept, without its figures,
// since they are of something else.
func (r *Runner) qualified(ctx context.Context, u results.Unit) (*results.Trial, *results.Curves, error) {
	run := func() (*results.Trial, *results.Curves, error) { return r.trial(ctx, u) }
	if r.Watcher == nil {
		return run()
	}
	return watched(r.Watcher, run)
}

func watched(w Watcher, run func() (*results.Trial, *results.Curves, error)) (*results.Trial, *results.Curves, error) {
	for repeats := 0; ; repeats++ {
		end := w.Begin()
		t, curves, err := run()
		q := end()
		if err != nil {
			return nil, nil, err
		}
		t.Qualification = q
		switch {
		case q.Grade != results.GradeVoid || t.Status != results.TrialOK:
			for _, reason := range q.Reasons {
				t.Warnings = append(t.Warnings, fmt.Sprintf("the hardware's state taints it: %s: %s", reason.Rule, reason.Text))
			}
			if repeats > 0 {
				t.Warnings = append(t.Warnings, fmt.Sprintf("%d void repetitions came before", repeats))
			}
			return t, curves, nil
		case repeats == voidRepeatsMax:
			t.Exact, t.Timed, t.Batch, t.ExactHash = nil, nil, nil, ""
			t.Status, t.Fault = results.TrialError, &results.Fault{Class: FaultVoid, Text: voidText(q, repeats+1)}
			return t, nil, nil
		}
	}
}

func voidText(q *results.Qualification, n int) string {
	var list []string
	for _, r := range q.Reasons {
		if r.Grade == results.GradeVoid {
			list = append(list, r.Rule+": "+r.Text)
		}
	}
	return fmt.Sprintf("void %d times because of the hardware's state: %s", n, strings.Join(list, "; "))
}
