package fuzz

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

const (
	// roundBatches is the number of batches between two merges of what they found: enough to keep several workers busy, few enough
	// that news of the corpus spreads.
	roundBatches = 8
	// stuckAfter is how long a program may run before its worker is given up. It is far above hangDeadline, since a worker also judges.
	stuckAfter = 2 * hangDeadline
	// lookEvery is how often workers are looked at.
	lookEvery = 100 * time.Millisecond
	// canaryBatches bounds the search for the canary's bug: it shows in a few dozen allocations.
	canaryBatches = 24
	// stuckMax ends a campaign whose workers get stuck again and again: their goroutines cannot be ended.
	stuckMax = 4
	// refusedMax ends a campaign that runs nothing: so many batches in a row in which the strategy does not open.
	refusedMax = 400
)

// Options say how a campaign goes.
type Options struct {
	Seed         uint64
	Time         time.Duration // 0: no limit
	Programs     uint64        // 0: no limit; checked between rounds
	Workers      int           // 0: one
	UntilFinding bool
	State        string  // directory of corpus and progress, to resume; "" keeps nothing
	Findings     string  // directory of findings; "" writes none
	Canary       *Target // a target that is wrong, found first or the campaign is blind; nil: none
	Version      string  // of gpubench, for findings
	Checksum     string  // of the target's executable
	EventsMax    int     // of a program; 0: EventsMax
	Uniform      bool    // uniform programs only, without a corpus: for comparisons
	// Progress is called between rounds and a few times a second, from one goroutine.
	Progress func(*Report)
}

// Report is what a campaign did and found. It is exact up to the end of the last round.
type Report struct {
	Target       string       `json:"target"`
	Backend      string       `json:"backend"`
	Seed         uint64       `json:"seed"`
	Rounds       uint64       `json:"rounds"`
	Programs     uint64       `json:"programs"`
	Judged       uint64       `json:"programs_judged"` // with every check
	Events       uint64       `json:"events"`
	Edges        int          `json:"edges"`
	Corpus       int          `json:"corpus"`
	Refused      uint64       `json:"plans_refused"`
	Unreproduced uint64       `json:"unreproduced"` // breaches seen once and never again
	Stuck        int          `json:"stuck_workers"`
	Seconds      float64      `json:"seconds"`
	Resumed      bool         `json:"resumed,omitempty"`
	Canary       string       `json:"canary"` // "found", "not found: the campaign is blind", "not run"
	Checks       []CheckState `json:"checks"`
	Findings     []*Finding   `json:"findings"`
	Paths        []string     `json:"paths,omitempty"` // of the findings' directories
	Matrix       Matrix       `json:"-"`
	Warnings     []string     `json:"warnings,omitempty"`
}

// Blind reports whether the campaign did not find the canary's bug, so that its silence means nothing.
func (r *Report) Blind() bool { return r.Canary == canaryMissed }

const (
	canaryFound  = "found"
	canaryMissed = "not found: the campaign is blind"
	canaryNotRun = "not run"
)

// campaign is one under way.
type campaign struct {
	target *Target
	opts   Options
	limits plan.Limits
	report Report
	edges  Edges
	corpus []Entry
	causes map[string]*Finding
	idle   chan *worker
	stop   atomic.Bool // time is up: batches end early, and the round counts for nothing when resumed
	start  time.Duration
	told   time.Duration
	saved  time.Duration
	before float64 // seconds of the runs before this one
	empty  int     // batches refused in a row
}

