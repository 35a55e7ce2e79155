// Package backends defines what a strategy gets memory from: Device, the optional interfaces of devices that can do more
// (virtual memory, streams and events, faults on purpose, a model's clock), and As, which finds an optional interface through a
// chain of decorators.
//
// # The devices
//
// ideal is a budget with first-fit addresses, the reference device of the recordings; recorded answers with the addresses
// that a recording saw; pmm is the model of NVIDIA's physical memory manager; host maps real memory of this machine; cuda is
// a GPU. fault and limit are decorators: they wrap any device and keep the optional interfaces of what they wrap.
//
// # Rules for a device
//
// Methods are called from one goroutine at a time, allocate nothing in the steady state, and answer with a
// trace.CallStatus rather than an error, since the answer goes into the call log as it is. A model reads no clock: its time
// advances only by the costs of calls and by AdvanceNs, so equal calls give equal answers at equal times. A device that
// answers CallDeviceLost once answers it for ever.
package backends
