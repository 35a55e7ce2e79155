// Package score measures how well bugs are found: the allocators of the zoo, one bug each, against a generator of programs and the
// fuzzer's checks.
//
// Search runs the programs of a generator on a target, with every check on every program, until one is broken or the time is used
// up. Time is that of the processor, of the thread that searches, so that figures of a busy machine can be compared. Four generators can be
// compared in this way, since only the generator differs:
//
//   - plans: the fuzzer's own, package plan: shapes of programs, boundary sizes, arenas that are no power of two, swarms of kinds;
//   - uniform: sizes and frees drawn evenly, which is what a first fuzzer of an allocator does;
//   - rapid: events drawn by pgregory.net/rapid, whose numbers are biased to small ones and to limits;
//   - bytes: events decoded from strings of bytes, which are mutated as `go test -fuzz` mutates them and kept when they lead to
//     outcomes not seen before. (The real one sees code coverage, which is not to be had from inside a program; it also runs the
//     target in other processes, at some microseconds a run, which is not charged here.)
//
// What was not found in its time is censored, not left out: a survival curve gives, for a time, the share of mutants that nobody
// had found by then (the estimate of Kaplan and Meier, which for equal times of censoring is that share).
//
// Known weak case: the checks and the bugs are of one hand, so that the score of the fuzzer's own generator is optimistic; the gap between
// the curves is what counts.
package score