// Run runs a campaign on a target until its time or its programs are used up, ctx ends, or (UntilFinding) something is found. The same
// seed gives the same programs and findings, with any number of workers, as far as it gets; only hangs depend on real time.
// The error says that the campaign could not go on; the report has what was found until then.
func Run(ctx context.Context, t *Target, o Options) (*Report, error) {
	c := &campaign{target: t, opts: o, limits: t.Limits(), causes: map[string]*Finding{}, start: clock.Monotonic()}
	if o.Workers <= 0 {
		c.opts.Workers = 1
	}
	if o.EventsMax > 0 {
		c.limits.LengthMax = min(o.EventsMax, plan.HandlesMax)
	}
	c.limits.UniformOnly = o.Uniform
	backend := t.Backend
	if backend == "" {
		backend = BackendIdeal
	}
	c.report = Report{Target: t.Name, Backend: backend, Seed: o.Seed, Canary: canaryNotRun, Checks: t.Checks()}
	if err := c.load(); err != nil {
		return &c.report, err
	}
	if err := c.canary(ctx); err != nil {
		return &c.report, err
	}
	err := c.replayCorpus(ctx)
	for err == nil && c.more(ctx) {
		err = c.round(ctx)
	}
	if c.report.Unreproduced > 0 {
		c.warn("%d breaches showed once and never again: the target's state depends on more than the program", c.report.Unreproduced)
	}
	if serr := c.save(); err == nil {
		err = serr
	}
	c.tell(true)
	return &c.report, err
}

// more reports whether another round is to be run.
func (c *campaign) more(ctx context.Context) bool {
	switch {
	case ctx.Err() != nil, c.stop.Load(), c.opts.UntilFinding && len(c.report.Findings) > 0, c.opts.Programs > 0 && c.report.Programs >= c.opts.Programs:
		return false
	case c.opts.Time > 0 && clock.Monotonic()-c.start >= c.opts.Time:
		return false
	case c.report.Stuck >= stuckMax:
		c.warn("ended early: %d workers hang in the target and cannot be ended", c.report.Stuck)
		return false
	case c.empty >= refusedMax:
		c.warn("ended early: the strategy does not open in any of %d configurations", c.empty)
		return false
	}
	return true
}

func (c *campaign) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(c.report.Warnings, w) {
		c.report.Warnings = append(c.report.Warnings, w)
	}
}

