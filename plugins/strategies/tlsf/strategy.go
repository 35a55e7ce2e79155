package tlsf

import (
	"fmt"
	"unsafe"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "tlsf"

// metaBytes is the fixed bookkeeping of a heap.
const metaBytes = uint64(unsafe.Sizeof(Heap{}))

type config struct {
	arena.Options
	Mode string `json:"mode"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "two-level segregated fit with VMA's rules: a good fit in constant time",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata,
			sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options: arena.Schema(`"mode":{"enum":["default","min-time","min-memory","min-offset"],"default":"default",` +
			`"description":"order of the search: VMA's strategy bits MIN_TIME, MIN_MEMORY, MIN_OFFSET, or none"}`),
		Alignment: unitBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{Options: arena.Defaults(), Mode: "default"}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	m, ok := modeNames[cfg.Mode]
	if !ok {
		return nil, fmt.Errorf(`%w: mode is %q, must be "default", "min-time", "min-memory" or "min-offset"`, sdk.ErrOptions, cfg.Mode)
	}
	kind := fit.Kind(fit.First)
	if m != modeMinOffset {
		kind.New = func(base, bytes uint64) arena.Heap { return newHeap(m, base, bytes) }
	}
	return arena.Open(Name, env, kind, cfg.Options)
}
