package firstfit

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "first-fit"

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return fit.Description(Name, "lowest hole that is large enough", fit.First)
}
