// Package pmm is a device over the software model of NVIDIA's physical memory manager (package pmm at the root): addresses,
// events and rules of the ideal device, with the physical memory taken from the model.
//
// Device memory of n bytes is ⌈n/2 MiB⌉ kernel chunks of 2 MiB, all or none, and physical memory made by Create likewise; the
// address is the lowest free virtual range, which needs no contiguous chunks. So this device and an ideal device of the same size
// decide alike, and differ in what a call costs and in which physical chunks stand behind an address.
//
// Memory that was freed is zeroed before it is free again. A call that finds too little memory while some is being zeroed waits
// for that on the model's clock and tries once more, as the driver waits for its scrubber: so scrubbing costs time and never
// decides.
//
// # Time
//
// The clock is the model's: it advances by the costs of calls and by AdvanceNs. On top of what the model charges for chunks,
// mapping costs Costs.MapPageNs a page and unmapping Costs.TLBInvalidateNs a call. Info says whether every figure has a
// published source.
//
// # Complexity
//
// One chunk operation a page; the rest is the ideal device. Nothing allocates once the tables have grown.
package pmm
