package mattconte

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
)

// Name is the name of the strategy.
const Name = "mattconte-tlsf"

type config struct {
	arena.Options
	AlignBytes uint64 `json:"align_bytes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "deff9ab5",
		Summary: "two-level segregated fit of mattconte/tlsf, with its headers and its aligned allocation",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseCoalesces, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options: arena.Schema(`"align_bytes":{"enum":[8,16,32,64,128,256,512,1024,2048,4096],"default":256,` +
			`"description":"alignment of every block; above 8 through tlsf_memalign"}`),
		Deviations: []sdk.Deviation{
			{ID: "tlsf-misses-exact-fit", Text: "A free block of exactly the wanted size is missed when it is the only candidate.", Section: "tlsf.c mapping_search"},
			{ID: "tlsf-memalign-overhead", Text: "An aligned request needs a block larger by the alignment and 32 bytes.", Section: "tlsf.c tlsf_memalign"},
		},
		Alignment: wordBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{Options: arena.Defaults(), AlignBytes: unitBytes}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if a := cfg.AlignBytes; a < wordBytes || a&(a-1) != 0 {
		return nil, fmt.Errorf("%w: align_bytes is %d, must be a power of two from %d", sdk.ErrOptions, a, wordBytes)
	}
	kind := arena.Kind{
		UnitBytes: unitBytes,
		// A block in the searched list may be larger by one step, 1/32, than what is searched for.
		Need: func(size, align uint64) uint64 {
			n := (size+unitBytes-1)&^(unitBytes-1) + 2*max(align, cfg.AlignBytes) + splitBytes
			return n + n>>stepsLog2 + unitBytes + poolBytes
		},
		New: func(base, bytes uint64) arena.Heap { return newHeap(cfg.AlignBytes, base, bytes) },
	}
	return arena.Open(Name, env, kind, cfg.Options)
}
