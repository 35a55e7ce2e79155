// Package rmmarena is RMM's arena_memory_resource (rapidsai/rmm v24.10.00,
// cpp/include/rmm/mr/device/arena_memory_resource.hpp and detail/arena.hpp), decision for decision.
//
// # Policy
//
// The resource takes one span of arena_fraction of the capacity, the first superblock of the global arena. Each stream has
// an arena, an address-ordered set of superblocks; sizes are rounded up to 256 bytes, or to a table of classes with
// size_classes.
//
// A request up to 1 MiB is served by the first superblock of the stream's arena that has a block large enough, first fit
// within it. If there is none, the arena acquires a superblock from the global arena: the first that has a block large
// enough; when that one is empty and has at least 1 MiB more than needed, its head of 1 MiB is split off and taken,
// otherwise all of it, with whatever lives in it.
//
// A larger request is served by the global arena in the same way, but the superblock stays there, so what it leaves serves later
// large requests.
//
// A freed block joins its free neighbours in its superblock. An arena keeps its superblocks even when they are empty. An
// empty superblock of the global arena joins empty neighbours. When nothing can serve a request, all arenas give all
// superblocks to the global arena, after the device has been waited for, and the request is tried once more
// (StatusRecovered).
//
// # Structure
//
// One blocks.Table; a superblock is a range of its own with a blocks.AddrTree of its free blocks; sets of superblocks are
// sorted slices. A block remembers its superblock, since one with a live block in it is never split or joined; the original
// searches for it.
//
// # Invariants
//
// Superblocks tile the span; blocks tile their superblock; no two free blocks of a superblock touch; no two empty superblocks of
// the global arena touch.
//
// # Complexity
//
// O(superblocks of the arena) to find one, O(log blocks) within it.
//
// # Known weak cases
//
// Memory in an arena of one stream does not serve another until everything has failed once. A superblock is the unit: one small
// block keeps 1 MiB from large requests.
package rmmarena
