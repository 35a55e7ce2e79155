// Package tlsf is the two-level segregated fit of VMA's virtual block (GPUOpen VulkanMemoryAllocator e386068d,
// include/vk_mem_alloc.h, class VmaBlockMetadata_TLSF), decision for decision, in its four modes.
//
// # Structure
//
// Free blocks lie in lists by size: class 0 holds sizes up to 256 bytes in steps of 8, class c > 0 the sizes of one doubling,
// [2^(c+7), 2^(c+8)), in 32 steps. A list is a stack: a freed block goes to its head. One bitmap names the classes with a
// free block, one for each class its lists. The never used tail of the range, the null block, is in no list.
//
// A request of n bytes (rounded up to 256) looks in the "next" list, the first non-empty one at or above that of the next
// larger step, where every block fits; in the "bucket", the first non-empty list at or above that of n itself, where some
// may be too small and the list is walked; in the null block; and in the lists above the next one. The order is the mode:
//
//   - default: next, null block, bucket, all
//   - min-time: head of next, null block, rest of next, bucket, all
//   - min-memory: bucket, null block, next, all
//   - min-offset: the lowest address that fits, which is first fit, and is served by the heap of internal/fit (VMA collects
//     and scans all free blocks for it; the tree decides alike in O(log n))
//
// The block is cut from the low end; the whole rest goes back. The gap that a demanded alignment costs becomes a
// free block. A freed block joins its free neighbours, then goes to the head of its list.
//
// # Invariants
//
// Blocks tile the range; no two free blocks touch; a bit is set exactly when its list is not empty; the null block is last.
//
// # Complexity
//
// O(1) but for the walks: the bucket's list may hold many blocks that are just too small, and is walked to its end before
// anything larger is tried in the modes default (only after the null block is too small) and min-memory. That is the known
// weak case, with the good fit itself: up to one part in 32 of a block stays behind as a splinter.
package tlsf
