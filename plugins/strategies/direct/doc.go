// Package direct is no policy at all: every allocation is a Malloc of the device, every free a Free. It shows what the
// device's own allocator does, and what it costs to have none above it.
//
// A block holds exactly what was asked; what the device rounds up is charged by the device and seen there. A block that was
// used on another stream, or freed on one of several, is given back after the host has waited for those streams, as cudaFree
// does implicitly (CUDA C++ Programming Guide, "Stream-Ordered Memory Allocator": cudaMalloc and cudaFree synchronise across
// all executing streams). So nothing is ever pending or cached, and nothing can be recovered when the device refuses.
//
// Structure: none, except a table of the streams that have used a block. Complexity: one device call an event.
//
// Known weak case: everything. On hardware a device call costs tens of microseconds to milliseconds, and small requests are
// charged whole pages.
package direct
