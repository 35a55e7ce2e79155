package zoo

import (
	"strings"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// Prefix is what the names of all strategies of the zoo begin with.
const Prefix = "zoo/"

// allocator is a kind of allocator of the zoo.
type allocator struct {
	name      string
	summary   string
	arena     bool
	alignment uint64
	waste     float64
	promises  []sdk.Promise
	open      func(*sdk.Env, bug) (sdk.Strategy, error)
}

// The kinds of allocators, named as in the table of mutants.
const (
	kindBuddy      = "buddy"
	kindCaching    = "caching"
	kindTLSF       = "tlsf"
	kindChunks     = "chunks"
	kindStreams    = "streams"
	kindExpandable = "expandable"
)

// allocators lists the kinds in the order of the table.
var allocators = []allocator{
	{kindBuddy, "binary buddy over one arena, records of blocks in device memory", false, buddyUnitBytes, 0,
		[]sdk.Promise{sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic}, openBuddy},
	{kindCaching, "caching best fit in bins over segments, as PyTorch, CUB and RMM have it", false, cachingUnitBytes, 1,
		[]sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic,
			sdk.PromiseBoundedWaste}, openCaching},
	{kindTLSF, "two-level segregated fit over one arena, as TLSF and VMA have it", true, tlsfUnitBytes, 0,
		[]sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic}, openTLSF},
	{kindChunks, "root chunks split and merged, pinned and evicted, as a physical memory manager has it", true, chunkUnitBytes, 2,
		[]sdk.Promise{sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseBoundedWaste, sdk.PromiseStreamSafe}, openChunks},
	{kindStreams, "stream order over the caching allocator, by events", false, cachingUnitBytes, 1,
		[]sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic,
			sdk.PromiseBoundedWaste, sdk.PromiseStreamSafe}, openStreams},
	{kindExpandable, "one range of addresses with pages mapped below, as expandable segments have it", false, expandUnitBytes, 1,
		[]sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic,
			sdk.PromiseBoundedWaste}, openExpandable},
}

// description describes an allocator with a bug, or without.
func (a *allocator) description(name, summary string, b bug) sdk.Description {
	return sdk.Description{
		Name: name, Version: "1", Summary: summary, Arena: a.arena, Promises: a.promises, WasteFactor: a.waste, Alignment: a.alignment,
		Canary: b != none, New: func(env *sdk.Env) (sdk.Strategy, error) { return a.open(env, b) },
	}
}

// Clean describes the allocators as they should be.
func Clean() []sdk.Description {
	list := make([]sdk.Description, 0, len(allocators))
	for i := range allocators {
		a := &allocators[i]
		list = append(list, a.description(Prefix+a.name, a.summary, none))
	}
	return list
}

// Descriptions describes every strategy of the zoo: the clean allocators, then the mutants in the order of the table.
func Descriptions() []sdk.Description {
	list := Clean()
	for i := range mutants {
		list = append(list, mutants[i].Description())
	}
	return list
}

// Find returns the description of a strategy of the zoo by its name, with the prefix or without.
func Find(name string) (sdk.Description, bool) {
	for _, d := range Descriptions() {
		if d.Name == name || strings.TrimPrefix(d.Name, Prefix) == name {
			return d, true
		}
	}
	return sdk.Description{}, false
}
