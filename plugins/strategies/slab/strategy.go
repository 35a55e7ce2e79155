package slab

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "slab"

// blockAlignment is what every class is a multiple of: a quarter of the smallest.
const blockAlignment = MinClassBytes >> stepsLog2

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "size classes, four a doubling from 256 bytes to 1 MiB, in slabs of 2 MiB and more over best fit",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "slab-hostage", Section: "jemalloc and mimalloc: a slab serves one size class",
			Text: "A request can fail while free blocks of other classes would hold it: a slab goes back only when it is empty.",
		}},
		Options:   arena.Schema(),
		Alignment: blockAlignment,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			opt := arena.Defaults()
			if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
				return nil, err
			}
			return arena.Open(Name, env, kind, opt)
		},
	}
}

var kind = arena.Kind{
	UnitBytes: fit.UnitBytes,
	Need:      fit.Kind(fit.Best).Need,
	New:       func(base, bytes uint64) arena.Heap { return New(base, bytes) },
}
