package fuzz

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

const (
	// batchPrograms is the number of programs of one plan: enough to make opening the strategy and drawing the plan cheap.
	batchPrograms = 256
	// swarmEvery is the number of programs with the same set of kinds of events.
	swarmEvery = 8
	// deepEvery is the share of programs that are judged with everything, whatever the quick checks say: one in so many.
	deepEvery = 32
	// noveltyMax bounds the programs that one batch adds to the corpus.
	noveltyMax = 8
	// historyEvents bounds a history of a batch that is tried where a program alone shows nothing.
	historyEvents = 6000
)

// snapshot is what all batches of a round start from, so that a round gives the same results in whatever order its batches run.
type snapshot struct {
	corpus []Entry
	edges  *Edges
}

// batchResult is what one batch found.
type batchResult struct {
	number       uint64
	programs     uint64
	events       uint64
	refused      bool // the strategy does not open in this configuration
	unreproduced uint64
	deep         uint64
	edges        Edges
	matrix       Matrix
	novel        []Entry
	hits         []hit
	err          error
}

// hit is a program that broke something, as it was found.
type hit struct {
	cfg     Config
	ops     []plan.Op
	streams int
	breach  *Breach
	index   uint64 // program of the batch
}

// worker runs batches, one after the other.
type worker struct {
	target  *Target
	limits  plan.Limits
	seed    uint64
	gen     *plan.Generator
	quick   *quick
	writer  *plan.Writer
	ops     []plan.Op
	scratch []plan.Op
	beat    atomic.Uint64               // counts programs begun
	current atomic.Pointer[trace.Trace] // the program that runs: read only when the worker is stuck
	stop    *atomic.Bool                // when set, batches end early
	prolog  int
	resets  bool
}

func newWorker(t *Target, limits plan.Limits, seed uint64, stop *atomic.Bool) *worker {
	w := &worker{target: t, limits: limits, seed: seed, stop: stop, gen: plan.NewGenerator(limits), quick: newQuick(t), writer: plan.NewWriter(limits.Settings)}
	if w.resets = limits.Kinds[trace.KindReset]; w.resets {
		prologue := []plan.Op{{Kind: trace.KindEvents}, {Kind: trace.KindComplete, Flags: trace.FlagAll}, {Kind: trace.KindReset}}
		w.gen.SetPrologue(prologue)
		w.prolog = len(prologue)
	}
	return w
}

// generate makes program i of a batch. It depends on the source's state and the snapshot alone.
func (w *worker) generate(src *plan.Random, i int, snap *snapshot) *trace.Trace {
	if i%swarmEvery == 0 {
		w.gen.Swarm(src)
	}
	if n := len(snap.corpus); n > 0 && src.Draw(3) == 0 {
		var t *trace.Trace
		t, w.scratch = w.gen.Mutate(src, snap.corpus[src.Draw(n)].Ops, snap.corpus[src.Draw(n)].Ops, w.scratch)
		return t
	}
	return w.gen.Program(src)
}

