// Package strategies lists the built-in strategies. Each lies in a package of its own, whose comment describes the policy, its
// structure, cost and known weak case. They share two cores below internal/: arena, which takes memory from the device,
// follows streams, grows and trims, over any heap that places blocks in a range; and fit, the heap of the classic fits.
package strategies

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/bestfit"
	"github.com/gpubench/gpubench/plugins/strategies/bfc"
	"github.com/gpubench/gpubench/plugins/strategies/buddy"
	"github.com/gpubench/gpubench/plugins/strategies/canary"
	"github.com/gpubench/gpubench/plugins/strategies/cudaasync"
	"github.com/gpubench/gpubench/plugins/strategies/direct"
	"github.com/gpubench/gpubench/plugins/strategies/drmbuddy"
	"github.com/gpubench/gpubench/plugins/strategies/firstfit"
	"github.com/gpubench/gpubench/plugins/strategies/gmlake"
	"github.com/gpubench/gpubench/plugins/strategies/mattconte"
	"github.com/gpubench/gpubench/plugins/strategies/nextfit"
	"github.com/gpubench/gpubench/plugins/strategies/offsetalloc"
	"github.com/gpubench/gpubench/plugins/strategies/pagedkv"
	"github.com/gpubench/gpubench/plugins/strategies/planned"
	"github.com/gpubench/gpubench/plugins/strategies/predictive"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/plugins/strategies/region"
	"github.com/gpubench/gpubench/plugins/strategies/rmmarena"
	"github.com/gpubench/gpubench/plugins/strategies/rmmbinning"
	"github.com/gpubench/gpubench/plugins/strategies/rmmfixed"
	"github.com/gpubench/gpubench/plugins/strategies/rmmpool"
	"github.com/gpubench/gpubench/plugins/strategies/slab"
	"github.com/gpubench/gpubench/plugins/strategies/tiered"
	"github.com/gpubench/gpubench/plugins/strategies/tlsf"
	"github.com/gpubench/gpubench/plugins/strategies/worstfit"
)

// Builtin returns the descriptions of all built-in strategies, in the order in which they are listed to people.
func Builtin() []sdk.Description {
	return []sdk.Description{
		direct.Description(),
		firstfit.Description(),
		bestfit.Description(),
		nextfit.Description(),
		worstfit.Description(),
		buddy.Description(),
		drmbuddy.Description(),
		tlsf.Description(),
		mattconte.Description(),
		offsetalloc.Description(),
		slab.Description(),
		region.Description(),
		bfc.Description(),
		rmmpool.Description(),
		rmmarena.Description(),
		rmmbinning.Description(),
		rmmfixed.Description(),
		cudaasync.Description(),
		pytorch.Description(),
		gmlake.Description(),
		planned.Description(),
		predictive.Description(),
		pagedkv.Description(),
		tiered.Description(),
		canary.Description(),
	}
}
