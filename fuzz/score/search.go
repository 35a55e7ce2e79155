package score

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/trace"
)

const (
	batchPrograms = 64 // of one device and arena
	lookEvery     = 16 // programs between two looks at the time
)

// Result is what came of a search.
type Result struct {
	Found    bool
	Breach   *fuzz.Breach
	Programs uint64        // with the one that broke something
	CPU      time.Duration // of the thread, until the breach or the end
	Config   fuzz.Config
	Program  *trace.Trace // as it was found
}

// Search runs programs on a target until a check is broken, the CPU time is used up, or ctx ends.
func Search(ctx context.Context, t *fuzz.Target, g Generator, limit time.Duration) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := searcher{target: t, g: g, limit: limit}
	start, err := threadTime()
	if err != nil {
		return s.result, err
	}
	for n := uint64(0); !s.result.Found && s.result.CPU < limit && ctx.Err() == nil; n++ {
		if err := s.batch(n, start); err != nil {
			return s.result, err
		}
	}
	return s.result, nil
}

type searcher struct {
	target *fuzz.Target
	g      Generator
	limit  time.Duration
	result Result
}

// batch runs the programs of batch n. A strategy that refuses the batch's sizes ends it.
func (s *searcher) batch(n uint64, start time.Duration) error {
	cfg := fuzz.Config{Backend: fuzz.BackendIdeal, Seed: n}
	cfg.DeviceBytes, cfg.ArenaBytes = s.g.Batch(n)
	judge := fuzz.NewJudge(s.target, cfg)
	defer judge.Close()
	var sess fuzz.Session
	defer func() {
		if sess != nil {
			_ = sess.Close() // it only listens
		}
	}()
	learns, _ := s.g.(learner)
	for i := range batchPrograms {
		p := s.g.Program()
		b, err := judge.Judge(p)
		if errors.Is(err, fuzz.ErrConfig) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.target.Name, err)
		}
		s.result.Programs++
		if b != nil || i%lookEvery == lookEvery-1 {
			now, err := threadTime()
			if err != nil {
				return err
			}
			s.result.CPU = now - start
			if b != nil {
				s.result.Found, s.result.Breach, s.result.Config, s.result.Program = true, b, cfg, p
			}
			if b != nil || s.result.CPU >= s.limit {
				return nil
			}
		}
		if learns != nil {
			if sess == nil {
				if sess, err = fuzz.OpenLocal(&s.target.Desc, cfg, p); err != nil {
					break
				}
			}
			if run, err := sess.Execute(p, false); err == nil && run.Crash == nil {
				learns.learn(p, run.Outcomes)
			}
		}
	}
	now, err := threadTime()
	s.result.CPU = now - start
	return err
}

// threadTime is the processor time of this thread, user and system.
func threadTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("processor time of the thread: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// Shrunk shrinks the program of a result and returns the finding.
func Shrunk(t *fuzz.Target, r *Result) (*fuzz.Finding, error) {
	return fuzz.Reduce(t, &fuzz.Finding{Target: t.Name, Config: r.Config, Original: r.Program, Breach: *r.Breach, Programs: r.Programs})
}
