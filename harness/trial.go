package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// A short trace repeats until both are reached: 50 ms make the error of the clock's rate and of one interruption small
// against the sum; 10,000 samples are the fewest from which p99.9 may be read (10 samples lie above it).
const (
	minLoopNs  = 50e6
	minSamples = 10_000
	// maxRepeat bounds the real time of the repetitions: most of a pass of a tiny trace is not loop but messages and resets, about
	// a millisecond. What is then too few samples for a quantile is refused as such.
	maxRepeat = 150 * time.Millisecond
)

// ErrNotDeterministic marks a pass that answered differently from the first.
var ErrNotDeterministic = errors.New("the same trace was answered differently")

// trialRun is the state of one trial while it runs.
type trialRun struct {
	r     *Runner
	c     *results.Case
	rec   *Recording
	cont  *Contender
	trial *results.Trial
	first bool // the first trial of its case keeps the curves
}

// run executes one unit and returns its trial; it returns an error only when the run as a whole cannot go on (cancelled).
func (r *Runner) trial(ctx context.Context, u results.Unit) (*results.Trial, *results.Curves, error) {
	c := r.caseOf(u.Case)
	t := &results.Trial{ID: u.TrialID(), Case: u.Case, Number: u.Number, StartedAt: clock.Now().UTC()}
	began := clock.Monotonic()
	run := &trialRun{r: r, c: c, rec: &r.Recordings[c.Trace], cont: r.contender(c), trial: t, first: u.Number == 1 && !c.Control}
	curves, err := run.execute(ctx)
	t.TookNs = int64(clock.Monotonic() - began)
	if err == nil {
		t.Status = results.TrialOK
		return t, curves, nil
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	t.Exact, t.Timed, t.Batch, t.ExactHash = nil, nil, nil, ""
	if f := r.Launcher.Classify(err); f != nil {
		t.Status, t.Fault = results.TrialFault, f
		return t, nil, nil
	}
	t.Status, t.Fault = results.TrialError, &results.Fault{Class: "error", Text: oneLine(err.Error())}
	return t, nil, nil
}

func (x *trialRun) execute(ctx context.Context) (*results.Curves, error) {
	spec := OpenSpec{
		Case: x.c, TracePath: x.rec.BinaryPath, TraceEvents: uint64(len(x.rec.Trace.Events)), Seed: x.r.Seed, Timing: TimePerEvent,
		RestoreStart: x.rec.Trace.Start != nil && x.cont.CanRestore, MemoryLimitBytes: x.r.MemoryLimitBytes, HangTimeout: x.r.HangTimeout,
	}
	s, err := x.r.Launcher.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	info := s.Info()
	x.trial.Clock, x.trial.Remote = info.Clock, info.Remote
	x.trial.Warnings = append(x.trial.Warnings, info.Warnings...)
	x.warnUnrestored(info)
	x.warnStreams()
	report, want, err := x.exactPass(ctx, s, info)
	if err != nil {
		return nil, err
	}
	if x.c.Scope == results.ScopeDevice {
		if err := x.timedPasses(ctx, s, info, want); err != nil {
			return nil, err
		}
		if err := x.batchPasses(ctx, s, info); err != nil {
			return nil, err
		}
	}
	if x.first {
		return &results.Curves{Series: report.Series, Picture: report.Picture, Strings: x.rec.Trace.Strings}, nil
	}
	return nil, nil
}

func (x *trialRun) warnUnrestored(info SessionInfo) {
	if x.rec.Trace.Start != nil && !info.Restored {
		x.warn("the recording begins with live blocks that this strategy cannot take over: it started empty, and events on those blocks were skipped")
	}
}

// warnStreams says when the check of stream safety is not made, because the strategy does not promise it.
func (x *trialRun) warnStreams() {
	if n := len(x.rec.Trace.Streams); n > 1 && !x.cont.promises("stream-safe") {
		x.warn("it does not promise stream safety (O7 is not checked), and the recording uses %d streams", n)
	}
}

func (x *trialRun) warn(format string, args ...any) {
	x.trial.Warnings = append(x.trial.Warnings, fmt.Sprintf(format, args...))
}

func (x *trialRun) config(info SessionInfo) ledger.Config {
	t := x.rec.Trace
	cfg := ledger.Config{
		Extras: t.Extras, Strings: t.Strings, DeviceTotalBytes: info.Device.TotalBytes, DevicePageBytes: info.Device.PageBytes,
		AlignmentBytes: x.cont.Alignment, MemInfoExact: info.Device.Deterministic, ModelledTime: info.Device.ModelledTime,
		Hostages: true, IgnoreStreams: !x.cont.promises("stream-safe"), TickNs: info.TickNs, ClockCostTicks: uint32(info.Clock.CostNs/info.TickNs + 0.5),
	}
	if info.Restored {
		cfg.Start = t.Start
	}
	return cfg
}

// exactPass replays the trace once with the whole ledger, closes the case so that leaks show, and opens it again. Its times are those of cold code and
// first touch, and are thrown away: it is the warm-up of the passes that are timed.
func (x *trialRun) exactPass(ctx context.Context, s Session, info SessionInfo) (*ledger.Report, uint64, error) {
	cfg := x.config(info)
	if x.first {
		cfg.Series, cfg.PictureRects = true, x.r.PictureRects
	}
	l := ledger.New(cfg)
	h := newAnswerHash()
	feed := func(w Window) error {
		h.add(w.Outcomes, info.Device.ModelledTime)
		return x.feed(l, w)
	}
	o := NewOverlap(feed)
	st, err := s.Replay(ctx, o.Add)
	if werr := o.Wait(); err == nil {
		err = werr
	}
	if err == nil {
		err = s.Reopen(ctx, TimePerEvent, feed)
	}
	if err != nil {
		return nil, 0, err
	}
	l.Closed()
	x.trial.Discarded = st.Events
	x.trial.Warnings = append(x.trial.Warnings, st.Warnings...)
	report := l.Finish()
	raw, err := json.Marshal(&report.Exact)
	if err != nil {
		return nil, 0, err
	}
	sum := sha256.Sum256(raw)
	x.trial.Exact = &report.Exact
	if info.Device.Deterministic { // real memory answers with other addresses each time, so equal trials have unequal metrics
		x.trial.ExactHash = hex.EncodeToString(sum[:])
	}
	return &report, h.sum(), nil
}

func (x *trialRun) feed(l *ledger.Ledger, w Window) error {
	t := x.rec.Trace
	end := w.First + uint64(len(w.Outcomes))
	if end > uint64(len(t.Events)) {
		return fmt.Errorf("the plugin answered event %d of a trace with %d", end-1, len(t.Events))
	}
	var times []int64
	if len(t.TimesNs) > 0 {
		times = t.TimesNs[w.First:end]
	}
	return l.Feed(w.First, t.Events[w.First:end], times, w.Outcomes, w.Calls)
}

func (x *trialRun) timedPasses(ctx context.Context, s Session, info SessionInfo, want uint64) error {
	latencies := ledger.NewLatencies(x.config(info))
	var loop float64
	for began := clock.Monotonic(); x.trial.Passes == 0 || clock.Monotonic()-began < maxRepeat; {
		h := newAnswerHash()
		st, err := s.Replay(ctx, func(w Window) error {
			h.add(w.Outcomes, info.Device.ModelledTime)
			latencies.Feed(x.rec.Trace.Events[w.First:w.First+uint64(len(w.Outcomes))], w.Outcomes)
			return nil
		})
		if err != nil {
			return err
		}
		x.trial.Passes++
		x.trial.GCs += st.GCs
		loop += st.LoopNs
		if info.Device.Deterministic && h.sum() != want {
			x.warn("%v at repetition %d: it is not deterministic", ErrNotDeterministic, x.trial.Passes)
			want = h.sum()
		}
		if loop >= minLoopNs && latencies.Samples() >= minSamples {
			break
		}
	}
	x.trial.Timed = latencies.Report()
	if x.trial.GCs > 0 {
		x.warn("%d garbage collections ran inside the timed loop", x.trial.GCs)
	}
	return nil
}

func (x *trialRun) batchPasses(ctx context.Context, s Session, info SessionInfo) error {
	if err := s.Reopen(ctx, TimeBatch, nil); err != nil {
		return err
	}
	b := &results.Batch{}
	var loop, wall, device, loopCost float64
	for began := clock.Monotonic(); b.Passes == 0 || loop < minLoopNs && clock.Monotonic()-began < maxRepeat; {
		st, err := s.Replay(ctx, func(w Window) error {
			for i := range w.Outcomes {
				device += float64(w.Outcomes[i].DeviceNs)
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.Passes++
		b.Events += st.Events
		loop, wall, loopCost = loop+st.LoopNs, wall+st.WallNs, st.LoopCostNs
		x.trial.GCs += st.GCs
		if st.Events == 0 {
			break
		}
	}
	if n := float64(b.Events); n > 0 {
		b.PolicyMeanNs = max(0, (loop-wall)/n-loopCost)
		b.DeviceMeanNs, b.DeviceWallNs = device/n, wall/n
		b.LoopPerSecond = n / loop * 1e9
	}
	x.trial.Batch = b
	return s.Finish(ctx, nil)
}

// answerHash digests what a strategy answered, without anything measured.
type answerHash struct {
	h     *xxh3.Hasher
	clean []trace.Outcome
}

func newAnswerHash() *answerHash { return &answerHash{h: xxh3.New()} }

// add digests outcomes; device time counts only when it is a model's.
func (a *answerHash) add(outcomes []trace.Outcome, modelled bool) {
	a.clean = append(a.clean[:0], outcomes...)
	for i := range a.clean {
		a.clean[i].PolicyTicks, a.clean[i].Flags = 0, 0
		if !modelled {
			a.clean[i].DeviceNs = 0
		}
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a.clean))), len(a.clean)*trace.OutcomeBytes)
	_, _ = a.h.Write(raw)
}

func (a *answerHash) sum() uint64 { return a.h.Sum64() }
