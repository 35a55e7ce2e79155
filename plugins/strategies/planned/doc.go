// Package planned plans the memory of an iteration from those before, as STAlloc does (arXiv 2507.16274; infinigence/STAlloc Synthesizer,
// Allocator/StaticAllocator.hpp).
//
// # Policy
//
// Until learn_iterations marks of the key "iteration" (option mark) have passed, requests go to the fallback, PyTorch's caching allocator, and are recorded: size,
// stream, and the events of the iteration between which they live. Then, at a mark, the tensors of one iteration are laid out (package learn: interval colouring in
// layers, or lowest free offset, whichever is lower), the caches of the fallback are emptied, and the plan's memory is taken in one piece.
//
// From then on the n-th request of an iteration gets the n-th offset of the plan, if it matches and its bytes are free. Else it goes to the fallback and is counted as a
// mismatch. What the plan leaves out goes to the fallback as well, uncounted: tensors that outlive their iteration, are used on several streams, belong to
// a private pool, or are larger than max_planned_bytes.
//
//   - match "equal" is the original's rule: the size must be the planned one. It suits static shapes.
//   - match "fits" (ours, the default) also takes smaller requests, and plans for each position the largest size seen, and headroom_percent more. When an iteration had requests
//     that were too large, or was of another length, the next mark plans anew if the planned memory is empty; if it is empty when
//     the first such request comes, it is given back at once. So sequences that grow cost a new plan each time they outgrow the headroom.
//
// # Structure
//
// The plan is an array by position; the prepared memory a set of taken ranges in which an address is given only if all its bytes are free.
// So a program that deviates from the plan falls back and is never given bytes twice.
//
// # Complexity
//
// Planning compares every two tensors of an iteration, at a mark. A planned request costs O(log live), a free too.
//
// # Deviations from the original
//
// There, hooks in the framework tell the phase and the layer of a tensor, by which tensors are grouped before they are clustered by size; a trace has no phases, so they are clustered by
// size only. Tensors that cross iterations are planned there with offsets of their own and here left to the fallback. Gaps of the plan do not serve dynamic tensors.
//
// # Known weak case
//
// A program whose iterations differ in the number or order of requests: after the first difference all positions are off, and the plan's memory lies idle.
package planned
