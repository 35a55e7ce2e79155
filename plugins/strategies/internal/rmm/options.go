package rmm

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// PoolOptions are the options of strategies with a pool. Embed them.
type PoolOptions struct {
	InitialFraction float64 `json:"initial_fraction"`
	MaximumFraction float64 `json:"maximum_fraction"`
}

// PoolDefaults are half of the capacity at first, as RMM's Python interface takes half of the free memory, and no maximum.
func PoolDefaults() PoolOptions { return PoolOptions{InitialFraction: 0.5} }

// PoolSchema are the properties of PoolOptions.
var PoolSchema = []string{
	`"initial_fraction":{"type":"number","minimum":0,"maximum":1,"default":0.5,"description":"initial pool size as a part of the capacity"}`,
	`"maximum_fraction":{"type":"number","minimum":0,"maximum":1,"default":0,"description":"maximum pool size as a part of the capacity; 0 = none"}`,
}

// Open opens the pool of a strategy.
func (o PoolOptions) Open(name string, env *sdk.Env) (*Pool, error) {
	for _, f := range []float64{o.InitialFraction, o.MaximumFraction} {
		if !(f >= 0 && f <= 1) {
			return nil, fmt.Errorf("%w: fraction %v is not between 0 and 1", sdk.ErrOptions, f)
		}
	}
	p, err := NewPool(env, part(env.CapacityBytes, o.InitialFraction), part(env.CapacityBytes, o.MaximumFraction))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// part returns the fraction of n, rounded down to units.
func part(n uint64, fraction float64) uint64 {
	if fraction == 1 {
		return n &^ (UnitBytes - 1)
	}
	return uint64(float64(n)*fraction) &^ (UnitBytes - 1)
}

// Deviations are what every strategy over the stream-ordered base keeps on purpose.
func Deviations(further ...sdk.Deviation) []sdk.Deviation {
	return append([]sdk.Deviation{
		{ID: "rmm-never-shrinks", Text: "Memory goes back to the device only when the resource is destroyed.", Section: "pool_memory_resource.hpp release"},
		{ID: "rmm-no-use-tracking", Text: "A use on another stream is not tracked: the program must wait before it frees.", Section: "stream_ordered_memory_resource.hpp do_deallocate"},
	}, further...)
}