// canary looks for the bug of a target that has one, with the same generator and checks.
func (c *campaign) canary(ctx context.Context) error {
	if c.opts.Canary == nil || c.report.Resumed {
		return nil
	}
	w := newWorker(c.opts.Canary, c.opts.Canary.Limits(), c.opts.Seed, new(atomic.Bool))
	snap := &snapshot{edges: &Edges{}}
	c.report.Canary = canaryMissed
	for n := range uint64(canaryBatches) {
		r := w.batch(n, snap)
		if r.err != nil {
			return fmt.Errorf("canary %s: %w", c.opts.Canary.Name, r.err)
		}
		if len(r.hits) > 0 {
			c.report.Canary = canaryFound
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

// replayCorpus judges every program of the corpus first, in the device that fits the target by default.
func (c *campaign) replayCorpus(ctx context.Context) error {
	if c.report.Resumed || len(c.corpus) == 0 {
		return nil
	}
	w := newWorker(c.target, c.limits, c.opts.Seed, &c.stop)
	bytes := c.limits.DeviceMax
	cfg := c.target.configOf(&plan.Plan{DeviceBytes: bytes, ArenaBytes: bytes}, c.opts.Seed)
	g := &guarded{target: c.target, cfg: cfg, until: StageVariants, deadline: hangDeadline}
	defer g.Close()
	for i := range c.corpus {
		if ctx.Err() != nil {
			return nil
		}
		t := cloneProgram(w.writer.Write(c.corpus[i].Ops, 0))
		b, err := g.Judge(t)
		if err = unlessRefusal(err); err != nil {
			return err
		}
		c.report.Programs++
		c.report.Judged++
		c.report.Events += uint64(len(t.Events))
		if b != nil {
			if err := c.hit(hit{cfg: cfg, ops: c.corpus[i].Ops, streams: len(t.Streams), breach: b, index: uint64(i)}, 0, c.report.Programs); err != nil {
				return err
			}
		}
	}
	return nil
}

// round runs roundBatches batches from one snapshot and merges what they found in the order of their numbers.
func (c *campaign) round(ctx context.Context) error {
	first := c.report.Rounds * roundBatches
	edges := c.edges
	snap := &snapshot{edges: &edges, corpus: c.corpus}
	results := make([]batchResult, roundBatches)
	c.runBatches(ctx, first, snap, results)
	for i := range results {
		if err := c.merge(&results[i]); err != nil {
			return err
		}
		if c.opts.UntilFinding && len(c.report.Findings) > 0 {
			break
		}
	}
	if len(c.corpus) > corpusMax {
		c.corpus = minimiseCorpus(c.corpus)
	}
	if !c.stop.Load() { // an unfinished round is run again by who resumes: its programs are counted twice, its findings once
		c.report.Rounds++
	}
	c.report.Edges, c.report.Corpus = c.edges.Len(), len(c.corpus)
	c.tell(false)
	return c.saveSometimes()
}

// merge adds the results of a batch.
func (c *campaign) merge(r *batchResult) error {
	if r.err != nil {
		return r.err
	}
	if c.empty++; !r.refused || r.programs > 0 {
		c.empty = 0
	}
	if r.refused {
		c.report.Refused++
	}
	before := c.report.Programs
	c.report.Programs += r.programs
	c.report.Events += r.events
	c.report.Judged += r.deep
	c.report.Unreproduced += r.unreproduced
	for k := range r.matrix {
		for s := range r.matrix[k] {
			c.report.Matrix[k][s] += r.matrix[k][s]
		}
	}
	for _, h := range r.hits {
		if f := c.causes[h.breach.Cause()]; f != nil {
			f.Count++
			continue
		}
		if err := c.hit(h, r.number, before+h.index+1); err != nil {
			return err
		}
	}
	if c.opts.Uniform {
		return nil
	}
	for _, e := range r.novel {
		fresh := false
		for _, x := range e.Edges {
			fresh = fresh || !c.edges.Has(x)
		}
		for _, x := range e.Edges {
			c.edges.Add(x)
		}
		if fresh {
			c.corpus = append(c.corpus, e)
		}
	}
	c.edges.Merge(&r.edges)
	return nil
}

// hit makes a finding of a program that broke something, unless its cause is known.
func (c *campaign) hit(h hit, batch, programs uint64) error {
	f := triage(c.target, h)
	f.Seed, f.Batch, f.Environment, f.Checksum = c.opts.Seed, batch, HereAndNow(c.opts.Version), c.opts.Checksum
	f.Programs = programs
	c.causes[h.breach.Cause()] = f
	if known := c.causes[f.Breach.Cause()]; known != nil && known != f { // shrinking led to a cause that is known
		known.Count++
		c.causes[h.breach.Cause()] = known
		return nil
	}
	c.causes[f.Breach.Cause()] = f
	c.report.Findings = append(c.report.Findings, f)
	if c.opts.Findings == "" {
		return nil
	}
	path, err := f.Write(c.opts.Findings, clock.Now())
	if err != nil {
		return err
	}
	c.report.Paths = append(c.report.Paths, path)
	return nil
}

// tell reports progress, a few times a second at most unless it is the end.
func (c *campaign) tell(end bool) {
	now := clock.Monotonic()
	c.report.Seconds = c.before + (now - c.start).Seconds()
	if c.opts.Progress != nil && (end || now-c.told > 200*time.Millisecond) {
		c.told = now
		c.opts.Progress(&c.report)
	}
}

// Kinds returns the kinds of events that the matrix has counts of.
func (m *Matrix) Kinds() []trace.Kind {
	var list []trace.Kind
	for k := range m {
		if slices.ContainsFunc(m[k][:], func(n uint64) bool { return n > 0 }) {
			list = append(list, trace.Kind(k))
		}
	}
	return list
}
