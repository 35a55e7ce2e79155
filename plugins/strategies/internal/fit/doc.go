// Package fit holds the heap behind the classic fits: first, next, best and worst fit over one contiguous range.
//
// # Policy
//
// Sizes are rounded up to 256 bytes. A block is cut from the low end of the hole that the rule names and the whole rest
// stays a hole, however small. A freed block joins its free neighbours at once.
//
//   - first fit: the hole with the lowest address that is large enough;
//   - next fit: first fit from the rover, the end of the last allocation, and when there is none, from the bottom. Only
//     allocations move the rover;
//   - best fit: the smallest hole that is large enough, the lowest among equals;
//   - worst fit: the largest hole, the lowest among equals.
//
// A demanded alignment above 256 takes the first hole in that order which can hold the block behind the gap that alignment
// costs; the gap stays a hole. Worst fit, whose largest hole may be the wrong one then, falls back to the lowest hole that
// serves.
//
// # Structure
//
// Blocks lie in a blocks.Table. First, next and worst fit find holes in a blocks.AddrTree, in which a hole that shrinks or
// grows stays in place; best fit in a blocks.SizeIndex. Everything is O(log n) in the number of holes; nothing allocates in
// the steady state. An aligned request may look at many holes that are just too small behind their gap.
package fit
