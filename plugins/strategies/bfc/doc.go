// Package bfc is the "best fit with coalescing" allocator of TensorFlow and XLA (google/tsl 8f1df69e^, June 2024,
// tsl/framework/bfc_allocator.cc), decision for decision for one stream of requests without timestamps.
//
// # Policy
//
// Sizes are rounded up to 256 bytes. A request takes the smallest free chunk that is large enough, the lowest among equals,
// over all regions. The chunk is split when it is at least twice the request or when at least split_limit_bytes (128 MiB)
// would be left; else all of it is handed out, so by default just under half of a chunk may be wasted. A freed chunk joins
// its free neighbours.
//
// When nothing fits, the pool is extended by a region: without allow_growth one of the whole limit; with it 2 MiB at first,
// doubled until the request fits, and doubled again after each extension that did not have to be; at most what the limit
// leaves. If the device refuses, nine tenths of that, and so on down to the request. Regions do not merge, except with
// coalesce_regions, when a new region begins where another ends. With garbage_collection, regions without a chunk in use are
// given back when an extension fails, if that can help, and the extension is tried once more: such an allocation is
// StatusRecovered.
//
// # Structure
//
// The best-fit core of internal/pool with one free list. The original's 21 bins, each an ordered set, find the same chunk.
//
// # Invariants
//
// Chunks tile their regions; no two free chunks of a region touch.
//
// # Complexity
//
// O(log chunks) an event; giving regions back looks at each region.
//
// # Known weak cases
//
// Unsplit chunks: bytes in use counts chunk sizes, so the waste is invisible in its own statistics. With growth, regions of
// unlike sizes that cannot merge fail large requests long before memory is used up.
//
// Not modelled: timestamped frees, spatial partitioning, and the wait of up to 10 s for other threads' frees.
package bfc
