package fuzz

import (
	"errors"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// ErrSession says that the target cannot be talked to; no finding.
var ErrSession = errors.New("the session broke")

// variants runs the program changed in ways that must not matter (O10): handles renamed, after a reset, with a checkpoint that
// is restored at once, and in this process instead of another.
func (j *Judge) variants(t *trace.Trace) (*Breach, error) {
	if !j.target.promises(sdk.PromiseDeterministic) {
		return nil, nil
	}
	for _, v := range []func(*trace.Trace) (*Breach, error){j.relabelled, j.checkpointed, j.afterReset, j.elsewhere} {
		if b, err := v(t); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// relabelled gives handles other names and slots in reverse.
func (j *Judge) relabelled(t *trace.Trace) (*Breach, error) {
	r := *t
	r.Events = append([]trace.Event(nil), t.Events...)
	r.Extras = append([]trace.Extra(nil), t.Extras...)
	for i := range r.Events {
		if ev := &r.Events[i]; ev.Kind.NamesHandle() {
			ev.Handle += 1 << 32
			ev.Slot = t.Slots - 1 - ev.Slot
		}
	}
	for i := range r.Extras {
		if x := &r.Extras[i]; x.Handle2 != 0 {
			x.Handle2 += 1 << 32
			x.Slot2 = t.Slots - 1 - x.Slot2
		}
	}
	return j.compare(t, &r, nil, "with handles renamed")
}

// checkpointed has a checkpoint and its restore in the middle.
func (j *Judge) checkpointed(t *trace.Trace) (*Breach, error) {
	if !j.target.can(sdk.CapCheckpoint) || len(t.Events) < 2 {
		return nil, nil
	}
	j.variant = plan.Ops(j.variant[:0], t)
	mid := len(j.variant) / 2
	name := "c3"
	for i := range j.variant {
		if j.variant[i].Text == name {
			return nil, nil // the program uses the name itself
		}
	}
	list := append([]plan.Op(nil), j.variant[:mid]...)
	list = append(list, plan.Op{Kind: trace.KindCheckpoint, Text: name}, plan.Op{Kind: trace.KindRestore, Text: name})
	list = append(list, j.variant[mid:]...)
	r := j.writer.Write(list, len(t.Streams))
	if len(r.Events) != len(t.Events)+2 {
		return nil, nil // the program is one that our writer does not write
	}
	return j.compare(t, r, []int{mid, mid + 1}, "with the layout saved and restored before the event "+t.Events[mid].Kind.String())
}

// afterReset runs the program twice with a reset between.
func (j *Judge) afterReset(t *trace.Trace) (*Breach, error) {
	if !j.target.can(sdk.CapReset) || 2*int(t.Slots) > plan.HandlesMax {
		return nil, nil
	}
	j.variant = plan.Ops(j.variant[:0], t)
	list := append([]plan.Op(nil), j.variant...)
	list = append(list, plan.Op{Kind: trace.KindEvents}, plan.Op{Kind: trace.KindComplete, Flags: trace.FlagAll}, plan.Op{Kind: trace.KindReset})
	shift := trace.Handle(0)
	for i := range j.variant {
		shift = max(shift, j.variant[i].Handle)
		switch j.variant[i].Kind {
		case trace.KindSet, trace.KindFailNext, trace.KindStreamDestroy, trace.KindRestore:
			return nil, nil // what a reset does not, or need not, take back
		}
	}
	for _, o := range j.variant {
		if o.Handle != 0 {
			o.Handle += shift
		}
		if o.Old != 0 {
			o.Old += shift
		}
		list = append(list, o)
	}
	r := j.writer.Write(list, len(t.Streams))
	if len(r.Events) != 2*len(t.Events)+3 {
		return nil, nil
	}
	skip := make([]int, len(t.Events)+3)
	for i := range skip {
		skip[i] = i
	}
	return j.compare(t, r, skip, "after the same program and a reset")
}

// compare runs r and compares with the first run, leaving out the events of r in skip, in order.
func (j *Judge) compare(t, r *trace.Trace, skip []int, what string) (*Breach, error) {
	run, err := j.fresh(r)
	if err != nil {
		return nil, err
	}
	if run.Crash != nil {
		b := crashed(run.Crash, StageVariants)
		b.Observed = what + ": " + b.Observed
		return b, nil
	}
	got := run.Outcomes[:0:0]
	for i := range run.Outcomes {
		if len(skip) > 0 && skip[0] == i {
			if k := r.Events[i].Kind; run.Outcomes[i].Status != trace.StatusOK && (k == trace.KindCheckpoint || k == trace.KindRestore || k == trace.KindReset) {
				return nil, nil // it was not done: nothing to compare
			}
			skip = skip[1:]
			continue
		}
		got = append(got, run.Outcomes[i])
	}
	return differ(t, j.first, got, true, what), nil
}

// elsewhere compares a target of another process with the same strategy in this one.
func (j *Judge) elsewhere(t *trace.Trace) (*Breach, error) {
	if j.target.InProcess == nil {
		return nil, nil
	}
	if j.twin == nil {
		s, err := OpenLocal(j.target.InProcess, j.cfg, t)
		if err != nil {
			return nil, err
		}
		j.twin = s
	}
	run, err := j.twin.Execute(t, false)
	if err != nil || run.Crash != nil {
		return nil, err
	}
	return differ(t, run.Outcomes, j.first, true, "in a process of its own"), nil
}
