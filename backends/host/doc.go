// Package host is a device of real host memory: Malloc is mmap with every page touched, Free is munmap. It shows what a
// policy costs when the calls below it have real latencies, on any Linux machine without a GPU. Addresses and times differ
// from run to run.
//
// # Memory
//
// The device never takes the machine down: its size is at most half of the memory that is available when it is opened (the
// kernel's MemAvailable and the limits of the control groups the process is in), a larger wish is an error, and a call of
// checkBytes or more is out of memory when it would leave less than reserveBytes available at that moment. The device's page
// is 4 KiB, or what the kernel uses.
//
// Virtual memory: a reservation is an inaccessible mapping, physical memory a range of one memory file with its pages
// allocated, Map maps that range at a fixed address, SetAccess makes it accessible, Unmap makes the place inaccessible
// again, and Release returns the pages with a hole punched into the file when the last mapping is gone. One physical memory
// may be mapped at several addresses.
//
// # Streams and time
//
// Nothing runs on the device, so events are those of a model: complete at once, or manual. NowNs is the monotonic clock.
//
// # Contents
//
// Fill and Check write and verify a pattern in held memory, by which a test sees that blocks do not overlap in reality.
package host
