// Package nextfit is next fit: first fit that starts at the rover, the end of the last allocation, and wraps round to the bottom.
// A hole that begins below the rover is considered only after the wrap. Frees do not move the rover.
//
// Structure: the heap of internal/fit with rule Next, in one arena (or, with grow, in segments) of internal/arena. The hole
// is found by one descent of a treap ordered by address, bounded from below by the rover; a second descent serves the wrap.
//
// Invariants: blocks and holes cover the arena without gap or overlap; no two holes touch.
//
// Complexity: O(log holes) an event, no allocation in the steady state.
//
// Known weak case: it spreads small blocks over the whole arena and so loses the large holes sooner than first fit does.
package nextfit
