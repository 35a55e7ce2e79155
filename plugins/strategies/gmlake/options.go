package gmlake

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Name is the name of the strategy.
const Name = "gmlake"

// The constants of the original: kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kGranularity.
const (
	minBlockBytes     = 512
	smallBytes        = 1 << 20
	smallSegmentBytes = 2 << 20
	largeSegmentBytes = 20 << 20
	minLargeBytes     = 10 << 20
	pageBytes         = 2 << 20
)

// ErrVirtualMemory says that the device cannot map pages.
var ErrVirtualMemory = errors.New("the device has no virtual memory management")

// Options of the strategy; the defaults are the original's.
type Options struct {
	FragLimitBytes uint64 `json:"frag_limit_bytes"`
	ReuseLimit     uint64 `json:"reuse_limit"`
	AutoGCBytes    uint64 `json:"auto_gc_bytes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "GMLake: PyTorch's caching allocator with large blocks stitched from free pages through virtual memory",
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{
			{ID: "gmlake-one-stream", Section: "GMLake/src/CUDACachingAllocator.cpp get_fused_fragmented_blocks",
				Text: "A request fails while free pages of another stream, or free bytes of small segments, would add up to it."},
			{ID: "gmlake-levels", Section: "GMLake/src/CUDACachingAllocator.cpp malloc",
				Text: "Here, defragmentation at levels 1 and 2 only lifts the size limit."},
		},
		Options: arena.ObjectSchema(
			`"frag_limit_bytes":{"type":"integer","minimum":0,"default":536870912,"description":"smallest request that is stitched before new memory is asked for (fragLimit)"}`,
			`"reuse_limit":{"type":"integer","minimum":1,"default":10,"description":"a kept stitched block serves requests down to its size divided by this (reuseLimit)"}`,
			`"auto_gc_bytes":{"type":"integer","minimum":0,"default":1073741824000,"description":"reservations of stitched blocks above which the free ones are dropped (autoGC)"}`,
		),
		Alignment: minBlockBytes,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			opt := Options{FragLimitBytes: 512 << 20, ReuseLimit: 10, AutoGCBytes: 1000 << 30}
			if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
				return nil, err
			}
			vm, ok := backends.As[backends.VirtualMemory](env.Device)
			if !ok || env.Device.Info().PageBytes > pageBytes || pageBytes%max(1, env.Device.Info().PageBytes) != 0 {
				return nil, fmt.Errorf("%s: %w in pages of 2 MiB: %s", Name, ErrVirtualMemory, env.Device.Info().Name)
			}
			return newAllocator(env, vm, opt), nil
		},
	}
}
