// Package pytorch is the strategy "pytorch": the CUDA caching allocator of PyTorch, decision for decision.
//
// # What is copied
//
// DeviceCachingAllocator of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.11, with the differences of 2.6 and of 2.14 by
// option): given the same requests and a device that answers alike, every address, every device call and every statistic
// is that of the original. Recordings of the real program in testdata hold it there, and recordings of real training runs
// replay to their recorded addresses. Methods name the function of the original that they stand for; so a reader can lay
// the two side by side. Knowingly different are only these:
//
//   - A settings string with a mistake changes nothing; the original keeps what it read up to the mistake.
//   - Where the original would use freed memory or stop at an assertion, the event ends with StatusError and a named error
//     (ErrSplitRelease, ErrStaleSize, ErrPoolDeleted, ErrPoolCount), and the state stays whole. A block whose free ended
//     so stays taken for good.
//   - A reservation or a mapping refused for lack of memory counts as a page refused and goes the way of an out-of-memory;
//     the original throws, and leaks the pages of the attempt.
//   - A trace may say that a block was freed on another stream than its own. The original has no such notion; it stands for
//     record_stream and a free here, which is what a correct program does.
//   - CUDA graphs are not modelled: there is routing of allocations to private pools, as begun and ended by the trace, but
//     no graph whose nodes could prove a block free during capture. graph_capture_record_stream_reuse has no effect, as it
//     has none in the original outside a capture.
//   - throw_on_cudamalloc_oom of 2.14 only counts what it refuses (num_oom_rejections); its source was not seen.
//   - A start state says which ranges of an expandable segment are mapped, not where its reservation begins and ends: it is taken to begin
//     with the lowest range. Where a device cannot map behind such ranges, growth takes a new reservation.
//   - Released private pools are emptied in the order of their ids, the original's order is that of a hash table.
//
// Not there, because no trace can ask for it: overflow pools (setUseOnOOM), pools that never split, custom allocators,
// several devices, checkpoints of a pool.
//
// # The policy in short
//
// A request is rounded up (512 bytes, or a fraction of a power of two), and belongs to the small pool up to 1 MiB, else to
// the large one. The best fit among the free blocks of its pool and stream is taken: smallest size, then lowest address. If
// the rest is worth it (512 bytes in the small pool, more than 1 MiB in the large one) the block is split, and the request
// gets the low end. Without a fit a segment is asked of the device: 2 MiB, 20 MiB, or the size rounded up to 2 MiB. If the
// device refuses, cached memory goes back in three widening steps, and the device is asked again. A freed block joins its
// free neighbours, unless other streams have used it: then it waits for an event on each of them. With expandable segments
// there is one growing range of addresses for each pool and stream, backed page by page.
//
// # Structure
//
// Blocks are records of one cache line in one slice (block.go), linked by index to their neighbours in the segment; a
// record's index is the strategy's reference in sdk.Block, so a free needs no search. The original finds a block by its
// address in a hash table and its free blocks in a red-black tree of pointers.
//
// The free blocks of one pool and stream are a freeSet (freeset.go): 1,632 size classes with a two-level bitmap, each class a
// treap in the order (size, address) that hangs in the blocks. Below 32 KiB a class is one size; above it, a thirty-second
// of a power of two. A search is a class number, one look into its treap, and otherwise two bit scans and the leftmost block of
// the next class. Priorities are a fixed mix of the index, so equal programs build equal trees.
//
// Statistics (stats.go) keep current, freed and peak; allocated is their sum, and a peak can only be passed just before a
// decrease, which leaves one addition for each increase.
//
// # Invariants
//
//   - The blocks of a segment tile it, in address order, without a gap; a segment belongs to one pool and one stream.
//   - Two neighbours are never both free, nor both unmapped.
//   - A freeSet holds exactly the free blocks of its pool and stream; the unmapped ones are in its second list, by address.
//   - A block has events outstanding exactly while it is pending, and recorded uses only while it is live or deferred.
//   - What the blocks say equals the statistics, and reserved bytes equal what the device has charged.
//
// The property test checks all of them after every event of random programs with injected failures.
//
// # Cost
//
// Alloc and Free are O(log n) in the free blocks of one size class and allocate nothing once the tables have grown. The tables never
// shrink; a free set takes 6.8 KiB for each pool and stream that ever asked, a block 64 bytes.
// Giving memory back is linear in what is cached, as in the original.
//
// # Known weak cases
//
// Many free blocks of one size make one deep treap, a cache miss a level. Many streams multiply the free sets. With
// expandable segments full of holes, findRoom walks the unmapped list from its beginning for every growth, as the original
// does. As a policy: memory is never moved between streams, pools or segments, and one live small block keeps its segment.
package pytorch
