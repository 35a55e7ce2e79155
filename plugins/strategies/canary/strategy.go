package canary

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "canary-overlap"

type config struct {
	After  uint64 `json:"after"`
	Period uint64 `json:"period"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:     Name,
		Version:  "1",
		Summary:  "wrong on purpose: first fit that after a while hands out memory twice; must be caught",
		Arena:    true,
		Promises: []sdk.Promise{sdk.PromiseDeterministic},
		Options: arena.ObjectSchema(
			`"after":{"type":"integer","minimum":1,"default":20,"description":"number of allocations that are right"}`,
			`"period":{"type":"integer","minimum":1,"default":7,"description":"one allocation in so many is wrong from then on"}`),
		Alignment: fit.UnitBytes,
		Canary:    true,
		New:       open,
	}
}

// strategy wraps first fit.
type strategy struct {
	*arena.Strategy
	cfg    config
	allocs uint64
	victim sdk.Block   // a live block to lie about, or of size 0
	lied   []sdk.Block // the live blocks with a wrong address, as first fit gave them
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{After: 20, Period: 7}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if cfg.Period == 0 {
		return nil, fmt.Errorf("%w: period is 0, must be at least 1", sdk.ErrOptions)
	}
	inner, err := arena.Open(Name, env, fit.Kind(fit.First), arena.Defaults())
	if err != nil {
		return nil, err
	}
	return &strategy{Strategy: inner, cfg: cfg}, nil
}

// Alloc is first fit with, now and then, a lie about the address.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	st := s.Strategy.Alloc(r, b)
	if !st.Placed() || b.Size == 0 {
		return st
	}
	s.allocs++
	if s.allocs > s.cfg.After && (s.allocs-s.cfg.After)%s.cfg.Period == 0 && s.victim.Size >= b.Size && s.victim.Addr%max(r.Align, 1) == 0 {
		s.lied = append(s.lied, *b)
		b.Addr = s.victim.Addr
		return st
	}
	if b.Size >= s.victim.Size || s.victim.Size == 0 {
		s.victim = *b
	}
	return st
}

// Free frees what first fit had really set aside.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	for i := range s.lied {
		if s.lied[i].Ref == b.Ref && s.lied[i].Addr != b.Addr {
			inner := s.lied[i]
			s.lied[i] = s.lied[len(s.lied)-1]
			s.lied = s.lied[:len(s.lied)-1]
			return s.Strategy.Free(&inner, stream)
		}
	}
	if b.Ref == s.victim.Ref {
		s.victim = sdk.Block{}
	}
	return s.Strategy.Free(b, stream)
}

// Reset forgets the lies with the blocks.
func (s *strategy) Reset() trace.Status {
	s.allocs, s.victim, s.lied = 0, sdk.Block{}, s.lied[:0]
	return s.Strategy.Reset()
}
