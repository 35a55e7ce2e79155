// Package pmm is a model of the physical memory manager of NVIDIA's UVM driver (open-gpu-kernel-modules 595.45.04,
// kernel-open/nvidia-uvm/uvm_pmm_gpu.c), and of PMA, the frame allocator of the resource manager below it (package pma). It
// decides as the driver decides, step by step: the recordings in script/testdata were made with the driver's own code, and
// every line of them, list orders included, is reproduced.
//
// # What it does
//
// Device memory is cut into roots of 2 MiB. A root is either with PMA or with the manager, which hands it out whole or
// splits it, size by size, down to the smallest size of the request's type. Frees merge eagerly: when the last allocated
// child of a family goes, the family becomes its parent again. User memory can be evicted: the manager picks a root, asks
// the VA blocks that own pieces of it to move their pages away, and takes the root. Nothing is ever moved or compacted.
//
// # Structure
//
// Every chunk is a node of 48 bytes in one slice and is named by its index; the roots come first in address order, the
// children of a split are one run of consecutive nodes, taken from a cache of runs by size. There are no pointers, no maps
// and no allocations on the hot path: free lists, eviction lists and the lazy-free queue are intrusive and FIFO, and each
// node knows which list it is on. One rule, updateLists, moves chunks between lists.
//
// A hit in a free list costs O(1). A split costs O(children) a level, a merge likewise; an eviction visits the leaves of
// one root once for every block that owns some. PMA finds its lowest free root in O(log roots).
//
// # Invariants
//
// Check verifies the thirty invariants of the driver's design, listed in InvariantRules; the tests call it after every
// step. Legal transitions between the five states are in Transitions.
//
// # Time and chance
//
// The model has no clock but its own, which advances by the prices of Costs and by AdvanceNs, and no randomness at all. The
// core is not safe for concurrent use; Shared is, with the driver's locks in the driver's order. Where the driver drops its
// mutex, in the middle of an eviction, the model calls its Evictor with nothing held, and that may run any other operation.
//
// # Known weak cases
//
// A lazily freed sub-chunk stays below a root that is still on an eviction list, as in the driver; the driver asserts if an
// eviction picks that root before the queue has run. The model passes such a root over. Config.LazyListRule takes it off
// the list instead.
//
// Not modelled: NUMA devices (page reference counts), confidential computing, and the driver's spinning for 30 s in
// evict-range, which here is three looks. A device of 1 TiB costs 40 MiB for its roots.
package pmm
