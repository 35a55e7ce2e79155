package rmmfixed

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
	"github.com/gpubench/gpubench/trace"
)

const (
	// Name is the name of the strategy.
	Name = "rmm-fixed"
	// defaultBlockBytes and defaultBlocksPerChunk are the defaults of the original.
	defaultBlockBytes     = 1 << 20
	defaultBlocksPerChunk = 128
)

type config struct {
	BlockBytes     uint64 `json:"block_bytes"`
	BlocksPerChunk uint64 `json:"blocks_per_chunk"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:     Name,
		Version:  "24.10.00",
		Summary:  "RMM's fixed-size blocks: one size, first in first out",
		Promises: []sdk.Promise{sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		Options: arena.ObjectSchema(
			`"block_bytes":{"type":"integer","minimum":1,"maximum":1099511627776,"default":1048576,"description":"size of a block; larger requests are refused"}`,
			`"blocks_per_chunk":{"type":"integer","minimum":1,"maximum":16777216,"default":128,"description":"blocks taken from the device at a time"}`),
		Deviations: rmm.Deviations(sdk.Deviation{
			ID: "rmm-fixed-refuses-larger", Text: "A request above the block size fails whatever is free.", Section: "fixed_size_memory_resource.hpp do_allocate"}),
		Alignment: rmm.UnitBytes,
		New:       open,
	}
}

// strategy implements sdk.Strategy, WrongFreer, Resetter and Inspector.
type strategy struct {
	dev   backends.Device
	limit uint64
	held  uint64 // bytes of chunks
	f     *rmm.Fixed
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{BlockBytes: defaultBlockBytes, BlocksPerChunk: defaultBlocksPerChunk}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	s := &strategy{dev: env.Device, limit: env.CapacityBytes}
	var err error
	if s.f, err = rmm.NewFixed(env.Device, cfg.BlockBytes, cfg.BlocksPerChunk, s.chunk); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return s, nil
}

// chunk takes memory for one chunk.
func (s *strategy) chunk(bytes uint64, _ backends.Stream) (uint64, bool) {
	if bytes > s.limit-s.held {
		return 0, false
	}
	addr, st := s.dev.Malloc(bytes)
	if st != trace.CallOK {
		return 0, false
	}
	s.held += bytes
	return addr, true
}

// Alloc hands out a block. A request of 0 bytes changes nothing.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	switch {
	case r.Size == 0:
		*b = sdk.Block{}
		return trace.StatusOK
	case r.Size > s.f.BlockBytes:
		return trace.StatusRefused
	case s.f.Alloc(r.Size, r.Align, r.Stream, b):
		return trace.StatusOK
	}
	return trace.StatusFailed
}

// Free puts the block at the end of the stream's list.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size != 0 && !s.f.Free(b, stream) {
		return trace.StatusInvalid
	}
	return trace.StatusOK
}

// FreeWrong detects a deliberately wrong free unless the block has a new tenant.
func (s *strategy) FreeWrong(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size != 0 && s.f.Live(b) {
		return trace.StatusUnsupported
	}
	return trace.StatusInvalid
}

// Reset gives everything back and begins anew.
func (s *strategy) Reset() trace.Status {
	if s.Close() != nil || s.f.Reopen() != nil {
		return trace.StatusError
	}
	return trace.StatusOK
}

// Close gives all chunks back.
func (s *strategy) Close() (err error) {
	s.f.Chunks(func(addr, bytes uint64) {
		if st := s.dev.Free(addr); st != trace.CallOK && err == nil {
			err = fmt.Errorf("%s: give back chunk of %d bytes: %w", Name, bytes, st.Err())
		}
	})
	s.held = 0
	return err
}

// Inspect shows chunks and free lists.
func (s *strategy) Inspect() sdk.Inspection {
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}, Counters: map[string]uint64{"chunk_bytes": s.held}}
	s.f.Inspect(&in, true)
	return in
}
