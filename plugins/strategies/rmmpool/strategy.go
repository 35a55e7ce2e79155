package rmmpool

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "rmm-pool"

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:       Name,
		Version:    "24.10.00",
		Summary:    "RMM's pool: best fit, one free list a stream, grows by halves or doubling",
		Promises:   []sdk.Promise{sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		Options:    arena.ObjectSchema(rmm.PoolSchema...),
		Deviations: rmm.Deviations(),
		Alignment:  rmm.UnitBytes,
		New:        open,
	}
}

// strategy implements sdk.Strategy, WrongFreer, Resetter and Inspector.
type strategy struct{ p *rmm.Pool }

func open(env *sdk.Env) (sdk.Strategy, error) {
	opt := rmm.PoolDefaults()
	if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
		return nil, err
	}
	p, err := opt.Open(Name, env)
	if err != nil {
		return nil, err
	}
	return &strategy{p}, nil
}

// Alloc asks the pool. A request of 0 bytes changes nothing.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if !s.p.Alloc(r.Size, r.Align, r.Stream, b) {
		return trace.StatusFailed
	}
	return trace.StatusOK
}

// Free frees on the stream.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size != 0 && !s.p.Free(b, stream) {
		return trace.StatusInvalid
	}
	return trace.StatusOK
}

// FreeWrong detects a deliberately wrong free: references carry a generation.
func (s *strategy) FreeWrong(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size != 0 && s.p.Live(b) {
		return trace.StatusUnsupported
	}
	return trace.StatusInvalid
}

// Reset gives everything back and begins anew.
func (s *strategy) Reset() trace.Status {
	if s.p.Reset() != nil {
		return trace.StatusError
	}
	return trace.StatusOK
}

// Close gives everything back.
func (s *strategy) Close() error { return s.p.Close() }

// Inspect shows segments and free lists.
func (s *strategy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{"pool_bytes": s.p.Bytes()}}
	s.p.Inspect(&in)
	return in
}
