// Command gpubench-strategy-bump is a complete allocator strategy to copy: one arena, one pointer that moves up. Blocks are
// laid one behind the other; a free only counts down, and when nothing is live the pointer returns to the start. Every
// operation is O(1) and needs no metadata per block.
//
// Weak case: one long-lived block keeps everything before and behind it. It promises only what it can hold: equal programs
// give equal outcomes, and its bookkeeping is two numbers.
//
// Build it and let gpubench find it:
//
//	go build -o plugins/gpubench-strategy-bump ./examples/strategy-bump
//	GPUBENCH_PLUGIN_PATH=$PWD/plugins gpubench plugin list
package main

import (
	"encoding/json"
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

func main() {
	sdk.Serve(sdk.Executable{Name: "gpubench-strategy-bump", Version: "1.0.0", Strategies: []sdk.Description{description}})
}

// minAlign is what cudaMalloc guarantees (CUDA C++ Programming Guide, "Device Memory Accesses").
const minAlign = 256

var description = sdk.Description{
	Name:      "bump",
	Version:   "1.0.0",
	Summary:   "one arena and a pointer that moves up; it returns when nothing is live",
	Arena:     true,
	Promises:  []sdk.Promise{sdk.PromiseDeterministic, sdk.PromiseBoundedMetadata},
	Alignment: minAlign,
	Options: json.RawMessage(`{
		"type": "object",
		"additionalProperties": false,
		"properties": {
			"align_bytes": {"type": "integer", "minimum": 256, "maximum": 2097152, "default": 256,
				"description": "every block begins at a multiple of it; a power of two"}
		}
	}`),
	New: open,
}

// bump is the open strategy.
type bump struct {
	env   *sdk.Env
	align uint64
	base  uint64 // of the arena
	used  uint64 // bytes below the pointer
	live  uint64 // blocks
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	options := struct {
		AlignBytes uint64 `json:"align_bytes"`
	}{AlignBytes: minAlign}
	if err := sdk.DecodeOptions(env.Options, &options); err != nil {
		return nil, err
	}
	if options.AlignBytes&(options.AlignBytes-1) != 0 {
		return nil, fmt.Errorf("%w: align_bytes %d is no power of two", sdk.ErrOptions, options.AlignBytes)
	}
	base, st := env.Device.Malloc(env.CapacityBytes)
	if st != trace.CallOK {
		return nil, fmt.Errorf("taking an arena of %d bytes: %w", env.CapacityBytes, st.Err())
	}
	return &bump{env: env, align: options.AlignBytes, base: base}, nil
}

// Alloc moves the pointer up.
func (s *bump) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	align := max(s.align, r.Align)
	addr := (s.base + s.used + align - 1) &^ (align - 1)
	offset := addr - s.base
	if offset > s.env.CapacityBytes || r.Size > s.env.CapacityBytes-offset {
		return trace.StatusFailed
	}
	s.used = offset + r.Size
	s.live++
	*b = sdk.Block{Addr: addr, Size: r.Size}
	return trace.StatusOK
}

// Free counts down. It does not look at the stream that frees, which is why stream safety is not among the promises.
func (s *bump) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	if s.live--; s.live == 0 {
		s.used = 0
	}
	return trace.StatusOK
}

// Reset forgets every block: an optional interface.
func (s *bump) Reset() trace.Status {
	s.used, s.live = 0, 0
	return trace.StatusOK
}

// Inspect shows the arena: an optional interface.
func (s *bump) Inspect() sdk.Inspection {
	return sdk.Inspection{Counters: map[string]uint64{"used_bytes": s.used, "live_blocks": s.live}, MetaBytes: 16}
}

// Close gives the arena back.
func (s *bump) Close() error { return s.env.Device.Free(s.base).Err() }
