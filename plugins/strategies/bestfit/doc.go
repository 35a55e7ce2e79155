// Package bestfit is best fit: a request takes the low end of the smallest hole that is large enough, the lowest among equals.
// Sizes are rounded up to 256 bytes, holes are joined at the free, the whole rest of a hole stays a hole.
//
// Structure: the heap of internal/fit with rule Best, in one arena (or, with grow, in segments) of internal/arena. Holes lie
// in an index by (size, address): 32 bins a doubling under a two-level bitmap, each bin a treap.
//
// Invariants: blocks and holes cover the arena without gap or overlap; no two holes touch.
//
// Complexity: two bit scans and a descent into one small tree, O(log holes) at worst; no allocation in the steady state.
//
// Known weak case: it leaves the smallest possible rests, which nothing fits later. RMM's pool with initial = maximum size
// and one stream, and TensorFlow's BFC without growth and with a split limit of 256 bytes, decide exactly alike.
package bestfit
