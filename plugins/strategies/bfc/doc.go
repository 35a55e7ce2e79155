// Package bfc is the "best fit with coalescing" allocator of TensorFlow and XLA (google/tsl 8f1df69e^, June 2024,
// tsl/framework/bfc_allocator.cc), decision for decision, with the spatial partitioning of its successor.
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
// # Times of free
//
// With timestamps a freed chunk carries the time of its free, a counter, and joins nothing. Work of the default stream that
// completes makes the times so far safe; the next allocation joins the safe chunks to their free neighbours. The default
// stream may take a chunk at once, since what it computes runs in order; a request on another stream takes safe chunks only
// (freed_by_func of the copy streams). When nothing serves a request of the default stream, chunks are joined by force, oldest first,
// until one is large enough: such an allocation is StatusRecovered. The rest of a chunk that is split keeps its time.
//
// # Spatial partitioning
//
// (openxla/xla 80c095fc, xla/tsl/framework/bfc_allocator.cc.) Requests of a pool, such as the symmetric buffers of collective
// operations, come from the upper end of the one region, others from the lower end, with a central gap between them. Each end
// first reuses its own holes, best fit, then carves the gap, exactly. A chunk freed at the border becomes gap; holes of
// unlike ends that meet do too. So the places of one end do not depend on what the other does until the gap is used up.
//
// # Structure
//
// The best-fit core of internal/pool with a free list for each end; without spatial partitioning there is only the lower. The
// original's 21 bins, each an ordered set, find the same chunk. With timestamps or partitioning chunks go a way of their own
// (tagged.go), so that the common case pays nothing for them.
//
// # Invariants
//
// Chunks tile their regions; no two free chunks of a region touch, with timestamps no two that are safe once an allocation
// has been made. There is at most one gap.
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
// With timestamps chunks stay apart until the stream completes, and every forced merge walks all that wait.
//
// Not modelled: the wait of up to 10 s for other threads' frees, and the option to take the highest of equal holes.
package bfc
