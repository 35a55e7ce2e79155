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

// program checks a program, and reports whether something looks wrong. known are the edges that others saw.
func (q *quick) program(t *trace.Trace, run *Result, known *Edges) (suspect bool) {
	q.led.Continue(t.Extras, t.Strings)
	if q.fed > 0 {
		for i := range run.Calls {
			if c := &run.Calls[i]; c.Event < trace.EventClose {
				c.Event += q.fed
			}
		}
	}
	if err := q.led.Feed(q.fed, t.Events, nil, run.Outcomes, run.Calls); err != nil {
		return true
	}
	q.fed += uint64(len(run.Outcomes))
	suspect = len(q.led.Violations()) > 0
	if q.careful {
		now := q.led.SpuriousFailures()
		suspect = suspect || now.NoneNeeded != q.spurious.NoneNeeded || now.DropCaches != q.spurious.DropCaches
		q.spurious = now
	}
	q.walk.begin(int(t.Slots))
	q.fresh = q.fresh[:0]
	for i := range run.Outcomes {
		ev, o := &t.Events[i], &run.Outcomes[i]
		if o.Status > trace.StatusError {
			return true
		}
		q.matrix[ev.Kind][o.Status]++
		suspect = suspect || o.Status == trace.StatusError
		if q.waste && ev.Kind.TakesMemory() && o.Status.Placed() {
			suspect = suspect || wasted(q.target, ev, o) != nil
		}
		edge := q.walk.step(ev, o)
		if !known.Has(edge) && q.edges.Add(edge) {
			q.fresh = append(q.fresh, edge)
		}
	}
	return suspect
}
