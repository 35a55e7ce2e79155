package rmmbinning

import (
	"fmt"
	"math/bits"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
	"github.com/gpubench/gpubench/trace"
)

const (
	// Name is the name of the strategy.
	Name = "rmm-binning"
	// blocksPerChunk is what the original's fixed-size resources pre-allocate.
	blocksPerChunk = 128
	// minExponent and maxExponent bound the exponents of the bins.
	minExponent = 8
	maxExponent = 40
)

type config struct {
	rmm.PoolOptions
	MinExponent int `json:"min_exponent"`
	MaxExponent int `json:"max_exponent"`
}

// Description describes the strategy; its New opens it. The default bins are 64 KiB and below, so that their chunks fit
// small devices.
func Description() sdk.Description {
	return sdk.Description{
		Name:     Name,
		Version:  "24.10.00",
		Summary:  "RMM's binning: fixed-size blocks for small requests over a pool",
		Promises: []sdk.Promise{sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		Options: arena.ObjectSchema(append([]string{
			`"min_exponent":{"type":"integer","minimum":8,"maximum":40,"default":12,"description":"smallest bin, log2 of its size"}`,
			`"max_exponent":{"type":"integer","minimum":8,"maximum":40,"default":16,"description":"largest bin, log2 of its size"}`,
		}, rmm.PoolSchema...)...),
		Deviations: rmm.Deviations(sdk.Deviation{
			ID: "rmm-bins-keep-chunks", Text: "Memory that a bin has taken serves no other size.", Section: "binning_memory_resource.hpp"}),
		Alignment: rmm.UnitBytes,
		New:       open,
	}
}

// strategy implements sdk.Strategy, WrongFreer, Resetter and Inspector.
type strategy struct {
	p     *rmm.Pool
	bins  []*rmm.Fixed // ascending
	first int          // exponent of bins[0]
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{PoolOptions: rmm.PoolDefaults(), MinExponent: 12, MaxExponent: 16}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if cfg.MinExponent < minExponent || cfg.MaxExponent > maxExponent || cfg.MinExponent > cfg.MaxExponent {
		return nil, fmt.Errorf("%w: exponents %d to %d; both must be %d to %d, the first not above the second",
			sdk.ErrOptions, cfg.MinExponent, cfg.MaxExponent, minExponent, maxExponent)
	}
	p, err := cfg.PoolOptions.Open(Name, env)
	if err != nil {
		return nil, err
	}
	s := &strategy{p: p, first: cfg.MinExponent}
	for e := cfg.MinExponent; e <= cfg.MaxExponent; e++ {
		bin, err := rmm.NewFixed(env.Device, 1<<e, blocksPerChunk, s.chunk)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("%s: bin of 2^%d bytes: %w", Name, e, err)
		}
		s.bins = append(s.bins, bin)
	}
	return s, nil
}

// chunk takes memory for a bin from the pool.
func (s *strategy) chunk(bytes uint64, stream backends.Stream) (uint64, bool) {
	var b sdk.Block
	ok := s.p.Alloc(bytes, 0, stream, &b)
	return b.Addr, ok
}

// bin returns the smallest bin for a size, or nil for the pool. Blocks of a bin have exactly its size, blocks of the pool
// are larger than the largest, so it finds the bin of a live block as well.
func (s *strategy) bin(size uint64) *rmm.Fixed {
	k := max(bits.Len64(size-1)-s.first, 0)
	if k >= len(s.bins) {
		return nil
	}
	return s.bins[k]
}

// Alloc asks a bin or the pool. A request of 0 bytes changes nothing.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	ok := false
	if bin := s.bin(r.Size); bin != nil {
		ok = bin.Alloc(r.Size, r.Align, r.Stream, b)
	} else {
		ok = s.p.Alloc(r.Size, r.Align, r.Stream, b)
	}
	if !ok {
		return trace.StatusFailed
	}
	return trace.StatusOK
}

// Free frees on the stream.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	ok := false
	if bin := s.bin(b.Size); bin != nil {
		ok = bin.Free(b, stream)
	} else {
		ok = s.p.Free(b, stream)
	}
	if !ok {
		return trace.StatusInvalid
	}
	return trace.StatusOK
}

// FreeWrong detects a deliberately wrong free unless the block has a new tenant.
func (s *strategy) FreeWrong(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusInvalid
	}
	if bin := s.bin(b.Size); bin != nil && bin.Live(b) || bin == nil && s.p.Live(b) {
		return trace.StatusUnsupported
	}
	return trace.StatusInvalid
}

// Reset gives everything back and begins anew.
func (s *strategy) Reset() trace.Status {
	s.forgetChunks()
	if s.p.Reset() != nil {
		return trace.StatusError
	}
	for _, bin := range s.bins {
		if bin.Reopen() != nil {
			return trace.StatusError
		}
	}
	return trace.StatusOK
}

// forgetChunks empties the bins; the memory is the pool's.
func (s *strategy) forgetChunks() {
	for _, bin := range s.bins {
		bin.Chunks(func(uint64, uint64) {})
	}
}

// Close gives everything back.
func (s *strategy) Close() error {
	s.forgetChunks()
	return s.p.Close()
}

// Inspect shows the pool's segments, in which the chunks of the bins are cut into their blocks, and the free lists.
func (s *strategy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{"pool_bytes": s.p.Bytes(), "bins": uint64(len(s.bins))}}
	s.p.Inspect(&in)
	chunks := sdk.Inspection{}
	for _, bin := range s.bins {
		bin.Inspect(&chunks, true)
	}
	parts := map[uint64][]sdk.InspectedBlock{}
	for _, c := range chunks.Segments {
		parts[c.Addr] = c.Blocks
	}
	for k := range in.Segments {
		var whole []sdk.InspectedBlock
		for _, b := range in.Segments[k].Blocks {
			if cut := parts[b.Addr]; cut != nil && b.State == "live" {
				whole = append(whole, cut...)
			} else {
				whole = append(whole, b)
			}
		}
		in.Segments[k].Blocks = whole
	}
	in.FreeLists = append(in.FreeLists, chunks.FreeLists...)
	in.MetaBytes += chunks.MetaBytes
	return in
}
