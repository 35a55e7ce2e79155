package sdk

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// programCalls is the call area for one event of a program. A strategy that makes more calls costs a few more windows.
const programCalls = 4

// Executor runs programs through a runner, one after the other, in windows of ordinary memory. It is what Execute of the
// contract does, and what in-process fuzzing uses.
type Executor struct {
	runner *Runner
	window *wire.Window
	reader *wire.Reader
	result wire.Result
	frozen *trace.Trace // the program in progress
}

// NewExecutor makes an executor over an open runner, which must not be used otherwise.
func NewExecutor(r *Runner) *Executor { return &Executor{runner: r} }

// Execute runs a program from the state after opening or, with keep, from the state that the last program left; then its
// tables must begin with those of the first program, whose tables the strategy was given. The trace must stay unchanged until
// the next call. The result is valid until then.
func (x *Executor) Execute(t *trace.Trace, keep bool) (*wire.Result, error) {
	r := x.runner
	if len(t.Events) > wire.MaxProgramEvents {
		return nil, fmt.Errorf("%w: %d events, at most %d", wire.ErrProgram, len(t.Events), wire.MaxProgramEvents)
	}
	if keep && x.frozen != nil {
		r.proceed(t)
	} else {
		// The same value may hold another program now: what was checked of it counts no more.
		r.checked = 0
		if err := r.restart(t, t.Start != nil); err != nil {
			return nil, err
		}
	}
	x.frozen = t
	if err := x.fit(uint64(len(t.Events))); err != nil {
		return nil, err
	}
	x.result = wire.Result{Outcomes: x.result.Outcomes[:0], Calls: x.result.Calls[:0], FrequencyHz: r.clock.FrequencyHz,
		ReadCostMilliticks: r.clock.ReadCostMilliticks}
	for {
		first := r.Next()
		s, err := r.Replay(x.window, first, uint64(len(t.Events)), false)
		if err != nil {
			return nil, err
		}
		d, err := x.reader.Drain(first)
		if err != nil {
			return nil, err
		}
		x.result.Outcomes = append(x.result.Outcomes, d.Outcomes...)
		x.result.Calls = append(x.result.Calls, d.Calls...)
		if s.Reason == wire.StopEnd {
			return &x.result, nil
		}
	}
}

// fit makes the window large enough for a program of n events.
func (x *Executor) fit(n uint64) error {
	n = max(n, 256)
	if x.window != nil && x.window.Geometry().OutcomeCapacity >= n {
		return nil
	}
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: n, CallCapacity: programCalls * n})
	if err != nil {
		return err
	}
	x.window, x.reader = w, w.Reader()
	return nil
}
