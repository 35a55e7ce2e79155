// Package gmlake is GMLake's caching allocator, which stitches free pieces of memory into one block through virtual memory (Guo et al., ASPLOS
// 2024; intelligent-machine-learning/glake GMLake/src/CUDACachingAllocator.cpp).
//
// # Policy
//
// Requests of up to 1 MiB are served as PyTorch serves them: rounded to 512 bytes, best fit among the free blocks of the stream in segments of
// 2 MiB. Larger ones are rounded to pages of 2 MiB, and their segments are reservations into which physical pages of 2 MiB are mapped one by one. A large request
// tries in this order:
//
//  1. best fit among the stream's free blocks, split when 2 MiB or more are left;
//  2. a stitched block of the stream that is kept from before, not smaller and at most reuse_limit times larger, all of whose pages are free;
//  3. (the original runs the program's callbacks; there are none in a trace);
//  4. stitching, when the request is at least frag_limit_bytes;
//  5. new memory: a segment of 20 MiB for requests below 10 MiB, else of the request's size;
//  6. giving back free segments, largest first, until as much as the request has gone, if there is as much, and new memory again;
//  7. stitching, whatever the size;
//  8. waiting for frees that are held back, giving back all free segments, and new memory again;
//  9. stitching once more.
//
// Stitching takes the stream's free large blocks from the largest down until they suffice, at least two; the last is split if 2 MiB or more would be left. Their
// pages are mapped a second time, side by side, into a new reservation, and the pieces are in use as long as the stitched block is. When it is freed, its
// pages are free, in their own segments, and it is kept for case 2, until the reservations of such blocks exceed auto_gc_bytes or mapping fails.
//
// # Structure
//
// One table holds the blocks of all segments, small and large, each stream with an index by size for both. A segment of pages keeps the identity of each page and
// the number of the block that begins there. A stitched block is a list of runs of pages in segments. So whether it can be used again is
// asked of the segments, and no counts must be kept in step.
//
// # Invariants
//
// The blocks of a segment tile it; free neighbours are merged. The runs of a stitched block in use lie in blocks in use. Every page of a
// live block is mapped where the block lies.
//
// # Complexity
//
// O(log n) for cases 1; case 2 looks through the kept blocks of a suitable size, O(runs) each; stitching costs a map call for
// every 2 MiB. Nothing allocates in the steady state of cases 1 and 2.
//
// # Known weak cases
//
// Stitching costs n map calls, and a training step with ever new sizes stitches ever anew. Below frag_limit_bytes nothing is stitched before the
// device is full. Pieces are stitched only within one stream.
//
// # Deviations
//
// What levels 0, 1 and 2 of the original's defragmentation do besides lifting the limit is not modelled: at the levels 1 and 2 any request
// for pages may be stitched.
package gmlake
