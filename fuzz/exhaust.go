package fuzz

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

// Limits of an exhaustive exploration.
const (
	// DepthMax bounds the depth: the number of programs grows six-fold with each event.
	DepthMax = 14
	// scopeLive bounds the live handles of a program.
	scopeLive = 8
)

// Scope is the small world that an exhaustive exploration covers.
type Scope struct {
	Depth      int
	Sizes      []uint64
	ArenaBytes uint64
	Trim       bool // programs may trim
	Faults     bool // the next device call may be made to fail
}

// DefaultScope is three sizes, of which one is no multiple of anything, on an arena of six pieces of the smallest; and trims, where
// the target can.
func DefaultScope(t *Target, depth int) Scope {
	align := max(t.Desc.Alignment, 256)
	arena := 6 * align
	if t.DeviceMin > defaultDeviceMin || !t.Desc.Arena {
		arena = max(t.DeviceMin, defaultDeviceMin) // the smallest device on which it opens
		align = arena / 6 &^ 511
	}
	return Scope{Depth: depth, Sizes: []uint64{align, align + 1, 3 * align}, ArenaBytes: arena, Trim: t.Limits().Kinds[trace.KindTrim]}
}

// Exhaustion is what an exploration covered and found.
type Exhaustion struct {
	Scope    Scope    `json:"scope"`
	Programs []uint64 `json:"programs"` // by length, from 1
	Finding  *Finding `json:"finding,omitempty"`
	Complete bool     `json:"complete"`
}

// Statement says in one sentence what is proven.
func (e *Exhaustion) Statement() string {
	total := uint64(0)
	for _, n := range e.Programs {
		total += n
	}
	sizes := make([]string, len(e.Scope.Sizes))
	for i, s := range e.Scope.Sizes {
		sizes[i] = trace.FormatSize(s)
	}
	what := fmt.Sprintf("%d programs of up to %d events: allocs of %s and frees of any live block", total, len(e.Programs), strings.Join(sizes, ", "))
	if e.Scope.Trim {
		what += ", trims"
	}
	if e.Scope.Faults {
		what += ", failing device calls"
	}
	what += " on " + trace.FormatSize(e.Scope.ArenaBytes)
	switch {
	case e.Finding != nil:
		return "a breach among the " + what + "; the program is a shortest one"
	case !e.Complete:
		return "stopped after " + what + ": no breach so far"
	}
	return "all " + what + ": no breach"
}

// Exhaust runs all programs of a scope, in order of length, so that the first breach is shown by a shortest program. Programs that
// differ in the names of handles only are one: handles are numbered by their allocs, and a free names one of the live ones by its place. Every
// program is judged with everything that its events, its end and the epilogue show.
func Exhaust(ctx context.Context, t *Target, s Scope, progress func(depth int, programs uint64)) (*Exhaustion, error) {
	if s.Depth < 1 || s.Depth > DepthMax {
		return nil, fmt.Errorf("depth %d: exhaustive exploration goes from 1 to %d events", s.Depth, DepthMax)
	}
	e := &Exhaustion{Scope: s}
	cfg := t.configOf(&plan.Plan{DeviceBytes: max(roundUp(s.ArenaBytes, 2<<20), 2<<20), ArenaBytes: s.ArenaBytes}, 1)
	x := &exhauster{scope: s, w: plan.NewWriter(t.Settings)}
	x.w.SetStreams(1)
	judge := NewJudge(t, cfg)
	defer judge.Close()
	judge.Until(StageEpilogue)
	for depth := 1; depth <= s.Depth; depth++ {
		e.Programs = append(e.Programs, 0)
		n := &e.Programs[depth-1]
		for odo := new(plan.Odometer); ; {
			p := x.program(odo, depth)
			*n++
			b, err := judge.Judge(p)
			if err != nil {
				return e, err
			}
			if b != nil {
				e.Finding = triage(t, hit{cfg: cfg, ops: plan.Ops(nil, p), streams: 1, breach: b, index: *n})
				return e, nil
			}
			if *n%1024 == 0 {
				if ctx.Err() != nil {
					return e, nil
				}
				if progress != nil {
					progress(depth, *n)
				}
			}
			if !odo.Next() {
				break
			}
		}
	}
	e.Complete = true
	return e, nil
}

// exhauster writes the programs of a scope.
type exhauster struct {
	scope Scope
	w     *plan.Writer
	live  [scopeLive]trace.Handle
}

// program writes the program that the source draws.
func (x *exhauster) program(src plan.Source, depth int) *trace.Trace {
	x.w.Begin()
	next, live := trace.Handle(1), x.live[:0]
	last := trace.KindNone
	for range depth {
		allocs := len(x.scope.Sizes)
		if len(live) == scopeLive {
			allocs = 0
		}
		trims := 0
		if x.scope.Trim && last != trace.KindTrim { // a second trim does what the first did
			trims = 1
		}
		faults := 0
		if x.scope.Faults && last != trace.KindFailNext {
			faults = 1
		}
		k := src.Draw(allocs + len(live) + trims + faults)
		var o plan.Op
		switch {
		case k < allocs:
			o = plan.Op{Kind: trace.KindAlloc, Handle: next, Size: x.scope.Sizes[k]}
			live = append(live, next)
			next++
		case k < allocs+len(live):
			i := k - allocs
			o = plan.Op{Kind: trace.KindFree, Handle: live[i]}
			live = append(live[:i], live[i+1:]...)
		case k < allocs+len(live)+trims:
			o = plan.Op{Kind: trace.KindTrim}
		default:
			o = plan.Op{Kind: trace.KindFailNext, Size: 1}
		}
		last = o.Kind
		x.w.Add(&o)
	}
	return x.w.Trace()
}
