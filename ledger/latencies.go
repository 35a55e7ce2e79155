package ledger

import "github.com/gpubench/gpubench/trace"

// Latencies collects the times of one or several replays of a trace, without books: for the passes of a trial after the one
// that the ledger has read. Memory does not grow with the number of events.
type Latencies struct {
	t *timing
}

// NewLatencies makes a collector; of the configuration it uses TickNs, the clock's cost and ModelledTime.
func NewLatencies(cfg Config) *Latencies {
	cfg.Timing = true
	var t *timing
	return &Latencies{t: t.ready(&cfg)}
}

// Feed adds outcomes; events are those that they answer, in the same order.
func (l *Latencies) Feed(events []trace.Event, outcomes []trace.Outcome) {
	for i := range outcomes {
		l.t.add(events[i].Kind, &outcomes[i])
	}
}

// Samples is the number of allocs and frees timed so far.
func (l *Latencies) Samples() uint64 { return l.t.samples() }

// Report gives the distributions. Device time that a model made is exact and not in it.
func (l *Latencies) Report() *Timed {
	r, _ := l.t.report()
	r.DeviceCalls = []CallTime{}
	return r
}
