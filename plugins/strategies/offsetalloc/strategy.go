package offsetalloc

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Name is the name of the strategy.
const Name = "offset-allocator"

// defaultMaxNodes is the original's default, 128 Ki.
const defaultMaxNodes = 128 << 10

type config struct {
	arena.Options
	MaxNodes int `json:"max_nodes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "3610a737",
		Summary: "OffsetAllocator: 256 bins of small floating-point sizes, constant time",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseCoalesces, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options: arena.Schema(`"max_nodes":{"type":"integer","minimum":3,"maximum":1073741824,"default":131072,` +
			`"description":"number of nodes, of free and live blocks together"}`),
		Deviations: []sdk.Deviation{
			{ID: "offset-allocator-misses-fit", Text: "A free block is not seen by requests above the lower edge of its bin, up to 12.5 % below its size.", Section: "offsetAllocator.cpp allocate"},
			{ID: "offset-allocator-node-limit", Text: "Allocation fails when the nodes are used up, although memory is free.", Section: "offsetAllocator.cpp allocate"},
		},
		Alignment: unitBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{Options: arena.Defaults(), MaxNodes: defaultMaxNodes}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if cfg.MaxNodes < 3 {
		return nil, fmt.Errorf("%w: max_nodes is %d, must be at least 3", sdk.ErrOptions, cfg.MaxNodes)
	}
	if env.CapacityBytes > maxUnits*unitBytes {
		return nil, fmt.Errorf("%s: capacity of %d bytes is more than %d units of %d bytes", Name, env.CapacityBytes, uint64(maxUnits), unitBytes)
	}
	kind := arena.Kind{
		UnitBytes: unitBytes,
		// The searched bin may begin 1/8 above the wanted size.
		Need: func(size, align uint64) uint64 {
			n := size + max(align, unitBytes)
			return n + n>>mantissaLog2 + unitBytes
		},
		New: func(base, bytes uint64) arena.Heap { return newHeap(cfg.MaxNodes, base, bytes) },
	}
	return arena.Open(Name, env, kind, cfg.Options)
}
