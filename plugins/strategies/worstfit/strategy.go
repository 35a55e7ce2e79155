package worstfit

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "worst-fit"

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return fit.Description(Name, "largest hole, lowest address among equals", fit.Worst)
}
