// Package sdk is all that the author of a plugin imports. A plugin executable is a main that calls Serve with an Executable: any
// number of strategies (Description, Strategy), backends (Backend) and telemetry. examples/strategy-bump is a complete one;
// docs/PLUGINS.md tells the contract, also for plugins that are not written in Go.
//
// # Structure
//
// Runner is one strategy open over one device, with the replay loop. Everything that is timed happens in Runner.run: for each event
// a look into the slot table, one call of the strategy between two readings of the clock, one record of 32 bytes, one
// store of the counter. It runs wholly in the process of the strategy: no RPC, no log line, no allocation of ours. The same code runs inside
// tests, fuzzers and benchmarks, with windows in ordinary memory; only Serve and what it starts knows of processes.
//
// Between strategy and device sits a recorder that writes the call log. The strategy sees a device with exactly the optional interfaces that
// the real one has; what the trace says about the progress of streams, model time and failures goes to the real device
// directly, since those are the program's calls and not the strategy's.
//
// A device in another process (remoteDevice, deviceServer) is a Device like any other. Its answers carry the call's own
// time, so the transport is in no figure.
//
// # Invariants
//
//   - The call records of an event are published before its outcome, the outcome before the counter. An event whose records do not
//     fit is retracted from the window whole and delivered with the next one; one with more records than an area holds is
//     delivered over several.
//   - A slot holds the block of its last tenant, also after the free, so that a deliberately wrong free shows what a real program would
//     show.
//   - Policy time is the time of the event, less the real time of its device calls, less what recording them cost. The cost
//     of the two clock readings around the event is left in it and stated in the header.
//   - All calls of a strategy and of a device come from one locked thread in a plugin process.
//
// # Costs and weak cases
//
// A free slot table entry is 40 bytes. The loop adds about 6 ns to an alloc or free, and two clock readings (20 ns each on amd64) unless
// timing is by batch. Following moves of live blocks costs a pass over the slot table at each event that states some; a reset or
// a checkpoint likewise. A strategy that moves blocks at every event is measured rightly (this is outside its time) but slowly.
package sdk
