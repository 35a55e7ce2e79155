package learn

import (
	"cmp"
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// tile sorts blocks and fills the gaps between them with free ones.
func tile(taken []sdk.InspectedBlock, base, bytes uint64) (out []sdk.InspectedBlock) {
	slices.SortFunc(taken, func(a, b sdk.InspectedBlock) int { return cmp.Compare(a.Addr, b.Addr) })
	at := base
	for _, b := range taken {
		if b.Addr > at {
			out = append(out, sdk.InspectedBlock{Addr: at, Bytes: b.Addr - at, State: "free"})
		}
		out = append(out, b)
		at = b.Addr + b.Bytes
	}
	if at < base+bytes {
		out = append(out, sdk.InspectedBlock{Addr: at, Bytes: base + bytes - at, State: "free"})
	}
	return out
}
