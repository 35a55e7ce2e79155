// Package trace is the language of gpubench: lists of allocator events on named handles, as recordings, programs of the
// fuzzer, corpora, findings and tests all use it.
//
// # Structure
//
// A Trace is a list of fixed 32-byte Event records with tables beside it (streams, pools, strings, extras) and optional
// columns (times, what the recording saw). It has two forms that say the same: text, one event a line, for people
// (Parse, Format), and binary, mapped and read in place, for machines (Open, WriteFile). docs/TRACES.md is the reference
// of both. Everything that makes traces (the parser, the importers, trace/synth, the fuzzer) goes through a Builder, which
// writes either to memory or, in constant memory, to a file.
//
// An event names its object twice: by Handle, a number for people that is never reused and never renumbered, so that a
// shrinker may delete events; and by Slot, a dense number for tables, reused after a free. The builder hands out the
// slots. What the recording saw lies in columns of its own: a strategy never gets to see it.
//
// # Invariants
//
//   - Every Event.Slot is below Trace.Slots, every index within its table, extras are in order of their events. Open and
//     Parse check this, and everything behind them relies on it.
//   - A slot is held by one live handle at a time. The first SlotsFresh handles keep their slots for good.
//   - A handle is made once (alloc, realloc, or the start state), used while live, freed at most once. Only `free!`, in
//     programs, names dead handles. reset ends all handles, restore brings those of its checkpoint back. Builder refuses what
//     breaks this; Validate finds it in files.
//   - Times do not decrease.
//   - Parse(Format(t)) is Canonical(t); Format(Parse(s)) is a fixed point; Hash is the same for all forms of a trace.
//
// # Cost
//
// As measured by the benchmarks here on a shared two-core machine: the builder takes about 75 ns an event, the larger
// part of it touching new memory; parsing about 430 ns a line; formatting 230 ns. Open checks some 48 million events a
// second and its heap does not depend on their number. Validate, Hash and Describe are single or few passes with memory
// by slots, never by events.
//
// # Known limits
//
// A trace is of one device: importers split recordings of several. There are at most 65536 streams and as many pools in
// a trace, and strings of at most 256 MiB in all, which are the one part that is kept in memory (limits.go). The rules
// of handles follow the program's view: whether an alloc succeeds is known only when it is replayed, and events on a
// handle whose alloc failed are then skipped. Times are those of the requests; there is no end time of work on a stream
// other than the events complete, sync and wait.
package trace
