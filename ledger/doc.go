// Package ledger keeps our own books of who owns which bytes.
//
// A strategy is judged by what it answered and by the device calls it made, never by what it says about itself. The ledger
// reads a trial window by window (events, their outcomes, the call log), checks every answer as it goes, and derives every
// metric of docs/METHODOLOGY.md. Its memory is bounded by the live blocks and the segments, plus fixed tables; the length
// of a trace does not matter. It reads no clock and draws no random numbers: equal input gives equal reports, byte for byte
// in the part called Exact, however the input was cut into windows.
//
// # What is read when
//
// The calls of an event come before its outcome, as they happened. Three rules follow from that. A block that the event
// frees is given up before the calls, since the free may hand its segment back. A realloc that succeeded ends the old
// block before the calls, since a block may grow where it lies. Extents and shares that the calls declare wait for the
// outcome, which says where the block starts and how much was granted: granted is the sum of all extents, and the first extent, at the
// outcome's address, is what the declared ones leave of it.
//
// # The books
//
// An address space (device, host) consists of regions: what Malloc, managed or host allocation returned, or mappings of one
// reservation that touch. Regions of different mallocs never join, even side by side: cudaFree knows them apart. In a
// region every byte lies in a block or in the gap behind exactly one item, where an item is the head of the region (which owns nothing) or a
// block. So one question answers four checks: a block was placed correctly if and only if its range lies in the gap of the item below its
// address. Only if it does not is it asked why: over another block (O1) or outside memory that is held (O5). Such a block is counted
// as live but stays out of the books; its bytes stay in the name of whoever had them first, so one lie is one violation and
// not a cascade.
//
// Items are found through an index by address: sorted leaves of up to 128 entries under a directory of their first addresses, both searched by
// bisection without branches. An item remembers its leaf, so a free searches one leaf only. Gaps are counted by size class, and the largest ones
// are kept in bins of a sixteenth of an octave with the exact maximum of the top bin (gapSet), because external fragmentation needs the largest free range after
// every event. Alloc and free cost O(log n) comparisons and a move of at most 1.5 KiB; measured by BenchmarkFeed, with no
// allocation an event. With more blocks than the cache holds, the time is that of its misses: what the next events name is looked up
// sixteen events at a time (warm), so that the misses of one lot overlap.
//
// Physical memory that is mapped at several addresses (stitching) is one memory: a block at one of its addresses casts a shadow on the others, which
// occupies them and is named in overlaps. A declared share (CallShare) is the exception, and passes to the sharer when the
// owner goes. Reserved and free bytes count every address; a warning says so.
//
// # Streams
//
// Check O7 keeps its own record of which work may still touch freed memory: see shadow. While events are immediate, work is complete as soon as
// it is issued and nothing is kept, so recordings without events manual cost nothing. Under manual events a freed range
// stays haunted by the recorded uses of its block on other streams, and by the work of its own stream, until
// the trace or a device call says that it is complete; a stream that runs behind that work (wait, or a stream wait in the call log; transitively) may have it
// before. A free on another stream means that the program has ordered the two: either may have the memory. cudaFree and
// unmapping end it.
//
// # Times
//
// Latencies are counted exactly: one counter for each value up to 65,535 ticks and a table of the larger ones (counts), so quantiles are order
// statistics and not estimates. A quantile is refused, with the reason as its value, where samples are too few, where the
// value is below five times the cost of reading the clock, or where it falls among times that did not fit.
//
// # Known weak cases
//
// A strategy that always takes the largest of thousands of nearly equal gaps makes the top bin be read again at each event.
// Dropping caches as a cure is judged over all mappings, one by one, at each failure: a trace with expandable segments that fails hundreds of thousands of times
// is slow to judge. The hostages at the peak are of the last walk, at most 1/64 below it.
package ledger
