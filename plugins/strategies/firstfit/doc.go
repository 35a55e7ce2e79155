// Package firstfit is address-ordered first fit: a request takes the low end of the hole with the lowest address that is large
// enough. Sizes are rounded up to 256 bytes, holes are joined at the free, the whole rest of a hole stays a hole.
//
// Structure: the heap of internal/fit with rule First, in one arena (or, with grow, in segments) of internal/arena. A hole is
// found by one descent of a treap ordered by address that knows the largest hole below every node.
//
// Invariants: blocks and holes cover the arena without gap or overlap; no two holes touch.
//
// Complexity: O(log holes) an event, no allocation in the steady state.
//
// Known weak case: small blocks pile up at the bottom, so long-lived small ones among them cut the low addresses into holes
// too small for anything else; a request for a large block looks past all of them (the tree makes that cheap, not the
// fragmentation). VMA's virtual block with the MIN_OFFSET strategy decides exactly alike.
package firstfit
