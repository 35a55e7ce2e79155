// Package offsetalloc is OffsetAllocator by Sebastian Aaltonen (sebbbi/OffsetAllocator 3610a737, offsetAllocator.cpp),
// decision for decision, with units of 256 bytes.
//
// # Policy
//
// Sizes are binned like small floating-point numbers of a 5-bit exponent and a 3-bit mantissa: 256 bins, 8 a doubling. A
// free node lies in the bin of its size rounded down; a request takes the head of the first non-empty bin from its size
// rounded up, where every node fits. The low part is used, the whole rest becomes a node. A freed node joins its free
// neighbours and goes to the head of its bin. The number of nodes is fixed (option max_nodes); when the last one is in use,
// allocation fails.
//
// A demanded alignment above 256 bytes, which the original does not know, is met inside a block that is larger by it.
//
// # Structure
//
// blocks.Lists, one list a bin, over a blocks.Table. Sizes and offsets are below 2^32 units, so an arena is at most 1 TiB.
//
// # Invariants
//
// Nodes tile the range; no two free nodes touch; the number of nodes is below max_nodes.
//
// # Complexity
//
// O(1) for every operation.
//
// # Known weak cases
//
// A node whose size is not exactly a bin's lower edge is missed by requests of exactly its size: with 8 bins a doubling up to
// 12.5 % of a node goes unseen. Failures near full follow.
package offsetalloc
