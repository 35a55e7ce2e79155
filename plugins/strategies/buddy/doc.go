// Package buddy is the binary buddy allocator: blocks of 256 bytes times a power of two, each at a multiple of its size.
//
// # Policy
//
// The range is cut into roots, the powers of two of its size, largest first from the bottom, so that every root lies at a
// multiple of its own size. A request is rounded up to 256 bytes times a power of two. It takes the lowest free block of the
// smallest order that has one; a larger block is halved, the low half kept, until it has the wanted order. A freed block
// merges with its buddy, the other half of the block that both once were, as long as that is free, up to the root. Nothing
// is trimmed. (Linux's drm_buddy takes the highest block, keeps the right half and trims: other decisions.)
//
// # Structure
//
// One set of free blocks for each order, a bitmap under levels of summary bitmaps, 64 to 1, so that the lowest member is
// found in at most five bit scans; and one bitmap of live blocks for each order, by which a wrong free is seen. The parts of
// the bitmaps are made when the address range that they stand for is first used, so the bookkeeping of an arena of 80 GiB
// begins with about 1 MiB.
//
// # Invariants
//
// Every byte belongs to exactly one free or live block; never are both halves of a block free.
//
// # Complexity
//
// O(orders) at worst, one bit operation an order that is split or merged; nothing allocates in the steady state.
//
// Known weak case: rounding. Just above a power of two nearly half of the block is lost, and a range whose size is no power
// of two cannot serve a request above its largest root although the bytes are free and adjacent.
package buddy
