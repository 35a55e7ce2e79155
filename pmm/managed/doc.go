// Package managed models managed (unified) memory on top of the physical memory manager: VA blocks of up to 2 MiB whose
// pages live on the device or on the host, move on faults, and are evicted when the device is too small.
//
// # Structure
//
// A Space is an address space on one device and its host. A Range is one allocation, cut into blocks of up to 2 MiB. A
// block holds one chunk of device memory for each naturally aligned piece: a whole block one of 2 MiB, the rest of a range
// pieces of 64 KiB and then of 4 KiB (block_gpu_chunk_size of uvm_va_block.c). A page is on the device, on the host, or
// nowhere yet.
//
// A touch by the device collects the pages that are missing into batches of up to 256 faults. Each batch is serviced block
// by block: the thrashing detector may hold a page on the host or make the toucher wait; the prefetcher grows the faulted
// pages; chunks are allocated, first without and then with eviction; pages are copied or zeroed, then mapped. Host touches
// bring pages back. The parameters are the driver's, with its names in the comments (uvm_perf_prefetch.c,
// uvm_perf_thrashing.c of driver 595.45.04).
//
// # Eviction
//
// The driver sees no hits, so its order is that of first use; see Policy for others, chosen by the Space because the
// manager below cannot know them. Belady's optimum needs the future and is a bound, not a policy anyone can have.
//
// # Time
//
// All costs are charged to the model's clock (pmm.Costs); the copy of an eviction is charged where it happens. Nothing
// overlaps: the model is one processor waiting, so times are upper bounds.
//
// # Not modelled
//
// Several GPUs, read duplication, access counters, HMM, preferred locations, and the adaptive lapse of the thrashing detector (votes that move
// the 500 us between 5 us and 500 ms).
package managed
