// Package rmmfixed is RMM's fixed_size_memory_resource (rapidsai/rmm v24.10.00): blocks of one size.
//
// # Policy
//
// Every request up to block_bytes takes one block, the one that was freed longest ago; a larger one is refused. Blocks come
// in chunks of 128 (blocks_per_chunk), the first when the resource is made, each further one when the lists are empty. One
// first-in first-out list a stream, by the rules of the stream-ordered base (internal/rmm). Nothing merges, nothing is given
// back.
//
// # Structure and complexity
//
// Linked lists over a blocks.Table; O(1) an event, except where lists of streams are merged, also O(1) each.
//
// # Invariants
//
// Every block of every chunk is live or in exactly one list.
//
// # Known weak case
//
// Any mix of sizes: small requests waste most of a block, larger ones are refused. Useful below a binning resource.
package rmmfixed
