package tiered

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/holdback"
)

// noStream is the stream of no block: every stream that used a block holds its free back, since the heap serves all streams.
const noStream = ^sdk.Stream(0)

// pending holds freed blocks of the device back until the streams that may still use them have completed.
type pending struct {
	*holdback.Holder
}

func (p *pending) init(env *sdk.Env) { p.Holder = holdback.New(env) }