// batch runs batch n.
func (w *worker) batch(n uint64, snap *snapshot) (r batchResult) {
	r.number = n
	p := plan.Fill(w.seed+n*0x9E3779B97F4A7C15, w.limits)
	w.gen.SetPlan(p)
	cfg := w.target.configOf(&p, w.seed^n)
	src := plan.NewRandom(w.seed, n)
	w.quick.edges, w.quick.matrix = Edges{}, Matrix{}
	defer func() { r.edges, r.matrix = w.quick.edges, w.quick.matrix }()
	var sess Session
	var judge *Judge
	defer func() {
		if sess != nil {
			_ = sess.Close() // a failing close is the judge's to find
		}
		if judge != nil {
			judge.Close()
		}
	}()
	armed := false // the last program may have left a device call to fail
	for i := range batchPrograms {
		if w.stop.Load() {
			return r
		}
		t := w.generate(src, i, snap)
		w.current.Store(t)
		w.beat.Add(1)
		keep := sess != nil && w.resets && i > 0 && !armed
		if sess == nil {
			var err error
			if sess, err = w.target.open(cfg, t); err != nil {
				r.refused, r.err = true, unlessRefusal(err)
				return r
			}
		}
		if !keep {
			w.quick.open(cfg, t)
		}
		if s, ok := sess.(*local); ok {
			s.cancelFaults()
		} else {
			armed = slices.ContainsFunc(t.Events, func(ev trace.Event) bool { return ev.Kind == trace.KindFailNext })
		}
		run, err := sess.Execute(t, keep)
		if err != nil {
			r.err = unlessRefusal(err)
			return r
		}
		r.programs++
		r.events += uint64(len(t.Events))
		suspect := guilty
		if run.Crash == nil {
			suspect = w.quick.program(t, &run, snap.edges)
		}
		if suspect == spoilt {
			_ = sess.Close()
			sess = nil
			continue
		}
		if suspect != guilty && len(w.quick.fresh) > 0 && len(r.novel) < noveltyMax {
			r.novel = append(r.novel, newEntry(w.strip(t), w.quick.fresh))
		}
		if suspect == innocent && i%deepEvery != deepEvery-1 {
			continue
		}
		r.deep++
		if judge == nil {
			judge = NewJudge(w.target, cfg)
		}
		if !w.look(&r, judge, t, suspect, uint64(i), snap) {
			return r
		}
		if suspect == guilty { // the state is spoilt
			_ = sess.Close()
			sess = nil
		}
	}
	return r
}

// unlessRefusal drops the errors that only say that a configuration is not to the strategy's liking.
func unlessRefusal(err error) error {
	if errors.Is(err, ErrConfig) {
		return nil
	}
	return err
}

// strip returns the ops of a program without the prologue.
func (w *worker) strip(t *trace.Trace) []plan.Op {
	w.ops = w.ops[:0]
	for i := w.prolog; i < len(t.Events); i++ {
		w.ops = append(w.ops, plan.OpAt(t, i))
	}
	return w.ops
}

// look judges program i. It is false when the batch cannot go on.
func (w *worker) look(r *batchResult, judge *Judge, t *trace.Trace, suspect suspicion, i uint64, snap *snapshot) bool {
	streams := len(t.Streams)
	ops := append([]plan.Op(nil), w.strip(t)...)
	alone := w.writer.Write(ops, streams)
	w.current.Store(alone)
	b, err := judge.Judge(alone)
	if err != nil {
		r.err = unlessRefusal(err)
		return false
	}
	if b == nil && suspect == guilty {
		// Alone it shows nothing: perhaps what the programs before it left behind does it.
		ops, b = w.history(r.number, i, judge, snap, streams)
		if b == nil {
			r.unreproduced++
			return true
		}
	}
	if b != nil {
		r.hits = append(r.hits, hit{cfg: judge.cfg, ops: ops, streams: streams, breach: b, index: i})
	}
	return true
}

// history makes one program of the last programs of a batch up to program i, as they ran, and judges it. The generator draws them once
// more; afterwards it stands where it stood.
func (w *worker) history(batch, i uint64, judge *Judge, snap *snapshot, streams int) ([]plan.Op, *Breach) {
	if !w.resets {
		return nil, nil
	}
	src := plan.NewRandom(w.seed, batch)
	w.gen.Again()
	var parts [][]plan.Op
	for k := range int(i) + 1 {
		parts = append(parts, plan.Ops(nil, w.generate(src, k, snap)))
	}
	// As many of the last programs as there is room for.
	from, events, handles := len(parts), 0, trace.Handle(0)
	for from > 0 {
		p := parts[from-1]
		events, handles = events+len(p), handles+plan.Highest(p)
		if events > historyEvents || handles > plan.HandlesMax {
			break
		}
		from--
	}
	var list []plan.Op
	shift := trace.Handle(0)
	for _, p := range parts[from:] {
		for _, o := range p {
			if o.Handle != 0 {
				o.Handle += shift
			}
			if o.Old != 0 {
				o.Old += shift
			}
			list = append(list, o)
		}
		shift += plan.Highest(p)
	}
	b, err := judge.Judge(w.writer.Write(list, streams))
	if err != nil || b == nil {
		return nil, nil
	}
	return list, b
}
