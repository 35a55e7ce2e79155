// Package cudaasync models CUDA's stream-ordered allocator (cudaMallocAsync, cudaFreeAsync, cudaMemPool_t) from what its documentation
// states. Where a block is placed is a guess: the driver's algorithm is closed.
//
// # What is documented, and followed
//
// The rules for reuse (CUDA Programming Guide, Stream-Ordered Memory Allocator; cudaMemPoolAttr in driver_types.h). A block freed on
// stream A may serve a request on stream B, tried in this order:
//
//  1. same stream: A is B;
//  2. event dependency (reuse_follow_event_dependencies): B has waited on a point of A at or after the free. Each stream has a
//     vector clock; its own entry counts its operations, a wait takes the maximum of both clocks entry by entry; the block may serve if B's entry for
//     A has reached the position of the free;
//  3. opportunistic (reuse_allow_opportunistic): the device has completed the free already;
//  4. growth of the pool;
//  5. internal dependency (reuse_allow_internal_dependencies): B is made to wait for A. This costs concurrency, so the outcome is "recovered";
//  6. cudaErrorMemoryAllocation.
//
// A synchronisation of the host (a stream or everything) completes frees too, and then, while more than release_threshold bytes are
// reserved (0 unless set), unused backing goes back to the device. Trim is cudaMemPoolTrimTo(0). Memory whose free has not been completed counts as
// used for both.
//
// # What is a guess
//
// Backing of 32 MiB segments (segment_bytes), or of what the request needs in 2 MiB pages when that is all there is; requests rounded to
// 512 bytes; best fit, the lowest address among equals; the low part of a block is used and the rest stays; free neighbours of one segment merge when both are
// completed, or when both wait for the same stream. Pages are not remapped between segments: the driver can, yet a report of 84.5 GB reserved for
// 53.5 GB used with a failing request of 133 MB (rapidsai/rmm issue 1245) says that it does not always. A model that remapped everything
// would be too kind.
//
// Uses on other streams (record_stream) are not part of CUDA's interface. They are treated as PyTorch's backend over this allocator treats them
// (CUDAMallocAsyncAllocator.cpp): the freeing stream waits for the using ones before the free.
//
// # Structure
//
// All blocks lie in one table; free ones in a size index: one for completed blocks and one for each stream with pending frees, so that the
// rules become searches of an index. Frees are followed by one device event each, in a queue a stream, unless the trace has one
// stream: then order alone is safe and the device is not asked.
//
// # Invariants
//
// Every byte of a segment lies in exactly one block. A pending block is in the index of the stream it was freed on, a completed one in
// the common index, a live one in none.
//
// # Complexity
//
// O(log n) for rules 1 and 3; rule 2 looks through the pending blocks of the streams waited for that are large enough. Nothing
// allocates in the steady state.
//
// # Known weak cases
//
// With release_threshold 0 every synchronisation gives idle segments back and the next request pays for them again. A block that waits for
// another stream than its neighbour does not merge with it, so large requests grow the pool until the host has synchronised.
package cudaasync
