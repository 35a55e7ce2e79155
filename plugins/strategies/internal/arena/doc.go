// Package arena turns a heap, the policy that places blocks in one contiguous range, into a strategy: it takes the memory
// from the device, follows streams, grows, trims, and gives everything back.
//
// # Memory
//
// Without the option grow the strategy takes one segment of Env.CapacityBytes at Open and lives in it. With grow it starts
// empty. When no segment can serve a request it asks the device for a new one of segment_bytes, or of what the request
// needs if that is more or if the device or the limit (Env.CapacityBytes in all) refuses the larger one. Each segment has a
// heap of its own; they are asked in the order in which they were made, and blocks never cross them. When the device
// refuses, segments without a live block go back to it and the request is tried once more: such an allocation is
// StatusRecovered. Trim gives back segments without a live block; the arena of a strategy that does not grow stays.
//
// # Streams
//
// Heaps know nothing of streams. When the trace has one stream only, and no use on another was recorded, a freed block is
// free at once. Otherwise an event is recorded at the free on the freeing stream and on every stream that used the block,
// and the block becomes free when all of them have completed; that is checked at each allocation, oldest first, stream by
// stream, so that an unfinished stream does not hold back another. An allocation that fails while frees are pending waits
// for them and tries again (StatusRecovered). Over a device without events blocks are free at once.
//
// # Complexity
//
// With one segment an allocation costs what the heap costs and a few nanoseconds. With n segments it asks up to n heaps,
// and a free finds its segment by binary search. Nothing allocates in the steady state.
package arena
