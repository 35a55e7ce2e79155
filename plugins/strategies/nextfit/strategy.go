package nextfit

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
)

// Name is the name of the strategy.
const Name = "next-fit"

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return fit.Description(Name, "first hole that is large enough at or above the end of the last allocation, then from the bottom", fit.Next)
}
