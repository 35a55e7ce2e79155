// Package pmm is a device over the software model of NVIDIA's physical memory manager (package pmm at the root): addresses,
// events and rules of the ideal device, with the physical memory taken from the model.
//
// # Memory
//
// Device memory is what the resource manager makes of the frames of PMA: pinned pages, which the manager of managed memory
// never sees. Config.Pages says of which size. With pages of 2 MiB, the default, every request is rounded up to them, all or
// none; the address is the lowest free virtual range, which needs no contiguous pages. So this device and an ideal device of
// the same size decide alike, and differ in what a call costs and in which physical pages stand behind an address. With
// PagesMixed the rest of a Malloc that is less than 2 MiB lies in pages of 64 KiB: those leave holes, and a request backed by
// 2 MiB pages can fail while enough bytes are free. With Pages64KiB that cannot happen, at the price of 32 times the entries.
// In both of them a start state with mapped ranges is refused, since those are told in pieces of Info.PageBytes.
//
// Managed gives managed memory on the same device, out of the manager's user chunks. A request that finds too little memory
// evicts it, as PMA asks the driver to.
//
// Memory that was freed is zeroed before it is free again. A call that finds too little memory while some is being zeroed waits
// for that on the model's clock and tries once more, as the driver waits for its scrubber: so scrubbing costs time and never
// decides.
//
// # Time
//
// The clock is the model's. A call costs what was published for the whole of it (Costs.MallocNs, CreateNs, …), whatever its
// size, since no law of size has been published; or what its parts cost if that is more: the calls to PMA, Costs.MapPageNs an
// entry written, one Costs.TLBInvalidateNs where something is unmapped, the evictions that it caused. Waiting for the scrubber
// comes on top. A call that fails costs what the model has charged so far. MemInfo costs nothing, since the harness asks too.
// Info says whether every figure has a published source.
//
// # Complexity
//
// One operation a page; the rest is the ideal device. Nothing allocates once the tables have grown.
package pmm
