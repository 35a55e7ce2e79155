// Package slab is an allocator of size classes in the manner of jemalloc and mimalloc, made for device memory: no header lies in
// the memory it hands out.
//
// # Policy
//
//   - Classes: four a doubling from 256 bytes to 1 MiB (256, 320, 384, 448, 512, 640, …), 49 in all. A request takes the smallest class that holds it.
//   - A slab is a run of max(2 MiB, 8 × class) bytes from the backing and holds blocks of one class. The class takes from its slab with the
//     lowest address that has a free block, in it the block freed last (LIFO), or the lowest that was never used.
//   - A slab whose last block is freed goes back to the backing at once. When the backing has no room for a slab, the request itself is tried there.
//   - Larger requests, and those whose demanded alignment their class does not give, go to the backing: best fit, in units of 256 bytes.
//
// # Structure
//
// The backing is the best-fit heap of package fit. The slabs of a class that have a free block are a binary heap by address,
// in which each slab knows its place. A slab keeps its freed blocks as a linked stack of 16-bit numbers beside the memory, and a bitmap
// of the live ones, by which a wrong free is seen; both are recycled by class.
//
// # Invariants
//
// A slab is in the heap of its class exactly if it has a free block. No slab is empty. Blocks of a class lie at multiples
// of the class from the start of their slab.
//
// # Complexity
//
// O(1) while the lowest slab stays the same, else O(log slabs of the class); a new slab costs a search of the backing. Nothing
// allocates in the steady state.
//
// # Known weak cases
//
// One live block keeps a slab: after a peak of one class its memory serves no other until the last of its blocks is gone. A block is up to a quarter
// larger than asked (a fifth of it is lost), and the rest of a slab behind its last block is lost too. Blocks of an odd class are aligned to
// 64 bytes only, unless more is demanded.
package slab
