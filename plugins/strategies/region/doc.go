// Package region is the region (arena, bump) allocator: what is allocated together is given back together.
//
// # Policy
//
// Memory is taken in regions of region_bytes (32 MiB unless set). A request is cut from the end of the open region of its size
// kind: the pointer moves up, nothing is searched. When it does not fit, the region is closed and a new one opened; a closed region takes no more
// requests. A request of more than an eighth of a region gets a region of its own, just large enough. A free only counts down; when the last block of a
// region is freed, all its memory becomes free at once: an open region starts again at its bottom, a closed one goes back to the backing.
//
// # Structure
//
// The backing of the regions is the best-fit heap of package fit. A region is a record with its pointer, its count of live
// blocks, and a bitmap of the units at which live blocks begin, by which a wrong free is seen. A block's reference names its region.
//
// # Invariants
//
// In a region all bytes from the pointer up were never handed out since it was last empty. No closed region is empty.
//
// # Complexity
//
// O(1); opening a region costs a search of the backing. Nothing allocates in the steady state.
//
// # Known weak case
//
// Any mix of lifetimes: one long-lived block keeps the whole of its region, and what was freed in it serves nobody. It is the
// cheapest policy there is for work whose memory dies together, and a lower bound for the latency of all others.
package region
