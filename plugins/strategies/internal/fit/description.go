package fit

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Description returns the description of the strategy with the rule.
func Description(name, summary string, rule Rule) sdk.Description {
	return sdk.Description{
		Name:    name,
		Version: "1",
		Summary: summary,
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata,
			sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options:   arena.Schema(),
		Alignment: UnitBytes,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			opt := arena.Defaults()
			if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
				return nil, err
			}
			return arena.Open(name, env, Kind(rule), opt)
		},
	}
}
