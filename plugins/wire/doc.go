// Package wire is the replay plane of the plugin contract: everything that crosses the border between the harness and a
// plugin without gRPC. It has three parts.
//
// A Window is a memory file with a header page, an outcome area and a call-log area. The harness creates it, the plugin
// maps it by an inherited descriptor and fills it; the harness drains it between two Replay calls. Space is reserved when
// it is created and its size is sealed, so that neither a full machine kills the plugin with SIGBUS nor a plugin that
// shrinks the file kills the harness. In process (tests, fuzzing, benchmarks) a window lies in ordinary memory; the code on
// both sides is the same.
//
// A Slot is a memory file of one page through which one strategy thread calls a device in another process: a request line,
// an answer line, and a futex word.
//
// Programs and results are the raw bytes of Execute.
//
// # Order
//
// The writer stores the call records of an event, then the call count, then the outcome, then the progress counter, the
// last with release semantics. A reader that loads the counter with acquire semantics sees all records below it. It trusts
// nothing beyond, and of the header only what Drain has checked against its own copy of the geometry: a plugin can write
// any byte of the window at any time, also while it is read, so values are loaded once and checked after loading.
//
// # Sequence
//
// The outcomes of all windows form one sequence, and so do the call records. The calls of event e come before the outcome
// of e in the order of windows, but not always in the same window: an event with more calls than the area holds is
// delivered over several windows, its outcome with the last of them.
//
// Records are little endian and lie as Go structs in memory, so the package runs on little-endian machines only; amd64 and
// arm64 are the two that gpubench supports.
package wire
