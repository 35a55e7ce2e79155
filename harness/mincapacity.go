package harness

import (
	"context"
	"errors"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
)

// MaxCapacityFactor bounds the search for a minimum capacity, in units of the trace's lower bound: a strategy that needs more than
// 64 times what is live is not short of memory.
const MaxCapacityFactor = 64

// errFailed ends a replay at its first failure: the answer is known.
var errFailed = errors.New("an allocation failed")

// MinCapacity returns the smallest whole number of pages at which the case's strategy runs its trace without a failed allocation,
// between the trace's lower bound and MaxCapacityFactor times that; 0 when even that is too small. It bisects, so it takes
// success to be monotonic in the capacity, which holds for all strategies but those that size caches by it.
func (r *Runner) MinCapacity(ctx context.Context, c *results.Case) (uint64, error) {
	rec := &r.Recordings[c.Trace]
	low := (rec.LowerBound + pageBytes - 1) / pageBytes // pages; at low−1 it cannot fit
	if low == 0 {
		return 0, nil
	}
	high := low
	for {
		ok, err := r.fits(ctx, c, high*pageBytes)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if high >= low*MaxCapacityFactor {
			return 0, nil
		}
		low, high = high+1, min(high*2, low*MaxCapacityFactor)
	}
	for low < high {
		mid := low + (high-low)/2
		ok, err := r.fits(ctx, c, mid*pageBytes)
		if err != nil {
			return 0, err
		}
		if ok {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return high * pageBytes, nil
}

// fits replays the case once at a capacity and reports whether every allocation was placed on the device.
func (r *Runner) fits(ctx context.Context, c *results.Case, capacity uint64) (bool, error) {
	at := *c
	at.CapacityBytes = capacity
	failure, err := r.FirstFailure(ctx, &at)
	if errors.Is(err, ErrNoArena) {
		return false, nil
	}
	return err == nil && failure == nil, err
}

// ErrNoArena is wrapped by errors of a Launcher for a strategy that could not get the memory it needs to open.
var ErrNoArena = errors.New("the strategy could not get its memory")

// FirstFailure replays a case in a fresh process until an allocation is not placed, and describes it; nil when none fails.
func (r *Runner) FirstFailure(ctx context.Context, c *results.Case) (*ledger.Failure, error) {
	s, x, err := r.openOnce(ctx, c, TimeBatch)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	return x.firstFailure(ctx, s)
}

// firstFailure replays the trace of the session until an allocation is not placed.
func (x *trialRun) firstFailure(ctx context.Context, s Session) (*ledger.Failure, error) {
	l := ledger.New(x.config(s.Info()))
	_, err := s.Replay(ctx, func(w Window) error {
		if err := x.feed(l, w); err != nil {
			return err
		}
		for i := range w.Outcomes {
			if x.rec.Trace.Events[w.First+uint64(i)].Kind.TakesMemory() && !w.Outcomes[i].Status.Placed() {
				return errFailed
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFailed) {
		return nil, err
	}
	return l.Finish().Exact.FirstFailure, nil
}
