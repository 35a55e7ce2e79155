package fuzz

import (
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Matrix counts events by kind and status: which states were reached, and which never.
type Matrix [trace.KindCount][trace.StatusError + 1]uint64

// quick makes the checks that cost no more than the allocator itself: the ledger over all events of a session, waste, and spurious
// failures as the ledger counts them. What it suspects, a Judge looks at.
type quick struct {
	target   *Target
	cfg      Config
	led      *ledger.Ledger
	fed      uint64 // events since the session was opened
	spurious ledger.Spurious
	careful  bool // spurious failures are promised away
	waste    bool
	walk     walk
	edges    Edges
	fresh    []uint16 // edges of the last program that were new
	matrix   Matrix
}

func newQuick(t *Target) *quick {
	return &quick{target: t, led: ledger.New(ledger.Config{}), careful: t.promises(sdk.PromiseNoSpuriousFailure),
		waste: t.promises(sdk.PromiseBoundedWaste) && t.Desc.WasteFactor >= 1}
}

// open begins a session. The next program is its first, and comes with the calls of the opening.
func (q *quick) open(cfg Config, t *trace.Trace) {
	q.cfg = cfg
	q.led.Reset(ledgerConfig(q.target, &q.cfg, t))
	q.fed, q.spurious = 0, ledger.Spurious{}
}

// suspicion is what the quick checks think of a program.
type suspicion uint8

const (
	innocent suspicion = iota
	doubtful           // a failure that may have a good reason: only a judge can tell
	guilty             // the books are broken
	spoilt             // the target says that it broke after a failed device call: nothing to judge, and nothing to go on from
)

// program checks a program. known are the edges that others saw.
func (q *quick) program(t *trace.Trace, run *Result, known *Edges) (suspect suspicion) {
	q.led.Continue(t.Extras, t.Strings)
	if q.fed > 0 {
		for i := range run.Calls {
			if c := &run.Calls[i]; c.Event < trace.EventClose {
				c.Event += q.fed
			}
		}
	}
	if q.gaveUp(t, run) {
		return spoilt
	}
	if err := q.led.Feed(q.fed, t.Events, nil, run.Outcomes, run.Calls); err != nil {
		return guilty
	}
	q.fed += uint64(len(run.Outcomes))
	if len(q.led.Violations()) > 0 {
		return guilty
	}
	failures := false
	if q.careful {
		now := q.led.SpuriousFailures()
		failures = now.NoneNeeded != q.spurious.NoneNeeded || now.DropCaches != q.spurious.DropCaches
		q.spurious = now
	}
	q.walk.begin(int(t.Slots))
	q.fresh = q.fresh[:0]
	for i := range run.Outcomes {
		ev, o := &t.Events[i], &run.Outcomes[i]
		if o.Status > trace.StatusError {
			return guilty
		}
		q.matrix[ev.Kind][o.Status]++
		if o.Status == trace.StatusError {
			suspect = doubtful
		}
		if failures && o.Status == trace.StatusFailed && 1<<ev.AlignLog2 <= max(q.target.Desc.Alignment, 1) {
			suspect = doubtful
		}
		if q.waste && ev.Kind.TakesMemory() && o.Status.Placed() && wasted(q.target, ev, o) != nil {
			suspect = doubtful
		}
		edge := q.walk.step(ev, o)
		if !known.Has(edge) && q.edges.Add(edge) {
			q.fresh = append(q.fresh, edge)
		}
	}
	return suspect
}

// gaveUp looks for the answer of a target that broke; see the function gaveUp.
func (q *quick) gaveUp(t *trace.Trace, run *Result) bool {
	for i := range run.Outcomes {
		if o := &run.Outcomes[i]; o.Status == trace.StatusError && o.Calls > 0 && gaveUp(&t.Events[i], o, run.Calls) {
			return true
		}
	}
	return false
}
