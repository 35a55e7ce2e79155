// Package nvml reads NVIDIA's management library: which devices there are and how they are set up (fingerprint), and how they
// are doing (samples). It is served as the telemetry plugin of gpubench-backend-cuda, in a process of its own, so that a library
// that hangs or crashes takes no measurement with it.
//
// # Readings
//
// What a card does not tell is a normal value with a name (State), never zero and never an error of the whole: not_supported
// (the card or the driver says so), absent (the library lacks the function), hung (no answer within the deadline), implausible
// (2^64-1, more used than there is), lost (the GPU fell off the bus), error. In a sample a reading that is not a number stands as NAME.STATE = 1; in a
// fingerprint the state's name stands in place of the value.
//
// # Calls that do not return
//
// Every call runs in a goroutine and has a deadline. The library serialises its calls, so after one that hangs the others are
// not made either: they answer hung at once, until the first comes back. A function that the loaded library lacks is looked up
// before it is called, because calling it would end the process.
//
// # Memory
//
// The second version of the memory query tells what the driver reserves; without it used contains that. Machines whose GPU shares the
// host's memory (GB10, Jetson) do not support the query: there the host's MemAvailable is what can be had (MemFree leaves
// out the page cache, which gives way), and the fingerprint says so.
//
// # MIG
//
// An instance is a device of its own, with the UUID that CUDA_VISIBLE_DEVICES takes; its index is InstanceIndex. Clocks, power and
// temperature belong to the parent.
//
// Without cgo the package is empty.
package nvml
