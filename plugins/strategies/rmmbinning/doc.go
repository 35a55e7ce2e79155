// Package rmmbinning is RMM's binning_memory_resource (rapidsai/rmm v24.10.00) over a pool, decision for decision.
//
// # Policy
//
// There is a bin for each power of two from 2^min_exponent to 2^max_exponent bytes, a resource of fixed-size blocks
// (internal/rmm, Fixed) that takes chunks of 128 blocks from the pool, the first when it is made. A request goes to the
// smallest bin whose blocks are large enough; above the largest bin it goes to the pool (internal/rmm, Pool, as in the
// strategy rmm-pool). A free finds its bin by the same rule.
//
// # Structure and complexity
//
// Each bin and the pool have their own streams and lists. O(1) within a bin; the pool O(log blocks).
//
// # Invariants
//
// Those of the bins and of the pool; the chunks of the bins are live blocks of the pool for ever.
//
// # Known weak cases
//
// The chunks: exponents 18 to 22, RMM's own benchmark setting, need 992 MiB before the first request, and Open fails where the
// capacity is less. A block of a bin is up to twice the request. What a bin has taken never goes back to the pool.
package rmmbinning
