// Package cuda is a device of real NVIDIA hardware, through the CUDA driver API.
//
// # The driver
//
// libcuda.so.1 is loaded with dlopen, and its functions are called through typed pointers by a small C shim (shim.c), so
// neither building nor starting needs CUDA. A function that the driver lacks answers "not supported". The C side keeps the
// table of functions, the clock and the counters; the Go side keeps who holds what.
//
// # A call
//
// A device call is a function call on the thread of the strategy, as in a real program: no hand-over to another thread stands
// between policy and driver. The shim makes the context current on the thread once, reads the calibrated counter of package clock directly
// before and after the driver's function, and counts the call by its kind, so that calls inside a timed region can be seen
// (Counters). LastCallNs is the driver's own time in the last call, without the change from Go to C and back: that is device
// time. First touch is a call of its own (Touch) and so is every wait: neither hides in the time of an allocation.
//
// # Calls that do not return
//
// Every call has a deadline. A watchdog thread looks at the number of the call in flight; one that stays for a whole deadline is
// given up: the thread gets a signal, whose handler jumps out of the driver back to where the call was made, and the call
// answers trace.CallHung. From then on the device is lost, and the driver is never called again, because the call may have left
// its locks held. Places for the driver's answers lie in memory that is not freed then. The signal cannot reach
// a thread in uninterruptible sleep; there the supervisor of the plugin process is what notices and goes on. An answer after
// which a context answers nothing else (ECC error, illegal address, launch failure, device unavailable) loses the device too.
//
// # Memory
//
// Malloc takes one of four kinds of memory: device memory (cuMemAlloc), a stream-ordered pool of its own (cuMemAllocFromPoolAsync on the
// default stream), pinned host memory that the device sees, or, only where Config.AllowManaged says so, managed memory. The device hands out at most
// Config.Share of what was free when it was opened (90 % by default), and never more managed memory than is free at the moment of the
// call, so that nothing swaps. MemInfo is the smaller of what is left of that and what the driver calls free. Close frees
// everything and destroys the context; after a crash the end of the process does.
//
// # Streams
//
// Stream 0 is the default stream; others are non-blocking streams, made at first use. No kernels run, so events complete as soon as
// the hardware reaches them; a trace's own statements about completion (StreamControl) have no counterpart here.
//
// # Contents
//
// Fill writes a word that depends on a seed over a range (memset), Check copies it back and compares: overlapping blocks show
// in real memory.
//
// Without cgo the package is empty.
package cuda
