package fuzz

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

const (
	// hangDeadline is how long a program may take in process: ten thousand times what the longest takes.
	hangDeadline = 5 * time.Second
	// hangDeadlineShrink is the same for the candidates of a shrinking, which are many.
	hangDeadlineShrink = 250 * time.Millisecond
	// hangsMax bounds the goroutines that hanging candidates leave behind: Go cannot end them.
	hangsMax = 12
)

// errHangs ends a shrinking whose candidates hang too often.
var errHangs = errors.New("too many candidates hang")

// guarded judges programs with a deadline. A judge that does not return is left behind, with its goroutine, and another is made.
type guarded struct {
	target   *Target
	cfg      Config
	until    Stage
	deadline time.Duration
	hangs    int
	judge    *Judge
}

// Judge is Judge.Judge with a deadline; a program that passes it is a hang.
func (g *guarded) Judge(t *trace.Trace) (*Breach, error) {
	if g.hangs >= hangsMax {
		return nil, errHangs
	}
	if g.judge == nil {
		g.judge = NewJudge(g.target, g.cfg)
	}
	g.judge.Until(g.until)
	type verdict struct {
		b   *Breach
		err error
	}
	done := make(chan verdict, 1)
	j, copied := g.judge, cloneProgram(t)
	go func() {
		b, err := j.Judge(copied)
		done <- verdict{b, err}
	}()
	timer := time.NewTimer(g.deadline)
	defer timer.Stop()
	select {
	case v := <-done:
		return v.b, v.err
	case <-timer.C:
		g.judge = nil
		g.hangs++
		return &Breach{Check: CheckHang, Code: codeHang, Event: max(len(t.Events)-1, 0), Expected: "an end", Observed: fmt.Sprintf("no end within %v", g.deadline)}, nil
	}
}

// Close closes what does not hang.
func (g *guarded) Close() {
	if g.judge != nil {
		g.judge.Close()
	}
}

// cloneProgram copies a program, so that a judge that was left behind reads nothing that changes.
func cloneProgram(t *trace.Trace) *trace.Trace {
	c := *t
	c.Events, c.Extras, c.Strings = slices.Clone(t.Events), slices.Clone(t.Extras), slices.Clone(t.Strings)
	return &c
}

// triage makes a finding of a hit: it looks whether the breach shows every time, shrinks the program, and runs the result once more,
// from its text, as a reader will.
func triage(t *Target, h hit) *Finding {
	g := &guarded{target: t, cfg: h.cfg, until: h.breach.Stage, deadline: hangDeadline}
	if h.breach.Code == codeHang {
		g.deadline = hangDeadlineShrink
	}
	defer g.Close()
	w := plan.NewWriter(nil)
	// The writer's memory is used again: what is kept must be copied.
	original := cloneProgram(w.Write(h.ops, h.streams))
	k := reliability(g, original, h.breach)
	s := Shrinker{Test: g.Judge, Keep: h.breach, AlignBytes: max(t.Desc.Alignment, 1), Streams: h.streams, Flaky: k < flakyRuns && h.breach.Code != codeHang}
	small := s.Shrink(h.ops)
	minimal := textual(g, small, h.breach)
	f := &Finding{
		Class: h.breach.Code, Target: t.Name, StrategyVersion: t.Desc.Version, Breach: *small.Breach, Config: h.cfg, Events: len(minimal.Events),
		OriginalEvents: len(original.Events), ShrinkRuns: small.Runs, Reliability: fmt.Sprintf("%d/%d", k, flakyRuns), Program: h.index, Count: 1,
		Minimal: minimal, Original: original,
	}
	f.Title = f.title()
	f.run = outcomesOf(t, h.cfg, minimal, h.breach)
	return f
}

// reliability is in how many runs of flakyRuns a breach shows.
func reliability(g *guarded, t *trace.Trace, want *Breach) int {
	n := 0
	for range flakyRuns {
		if b, err := g.Judge(t); err == nil && want.Same(b) {
			n++
		}
	}
	return n
}

// textual returns the shrunk program such that its text, which names streams in order of first use, shows the breach, too. Where a strategy
// asks how many streams a trace has, those that only stand in the table are named by a last event each.
func textual(g *guarded, small Shrunk, want *Breach) *trace.Trace {
	w := plan.NewWriter(nil)
	t := cloneProgram(w.Write(small.Ops, small.Streams))
	if small.Streams <= plan.StreamsUsed(small.Ops) {
		return t
	}
	ops := slices.Clone(small.Ops)
	for i := plan.StreamsUsed(small.Ops); i < small.Streams; i++ {
		ops = append(ops, plan.Op{Kind: trace.KindComplete, Stream: uint16(i)})
	}
	named := cloneProgram(w.Write(ops, 0))
	if b, err := g.Judge(named); err == nil && want.Same(b) {
		return named
	}
	return t
}

// outcomesOf runs a program once more for its diagram. A program that crashes or hangs has none.
func outcomesOf(t *Target, cfg Config, p *trace.Trace, b *Breach) []trace.Outcome {
	if b.Check == CheckHang || b.Check == CheckCrash {
		return nil
	}
	s, err := t.open(cfg, p)
	if err != nil {
		return nil
	}
	defer s.Close()
	run, err := s.Execute(p, false)
	if err != nil || run.Crash != nil {
		return nil
	}
	return slices.Clone(run.Outcomes)
}

// Replay judges a program for a target in a configuration, with a deadline.
func Replay(t *Target, cfg Config, p *trace.Trace) (*Breach, error) {
	g := &guarded{target: t, cfg: cfg, until: StageVariants, deadline: hangDeadline}
	defer g.Close()
	return g.Judge(p)
}

// Reduce shrinks a finding once more and returns what came of it: it may have been found by an earlier version.
func Reduce(t *Target, f *Finding) (*Finding, error) {
	p := f.Original
	if p == nil {
		p = f.Minimal
	}
	b, err := Replay(t, f.Config, p)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("%s: the program shows nothing any more", f.Name())
	}
	n := triage(t, hit{cfg: f.Config, ops: plan.Ops(nil, p), streams: len(p.Streams), breach: b, index: f.Program})
	n.Seed, n.Batch, n.Programs, n.Count, n.Environment = f.Seed, f.Batch, f.Programs, 0, f.Environment
	return n, nil
}
