package pytorch

import (
	"encoding/json"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// Name is the name of the strategy.
const Name = "pytorch"

const optionsSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "conf": {
      "type": "string", "default": "",
      "description": "the settings string, as in PYTORCH_CUDA_ALLOC_CONF"
    },
    "version": {
      "enum": ["auto", "2.6", "2.11", "2.14"], "default": "auto",
      "description": "the PyTorch whose decisions are copied; auto is 2.11, or 2.14 when conf names a setting that came later"
    },
    "memory_fraction": {
      "type": "number", "minimum": 0, "maximum": 1, "default": 0,
      "description": "set_per_process_memory_fraction called before the first event; 0 = not called"
    }
  }
}`

// Description returns the strategy's description.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1.0.0",
		Summary: "PyTorch's CUDA caching allocator, decision for decision",
		Promises: []sdk.Promise{sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic,
			sdk.PromiseStreamSafe},
		Options:    json.RawMessage(optionsSchema),
		Deviations: deviations(),
		Alignment:  minBlockBytes,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			a, err := open(env)
			if err != nil {
				return nil, err
			}
			return a, nil
		},
	}
}

const source = "c10/cuda/CUDACachingAllocator.cpp"

// deviations lists what this strategy does on purpose, because the original does.
func deviations() []sdk.Deviation {
	return []sdk.Deviation{
		{ID: "pytorch-no-compaction", Section: source + " malloc",
			Text: "A request fails while free bytes of several split segments, or of another stream or pool, would add up to it: nothing is moved between segments, streams or pools."},
		{ID: "pytorch-oversize-fit", Section: source + " get_free_block",
			Text: "Without max_split_size_mb a small request may split the largest cached segment and keep it from being given back."},
		{ID: "pytorch-unsplit-rest", Section: source + " should_split",
			Text: "In the large pool a rest of up to 1 MiB stays in the block, and any rest in a block of max_split_size_mb or more."},
		{ID: "pytorch-medium-segment", Section: source + " get_allocation_size",
			Text: "A request between 1 and 10 MiB takes a segment of 20 MiB from the device, and fails when there are only 19 MiB."},
		{ID: "pytorch-adjacent-scan", Section: source + " get_free_block",
			Text: "With expandable segments the search compares neighbours in size order only and stops at the first that is not better."},
		{ID: "pytorch-partial-release", Section: source + " release_available_cached_blocks",
			Text: "Oversize blocks given back for a request stay given back when they did not suffice."},
		{ID: "pytorch-failed-growth-stays", Section: source + " try_allocate_expandable_block",
			Text: "When an expandable segment cannot grow far enough, the pages mapped on the way stay mapped and cached."},
		{ID: "pytorch-split-release", Section: source + " release_available_cached_blocks",
			Text: "After max_split_size_mb was lowered the original may free the inner address of a segment; the request ends with an error (split-release)."},
		{ID: "pytorch-pool-count", Section: source + " unmap_block, alloc_block",
			Text: "With expandable segments the segment count of a private pool goes up once an allocation and down once an unmap; where the original then uses a deleted pool or stops at an assertion, the event ends with an error (pool-deleted, pool-count)."},
		{ID: "pytorch-2.6-stale-size", Section: source + " release_available_cached_blocks, 2.6 and before",
			Text: "Version 2.6 reads the size of a block after deleting it when several oversize blocks have to go; the request ends with an error (stale-size)."},
	}
}
