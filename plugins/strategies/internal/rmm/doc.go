// Package rmm holds the memory resources of RAPIDS RMM (rapidsai/rmm v24.10.00) that its strategies are built from: the pool with
// coalescing free lists, and the resource of fixed-size blocks, both over the stream-ordered base.
//
// # The stream-ordered base
//
// (cpp/include/rmm/mr/device/detail/stream_ordered_memory_resource.hpp.) Each stream has an event, made when the stream is
// first seen and recorded anew at every free, and a free list, into which a block goes when it is freed on that stream. A
// request on stream s looks
//
//  1. in the list of s;
//  2. in the other lists, in the order of their events; the first that can serve does, s waits for its event, and what is left
//     of the block stays in that list;
//  3. again through the other lists: s waits for each event, takes over all blocks, the list ceases to exist, and s tries its own
//     list, until it succeeds;
//  4. in memory taken anew.
//
// Events are ordered by handle in the original; here by the order in which they were made, which is what a runtime does that
// hands out ascending handles.
//
// # Complexity
//
// O(log blocks) for one stream; a request that no list can serve merges all of them. The original searches its lists block
// by block.
package rmm
