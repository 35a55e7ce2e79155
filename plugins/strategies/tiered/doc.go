// Package tiered keeps what does not fit on the device in memory of the host: when a request fails, the blocks that were used least recently
// are spilled until it fits.
//
// # Policy
//
// Blocks are placed by best fit in one arena. When a request does not fit, the strategy waits for pending frees; then it copies the coldest live block to
// pinned host memory and gives its place away, and tries again, until the request fits (the outcome is "recovered") or nothing is left to spill. A block is used
// when it is allocated and at each `use`. A `use` of a spilled block brings it back, if need be by spilling colder ones; when that is not possible it
// stays, since the device can read pinned memory, only slower. Blocks smaller than min_spill_bytes are spilled only when no other is left. Requests
// larger than the arena fail at once; max_host_bytes bounds what may be spilled.
//
// A spill waits for all work of the device first, so that nobody still uses the block. Each spill and return is a statement in the call log (spill, unspill) between
// the calls for host memory and the copy, so the ledger follows the block.
//
// # Structure
//
// The heap is the best-fit heap of package fit. Live blocks on the device are two lists in order of their last use, one for each side of min_spill_bytes. A block's reference
// names its entry, which knows where the block is.
//
// # Invariants
//
// A block is either on the device, in the heap and in a list, or in host memory and in neither. The bytes on the host are those of the spilled blocks.
//
// # Complexity
//
// O(log n) without spills; a spill costs a synchronisation, a host allocation and a copy of the block. Nothing allocates in the steady state.
//
// # Known weak cases
//
// A working set a little larger than the device, used in turn: every block is spilled just before it is needed. A trace that names no uses: the oldest block
// is taken for the coldest. Spilling the coldest first frees scattered places, so a large request may spill more than its size.
package tiered
