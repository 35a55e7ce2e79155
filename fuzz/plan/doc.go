// Package plan makes programs: traces of a few to a few thousand events that a strategy has never seen.
//
// A Plan says what the programs of a batch are like: which kinds of events and how often, which sizes, how long blocks live, how many
// streams, how large the arena. Fill draws one with gofuzz. A Generator draws programs from it, one decision after the
// other, through a Source: random numbers, the bytes of a corpus or of `go test -fuzz`, or an odometer that draws every sequence there is.
//
// # Programs are written by names
//
// Between generator, mutator and shrinker a program is a list of Op: events that carry their arguments by value and name
// their objects by handles that are never renumbered. A Writer turns a list into a trace and leaves out what is not legal
// where it stands. So an op can be removed without looking for what depended on it: the free of a handle whose alloc is gone
// goes with it, and no other op changes its meaning. That is what makes shrinking work (183 against 147 of 200 minimal results
// by naming alone).
//
// # Shapes
//
// Uniform sizes and frees miss whole families of bugs: those of wrapping sizes, of limits, of stale frees, of roll-back and of streams.
// Each Shape is there for a family. Sizes are drawn around powers of two, alignments and what the arena has left, up to 2^64−1;
// arenas are mostly no power of two; phases repeat; devices fail at the k-th call; streams complete late. Swarm leaves
// half of the kinds out of a few programs at a time.
//
// # Cost
//
// A program of eight events costs about as much as eight map look-ups; nothing is allocated in the steady state. Known weak case: a
// program has at most 4096 handles, so that a wrong free finds the last address of its handle; very long histories belong to
// trace/synth.
package plan
