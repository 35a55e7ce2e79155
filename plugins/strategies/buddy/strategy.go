package buddy

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Name is the name of the strategy.
const Name = "buddy"

// Description describes the strategy; its New opens it. It does not promise to join all free neighbours, since only
// buddies merge, nor to serve what a hole could hold.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "binary buddy: powers of two from 256 bytes, lowest block of the smallest sufficient order",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options:   arena.Schema(),
		Alignment: UnitBytes,
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
	UnitBytes: UnitBytes,
	Need:      func(size, align uint64) uint64 { return UnitBytes << max(orderOf(size), orderOf(max(align, 1))) },
	New:       func(base, bytes uint64) arena.Heap { return New(base, bytes) },
}
