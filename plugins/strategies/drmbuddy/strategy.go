package drmbuddy

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Name is the name of the strategy.
const Name = "drm-buddy"

// DefaultChunkBytes is the smallest chunk that the original allows: a page of 4 KiB (drm_buddy_init).
const DefaultChunkBytes = 4096

// Options of the strategy.
type Options struct {
	arena.Options
	ChunkBytes    uint64 `json:"chunk_bytes"`
	MinBlockBytes uint64 `json:"min_block_bytes"`
	Contiguous    bool   `json:"contiguous"`
	Topdown       bool   `json:"topdown"`
	NoTrim        bool   `json:"no_trim"`
	ClearRequests bool   `json:"clear_requests"`
	ClearFrees    bool   `json:"clear_frees"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "Linux's drm_buddy: highest block first, requests answered with several blocks or trimmed to one",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "drm-buddy-contiguous-power-of-two", Section: "drivers/gpu/buddy.c alloc_blocks, __alloc_contig_try_harder",
			Text: "A contiguous request fails when no free block has the next power of two of its size and none of the next lower one can be extended, although adjacent free blocks would suffice.",
		}},
		Options: arena.Schema(
			`"chunk_bytes":{"type":"integer","minimum":4096,"default":4096,"description":"the smallest block, a power of two"}`,
			`"min_block_bytes":{"type":"integer","minimum":0,"default":0,"description":"no piece of a request is smaller, except by trimming; a power of two, 0 = chunk_bytes"}`,
			`"contiguous":{"type":"boolean","default":false,"description":"answer every request with one contiguous block"}`,
			`"topdown":{"type":"boolean","default":false,"description":"take the highest block of all sufficient orders"}`,
			`"no_trim":{"type":"boolean","default":false,"description":"keep what rounding adds to a request"}`,
			`"clear_requests":{"type":"boolean","default":false,"description":"requests prefer memory that is known to be zero"}`,
			`"clear_frees":{"type":"boolean","default":false,"description":"freed memory is wiped: it goes to the clear tree"}`,
		),
		Alignment: DefaultChunkBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	opt := Options{Options: arena.Defaults(), ChunkBytes: DefaultChunkBytes}
	if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
		return nil, err
	}
	if opt.MinBlockBytes == 0 {
		opt.MinBlockBytes = opt.ChunkBytes
	}
	for _, o := range [...]struct {
		name  string
		value uint64
	}{{"chunk_bytes", opt.ChunkBytes}, {"min_block_bytes", opt.MinBlockBytes}} {
		if bits.OnesCount64(o.value) != 1 || o.value < DefaultChunkBytes || o.value < opt.ChunkBytes {
			return nil, fmt.Errorf("%s: option %s is %d; give a power of two of at least 4096 and chunk_bytes", Name, o.name, o.value)
		}
	}
	log := env.Log
	return arena.Open(Name, env, arena.Kind{
		UnitBytes: opt.ChunkBytes,
		Need: func(size, align uint64) uint64 {
			least := max(opt.MinBlockBytes, align)
			if opt.Contiguous {
				return max(1<<bits.Len64(size-1), least)
			}
			return (size + least - 1) / least * least
		},
		New: func(base, bytes uint64) arena.Heap { return New(base, bytes, opt, log) },
	}, opt.Options)
}

func itoa(n int) string { return strconv.Itoa(n) }
