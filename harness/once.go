package harness

import (
	"context"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
)

// Once is what one replay gave.
type Once struct {
	Report   ledger.Report
	Info     SessionInfo
	Warnings []string
}

// ReplayOnce replays a case in a fresh process, whole, with every check; each window also goes to each, if it is not nil.
func (r *Runner) ReplayOnce(ctx context.Context, c *results.Case, each func(Window) error) (*Once, error) {
	s, x, err := r.openOnce(ctx, c, TimePerEvent)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	info := s.Info()
	cfg := x.config(info)
	cfg.Timing = true
	l := ledger.New(cfg)
	feed := func(w Window) error {
		if err := x.feed(l, w); err != nil {
			return err
		}
		if each != nil {
			return each(w)
		}
		return nil
	}
	st, err := s.Replay(ctx, feed)
	if err == nil {
		err = s.Finish(ctx, feed)
	}
	if err != nil {
		return nil, err
	}
	l.Closed()
	out := &Once{Report: l.Finish(), Info: info, Warnings: append(x.trial.Warnings, st.Warnings...)}
	out.Warnings = append(out.Warnings, info.Warnings...)
	if st.GCs > 0 {
		out.Warnings = append(out.Warnings, "a garbage collection ran inside the timed loop")
	}
	return out, nil
}

// openOnce opens a case in a fresh process for something else than a trial.
func (r *Runner) openOnce(ctx context.Context, c *results.Case, timing Timing) (Session, *trialRun, error) {
	rec := &r.Recordings[c.Trace]
	cont := r.contender(c)
	s, err := r.Launcher.Open(ctx, OpenSpec{Case: c, TracePath: rec.BinaryPath, TraceEvents: uint64(len(rec.Trace.Events)), Seed: r.Seed, Timing: timing,
		RestoreStart: rec.Trace.Start != nil && cont.CanRestore, MemoryLimitBytes: r.MemoryLimitBytes, HangTimeout: r.HangTimeout})
	if err != nil {
		return nil, nil, err
	}
	x := &trialRun{r: r, c: c, rec: rec, cont: cont, trial: &results.Trial{}}
	x.warnUnrestored(s.Info())
	x.warnStreams()
	return s, x, nil
}
