package pagedkv

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "paged-kv"

const (
	// DefaultPageBytes is the page of a model with 32 layers, 8 heads of 128 in 16 bits and 16 tokens a page.
	DefaultPageBytes = 2 * 32 * 8 * 128 * 2 * 16
	minPageBytes     = 256
	maxPages         = 1 << 31
)

// Options of the strategy.
type Options struct {
	PageBytes   uint64 `json:"page_bytes"`
	PrefixCache bool   `json:"prefix_cache"`
}

// Strategy is the block manager over one arena.
type Strategy struct {
	*arena.Strategy
	heap *Heap
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "vLLM's block manager: pages with counted users and an LRU free queue, no external fragmentation",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "paged-kv-fixed-page", Section: "vllm/v1/core/block_pool.py get_new_blocks",
			Text: "Every request takes whole pages, so small ones waste most of theirs; the first page is never used.",
		}},
		Options: arena.ObjectSchema(
			`"page_bytes":{"type":"integer","minimum":256,"default":2097152,"description":"size of a page, a power of two"}`,
			`"prefix_cache":{"type":"boolean","default":false,"description":"requests of one tag are sequences that begin alike and share full pages"}`,
		),
		Alignment: minPageBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	opt := Options{PageBytes: DefaultPageBytes}
	if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
		return nil, err
	}
	if opt.PageBytes < minPageBytes || opt.PageBytes&(opt.PageBytes-1) != 0 {
		return nil, fmt.Errorf("%s: option page_bytes is %d; give a power of two of at least 256", Name, opt.PageBytes)
	}
	if n := env.CapacityBytes / opt.PageBytes; n < 2 || n > maxPages {
		return nil, fmt.Errorf("%s: the capacity of %d bytes has %d pages of %d bytes; give at least 2 and at most %d pages", Name, env.CapacityBytes, n, opt.PageBytes, uint64(maxPages))
	}
	s := &Strategy{}
	var err error
	s.Strategy, err = arena.Open(Name, env, arena.Kind{
		UnitBytes: opt.PageBytes,
		New: func(base, bytes uint64) arena.Heap {
			s.heap = New(base, bytes, opt, env.Log)
			return s.heap
		},
	}, arena.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Alloc takes pages; the tag of the request names its content for the prefix cache.
func (s *Strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	s.heap.tag = r.Tag
	return s.Strategy.Alloc(r, b)
}
