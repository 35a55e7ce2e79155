package score

import (
	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

// rapids draws events by rapid.
type rapids struct {
	d       decoder
	seed    int
	sizes   *rapid.Generator[[2]uint64]
	program *rapid.Generator[*trace.Trace]
}

// rapidSource draws every decision from a T.
type rapidSource struct{ t *rapid.T }

func (s rapidSource) Draw(bound int) int { return rapid.IntRange(0, bound-1).Draw(s.t, "") }

func newRapid(l plan.Limits, seed uint64) *rapids {
	r := &rapids{d: newDecoder(l), seed: int(seed << 32)}
	r.sizes = rapid.Custom(func(t *rapid.T) [2]uint64 {
		device, arena := r.d.sizes(rapidSource{t})
		return [2]uint64{device, arena}
	})
	r.program = rapid.Custom(func(t *rapid.T) *trace.Trace { return r.d.program(rapidSource{t}) })
	return r
}

func (r *rapids) Batch(uint64) (deviceBytes, arenaBytes uint64) {
	r.seed++
	s := r.sizes.Example(r.seed)
	return s[0], s[1]
}

func (r *rapids) Program() *trace.Trace {
	r.seed++
	return r.program.Example(r.seed)
}
