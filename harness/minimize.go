package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// maxMinimizeRuns bounds the replays of a minimisation: delta debugging needs about n·log n of them for n objects that matter, and each takes
// some milliseconds.
const maxMinimizeRuns = 10_000

// ErrDoesNotFail says that there is nothing to minimise.
var ErrDoesNotFail = errors.New("no allocation fails")

// Minimize returns the shortest trace found that still fails: everything behind the first failure is cut off, then objects (an
// allocation with its free and its uses) are taken out in ever smaller groups as long as an allocation of the failing size still
// fails at the end (Zeller's delta debugging on objects; names are never renumbered), to a fixed point. write stores a
// candidate where plugins can open it and returns its recording.
func (r *Runner) Minimize(ctx context.Context, c *results.Case, write func(*trace.Trace) (Recording, error)) (*trace.Trace, error) {
	m := &minimizer{r: r, c: c, write: write}
	full := r.Recordings[c.Trace].Trace
	var err error
	if m.session, m.x, err = r.openOnce(ctx, c, TimeBatch); err != nil {
		return nil, err
	}
	defer m.session.Stop()
	first, err := m.x.firstFailure(ctx, m.session)
	if err != nil {
		return nil, err
	}
	if first == nil {
		return nil, fmt.Errorf("%w: %s runs whole", ErrDoesNotFail, r.Recordings[c.Trace].Name)
	}
	m.objects = objectsOf(full, first.Event)
	m.keep = make([]bool, len(m.objects))
	for i := range m.keep {
		m.keep[i] = true
	}
	if err := m.reduce(ctx, full); err != nil {
		return nil, err
	}
	return m.build(full)
}

// object is the events of one handle, or one event without a handle.
type object struct {
	events []int
	last   bool // holds the failing event: never taken out
}

type minimizer struct {
	r       *Runner
	c       *results.Case
	write   func(*trace.Trace) (Recording, error)
	session Session // one process for all candidates
	x       *trialRun
	objects []object
	keep    []bool
	runs    int
}

// objectsOf groups the events up to the failing one. A realloc joins the objects of both its handles.
func objectsOf(t *trace.Trace, failing uint64) []object {
	var list []object
	at := map[trace.Handle]int{}
	for i := range t.Events[:failing+1] {
		e := &t.Events[i]
		k := -1
		if e.Kind.NamesHandle() {
			if j, ok := at[e.Handle]; ok {
				k = j
			}
			if e.Kind == trace.KindRealloc && e.Flags&trace.FlagExtra != 0 {
				if j, ok := at[t.Extras[e.Aux].Handle2]; ok {
					k = j
				}
			}
		}
		if k < 0 {
			k = len(list)
			list = append(list, object{})
		}
		if e.Kind.NamesHandle() {
			at[e.Handle] = k
		}
		list[k].events = append(list[k].events, i)
		list[k].last = list[k].last || uint64(i) == failing
	}
	return list
}

func (m *minimizer) reduce(ctx context.Context, full *trace.Trace) error {
	for changed := true; changed; {
		changed = false
		for size := (m.kept() + 1) / 2; size >= 1; size /= 2 {
			removed, err := m.sweep(ctx, full, size)
			if err != nil {
				return err
			}
			changed = changed || removed
		}
	}
	return nil
}

// sweep tries to take out each run of size kept objects, from the back.
func (m *minimizer) sweep(ctx context.Context, full *trace.Trace, size int) (removed bool, err error) {
	var order []int
	for i := len(m.objects) - 1; i >= 0; i-- {
		if m.keep[i] && !m.objects[i].last {
			order = append(order, i)
		}
	}
	for from := 0; from < len(order); from += size {
		group := order[from:min(from+size, len(order))]
		for _, i := range group {
			m.keep[i] = false
		}
		fails, err := m.fails(ctx, full)
		if err != nil {
			return removed, err
		}
		if fails {
			removed = true
			continue
		}
		for _, i := range group {
			m.keep[i] = true
		}
	}
	return removed, nil
}

func (m *minimizer) kept() int {
	n := 0
	for _, k := range m.keep {
		if k {
			n++
		}
	}
	return n
}

// fails replays the candidate and reports whether its last event, the one that failed, still fails and none before it.
func (m *minimizer) fails(ctx context.Context, full *trace.Trace) (bool, error) {
	if m.runs++; m.runs > maxMinimizeRuns {
		return false, nil
	}
	t, err := m.build(full)
	if err != nil {
		return false, err
	}
	rec, err := m.write(t)
	if err != nil {
		return false, err
	}
	m.x.rec = &rec
	m.session.SetTrace(rec.BinaryPath)
	if err := m.session.Reopen(ctx, TimeBatch, nil); err != nil {
		return false, err
	}
	first, err := m.x.firstFailure(ctx, m.session)
	if err != nil {
		return false, err
	}
	return first != nil && first.Event == uint64(len(t.Events)-1), nil
}

// build makes the trace of what is kept.
func (m *minimizer) build(full *trace.Trace) (*trace.Trace, error) {
	in := make([]bool, len(full.Events))
	for i, o := range m.objects {
		if m.keep[i] {
			for _, e := range o.events {
				in[e] = true
			}
		}
	}
	out := *full
	out.Events, out.TimesNs, out.Recorded, out.SegmentEvents = nil, nil, nil, nil
	out.Meta.Title = "shortest trace that still fails, of " + m.r.Recordings[m.c.Trace].Name
	for i := range full.Events {
		if !in[i] {
			continue
		}
		out.Events = append(out.Events, full.Events[i])
		if len(full.TimesNs) > 0 {
			out.TimesNs = append(out.TimesNs, full.TimesNs[i])
		}
	}
	renumberSlots(&out)
	return trace.Canonical(&out)
}

// renumberSlots makes the slots dense again after events were taken out.
func renumberSlots(t *trace.Trace) {
	dense := map[uint32]uint32{}
	of := func(slot uint32) uint32 {
		n, ok := dense[slot]
		if !ok {
			n = uint32(len(dense))
			dense[slot] = n
		}
		return n
	}
	if t.Start != nil {
		start := trace.State{Segments: append([]trace.StateSegment{}, t.Start.Segments...)}
		for i := range start.Segments {
			blocks := append([]trace.StateBlock{}, start.Segments[i].Blocks...)
			for j := range blocks {
				if blocks[j].Handle != 0 {
					blocks[j].Slot = of(blocks[j].Slot)
				}
			}
			start.Segments[i].Blocks = blocks
		}
		t.Start = &start
	}
	t.Extras = append([]trace.Extra{}, t.Extras...)
	for i := range t.Events {
		e := &t.Events[i]
		if !e.Kind.NamesHandle() {
			continue
		}
		e.Slot = of(e.Slot)
		if e.Kind == trace.KindRealloc && e.Flags&trace.FlagExtra != 0 {
			t.Extras[e.Aux].Slot2 = of(t.Extras[e.Aux].Slot2)
		}
	}
	t.Slots = uint32(len(dense))
}
