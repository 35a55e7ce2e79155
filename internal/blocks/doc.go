// Package blocks holds the bookkeeping that allocators of contiguous memory share: a table of the blocks of some address
// ranges, with the indexes in which free blocks are found.
//
// # Structure
//
// A Table is one array of 64-byte Blocks, named by index; index 0 is "none". The blocks of one range form a doubly linked
// list in address order (Prev, Next) without a gap, so that a freed block finds its neighbours in O(1), wherever the indexes
// have them. Entries are recycled through a free list and carry a generation, so that a stale reference is recognised.
// Ranges are never linked with each other: blocks of two ranges never merge, even when the ranges touch.
//
// Three indexes use the link fields of the blocks themselves, so that a free block is in at most one of them and none
// allocates:
//
//   - AddrTree: a treap ordered by address in which every node knows the largest block below it. First fit, first fit from a
//     rover, and worst fit are one descent, O(log n). A block that shrinks or grows without passing a neighbour stays where
//     it is; only the maxima above it are corrected, and the walk stops at the first that does not change.
//   - SizeIndex: best fit by (size, address): sizes are binned, 32 bins a doubling, a two-level bitmap finds the next
//     occupied bin, and every bin is a treap ordered by (size, address). So a search costs two bit scans and a descent into a
//     small tree, and a bin with very many blocks still costs O(log n).
//   - Lists: segregated stacks under a two-level bitmap, for the policies that keep free blocks by class (TLSF and its kin). O(1).
//
// # Invariants
//
// In a range, block.Addr + block.Size == next.Addr. Priorities in a treap do not increase downwards. AddrTree: Max of a node
// is the largest Size in its subtree. They are checked by the tests of this package after random operations.
//
// # Determinism
//
// The priorities of the treaps come from a generator with a fixed start. They decide only how fast a search is, never what
// it finds: both orders are total, so a result depends on the set of blocks alone.
//
// # Weak case
//
// A treap is balanced only in expectation, and its nodes lie scattered in the table: with a million free blocks a descent
// is about 25 cache misses.
package blocks
