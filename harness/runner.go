package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/results"
)

// Runner runs the missing trials of a plan.
type Runner struct {
	Run              *results.Run
	Store            *results.Store
	Recordings       []Recording // as in Run.Traces
	Contenders       []Contender
	Launcher         Launcher
	Seed             uint64
	MemoryLimitBytes uint64
	HangTimeout      time.Duration
	PictureRects     int           // of the address-space picture of the first trial of each case; 0 = none
	Budget           time.Duration // 0 = no limit
	Progress         Progress
	Watcher          Watcher // watches the hardware during trials; nil = nothing is watched
}

// Progress hears how a run goes. All methods are called from the goroutine of Runner.Do.
type Progress interface {
	// Begin is called once, with the number of trials planned and already done.
	Begin(planned, done int)
	// Trial is called after each trial was kept.
	Trial(c *results.Case, t *results.Trial, done, planned int)
	// End is called once.
	End()
}

// ErrBudget says that the time was used up before every planned trial ran.
var ErrBudget = errors.New("the time budget is used up")

// Do runs every unit of the plan that has no trial yet and appends each to the store as it ends. It stops at the first error
// of the store (a full disk) or of ctx (interrupted), and with ErrBudget when the time is used up; what was appended stays.
func (r *Runner) Do(ctx context.Context, done []results.Trial) ([]results.Trial, error) {
	units := Missing(r.Run.Order, done)
	planned := len(r.Run.Order)
	r.Progress.Begin(planned, planned-len(units))
	defer r.Progress.End()
	began := clock.Monotonic()
	for i, u := range units {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		if r.Budget > 0 && clock.Monotonic()-began > r.Budget {
			return done, fmt.Errorf("%w: %d of %d trials are done after %v; go on with: gpubench run --resume %s",
				ErrBudget, planned-len(units)+i, planned, r.Budget, r.Store.Dir())
		}
		t, curves, err := r.qualified(ctx, u)
		if err != nil {
			return done, err
		}
		if curves != nil {
			if err := r.Store.AppendSeries(t.ID, curves); err != nil {
				t.Warnings = append(t.Warnings, err.Error())
			}
		}
		if err := r.Store.Append(t); err != nil {
			return done, err
		}
		done = append(done, *t)
		r.Progress.Trial(r.caseOf(u.Case), t, planned-len(units)+i+1, planned)
	}
	return done, nil
}

func (r *Runner) caseOf(id string) *results.Case {
	for i := range r.Run.Cases {
		if r.Run.Cases[i].ID == id {
			return &r.Run.Cases[i]
		}
	}
	return nil
}

// contender finds the entry that a case was planned from, by its label.
func (r *Runner) contender(c *results.Case) *Contender {
	for i := range r.Contenders {
		if r.Contenders[i].Label == c.Label {
			return &r.Contenders[i]
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
