// Package mattconte is the two-level segregated fit of Matthew Conte (mattconte/tlsf deff9ab5, tlsf.c), decision for decision,
// as a strategy for device memory: the headers that the original keeps in the memory itself are kept beside it, but the eight
// bytes of each are still set aside, because they shift every offset.
//
// # Policy
//
// A block is an 8-byte header and its payload; the payload is what is handed out. Sizes are rounded up to 256 bytes before
// (as a device allocator's caller would) and are at least 24. A request is raised to the next list step, 1/32 of a doubling
// (8 bytes below 256), and takes the head of the first non-empty list from there on, where every block fits. It is split
// when at least 32 bytes would be left; the rest loses 8 of them to its own header. A freed block joins its free neighbours
// and goes to the head of its list.
//
// With align_bytes above 8 (256 by default) a request goes the way of tlsf_memalign: it searches for size + alignment + 32,
// rounded up to the alignment, and the gap in front of the aligned address, at least 32 bytes or none, becomes a free block.
//
// # Structure
//
// blocks.Lists, 32 lists a doubling, over a blocks.Table whose blocks include their header. The original's FL_INDEX_MAX of
// 32 bounds an arena at 4 GiB; here it grows with the arena, which changes no decision below.
//
// # Invariants
//
// Blocks tile the range but for its last 8 bytes, the sentinel; no two free blocks touch.
//
// # Complexity
//
// O(1) for every operation.
//
// # Known weak cases
//
// A free block of exactly the wanted size is missed when it is the only candidate, since its list is one below the searched
// one; near full that fails requests which fit. An aligned request needs a block larger than it uses by the alignment and more.
package mattconte
