package region

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "region"

// DefaultRegionBytes is the size of a region: a segment of the growing strategies.
const DefaultRegionBytes = arena.DefaultSegmentBytes

// Options of the strategy.
type Options struct {
	arena.Options
	RegionBytes uint64 `json:"region_bytes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "bump allocation in regions of 32 MiB; a region is freed as a whole when its last block is",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "region-no-reuse", Section: "package region",
			Text: "Memory freed in a region serves no request until every block of the region is freed.",
		}},
		Options: arena.Schema(`"region_bytes":{"type":"integer","minimum":2048,"default":33554432,"description":"size of a region, a multiple of 256"}`),

		Alignment: UnitBytes,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			opt := Options{Options: arena.Defaults(), RegionBytes: DefaultRegionBytes}
			if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
				return nil, err
			}
			if opt.RegionBytes < 2048 || opt.RegionBytes%UnitBytes != 0 {
				return nil, fmt.Errorf("%s: option region_bytes is %d; give a multiple of 256 of at least 2048", Name, opt.RegionBytes)
			}
			return arena.Open(Name, env, arena.Kind{
				UnitBytes: UnitBytes,
				Need:      fit.Kind(fit.Best).Need,
				New:       func(base, bytes uint64) arena.Heap { return New(base, bytes, opt.RegionBytes) },
			}, opt.Options)
		},
	}
}
