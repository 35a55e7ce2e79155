// Package predictive prepares pools of blocks for the sizes that a program is going to need. The design is our own; it takes from STAlloc that iterations
// repeat, and from slab allocators that order within a size does not matter.
//
// # Policy
//
// Until learn_iterations marks of the key "iteration" (option mark) have passed, requests go to the fallback, PyTorch's caching allocator, and are recorded. Then, for
// each size class (four a doubling, in units of 512 bytes) and stream, what is predicted is
//
//   - how many blocks are live at once: the most that were in any recorded iteration, and headroom_percent more;
//   - when: from the first allocation of the class in an iteration to its last free, as a share of the iteration, a slack_percent wider on both sides. A class with
//     tensors that outlive their iteration, or are used on several streams, is left to the fallback.
//
// Each class becomes a pool of equal blocks, needed for that part of the iteration. The pools are laid out like buffers (package learn), so that classes of the forward pass
// and classes of the backward pass or the optimizer lie over each other. The memory is taken in one piece, after the fallback's caches were emptied.
//
// Nothing is prepared unless the recorded iterations but the last would have predicted nine tenths of the bytes of the last one: a program whose sizes change all the time
// is left to the fallback.
//
// A request takes the block of its class that was freed last, if all of its bytes are free, then any other; when the pool is used up, or lies under
// another class that is still in use, it goes to the fallback and is counted as a miss. When more than a tenth of the requests of an iteration missed, the next
// mark learns anew, if no prepared block is in use; with four misses and no block in use that happens within the iteration.
//
// # Why
//
// planned knows the place of the n-th request and loses its way at the first request too many. Here order is free: a skipped layer, a repeated one, requests in another
// order cost nothing as long as sizes and counts hold. The price is memory: pools hold the most blocks of each class at once, although the classes need not have
// their maxima at one time. Classes round up by up to a fifth.
//
// # Structure
//
// A table from class and stream to pool; a pool is a stack of free block numbers; the prepared memory is a set of taken ranges in which an
// address is given only if all its bytes are free, so a wrong prediction costs a fallback and never an overlap.
//
// # Complexity
//
// Predicting sorts the events of an iteration and compares every two pools, at a mark. A request or free costs O(log live), and up to probes blocks of its pool when these
// lie under others.
//
// # Known weak cases
//
// Programs whose sizes do not repeat: nothing is ever prepared, or what was prepared lies idle in the iteration in which the sizes change.
package predictive
