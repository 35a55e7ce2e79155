// Package drmbuddy is the buddy allocator that Linux's graphics drivers (amdgpu, i915, xe) keep video memory in:
// drivers/gpu/drm/drm_buddy.c, since 2026 drivers/gpu/buddy.c.
//
// # Policy
//
// The range is cut into roots, the powers of two of its size in chunks (4 KiB unless set), largest first from the bottom.
// Free blocks are kept by order and by whether their memory is known to be zero (the clear tree) or not (the dirty tree).
//
//   - A request takes the smallest sufficient order of its own tree that has a free block, then of the other tree, and of that order the
//     block with the highest offset. A larger block is halved and its right half is followed, so allocations come from the top of the
//     range. With topdown the block with the highest offset among all sufficient orders is taken.
//   - By default a request is rounded to the smallest block (min_block_bytes, or the demanded alignment) and may be answered with
//     many blocks: the highest order that fits into what is still wanted first, lower orders when there is none, down to the smallest block.
//     The further pieces go to the call log as extents of the block.
//   - With contiguous a request is rounded up to a power of two, answered with one block, and trimmed back to what was asked: the block is split
//     again and the tail given back. When no block is large enough, the allocator tries harder: it goes through the free blocks of the next lower
//     power of two from the top, extends one to the right as far as memory is free, and completes the rest on the left.
//   - A freed block merges with its buddy while that is free and of the same state. When a request fails at the smallest order and
//     clear memory is free, buddies of unlike state are merged by force, as dirty, until a block of that order exists.
//
// # Structure
//
// A block is named by order and number, so a tree of nodes is not needed: one hierarchical bitmap of free blocks for each order and
// state, and one of allocated blocks for each order. A block that is in none of them is split, or a part of a larger one. The highest member of a
// bitmap, and the next one below, are found in one bit scan a level; a level has 64 times fewer bits than the one below. The pieces of an allocation are a list in
// one pool.
//
// # Invariants
//
// Every chunk belongs to exactly one free or allocated block. Two buddies of the same state are never both free. The clear
// bytes counted are those of the clear tree.
//
// # Complexity
//
// O(orders) bit scans for each piece, so O(pieces × orders) for a request. Trying harder walks the free blocks of one order. Nothing allocates in the
// steady state.
//
// # Known weak cases
//
// Contiguous requests just above a power of two need a free block of twice the size, or luck with neighbours, although the tail is
// given back. Many small pieces make a large non-contiguous request slow and leave it scattered: the first piece that is freed late keeps its buddy from merging.
package drmbuddy
