// Package worstfit is worst fit: a request takes the low end of the largest hole, the lowest among equals. Sizes are rounded
// up to 256 bytes, holes are joined at the free.
//
// Structure: the heap of internal/fit with rule Worst, in one arena (or, with grow, in segments) of internal/arena. The root
// of a treap ordered by address knows the largest hole; a descent finds the lowest hole of that size.
//
// Invariants: blocks and holes cover the arena without gap or overlap; no two holes touch.
//
// Complexity: O(log holes) an event, no allocation in the steady state.
//
// Known weak case: every small request gnaws at the largest hole, so large requests fail early. It is here as the floor that
// the others are compared with.
package worstfit
