// Package fuzz runs programs on allocators until they break, and hands back the smallest program that breaks them.
//
// # From plan to finding
//
// A campaign (Run) works in rounds of batches. A batch has a plan (package plan: gofuzz fills it), a configuration that follows from it (device,
// arena, options), and a few hundred programs, drawn from the plan or mutated from the corpus. Each program runs on a target that stays
// open from program to program, after a reset; the quick checks (ledger, waste, failures that look spurious) read every
// outcome. What they suspect, and one program in 32 whatever they say, goes before a Judge: it runs the program alone on a target that was just
// opened, event by event, and makes every check that applies, in stages: the program, the picture of the target, everything freed, closed
// and repeated, changed in ways that must not matter. What a judge confirms is shrunk to a fixed point, run once more from its text,
// and filed by its cause. A breach that only shows after the programs before it is tried with them as one program.
//
// # Why it can be trusted
//
// All books are our own: the ledger's, and a shadow of live blocks and segments for the questions that need a look at all of them. What a target shows of
// itself is checked against them and never used as truth. A check that does not apply is listed with the reason. A canary whose bug must be
// found by the same generator and checks runs first; a campaign that does not find it says that it is blind.
//
// # Determinism
//
// Programs and findings follow from the seed: batch n of seed s is always the same, given the corpus at the start of its round, and rounds are
// merged in the order of their batches, however many workers there are. So a campaign that was killed goes on from its last saved round.
// Real time decides only where a campaign ends, and what a hang is.
//
// # Novelty
//
// No code coverage crosses a process, so what is new is told from outcomes: an edge is what an event was and how it ended, behind what the event
// before it was and how that ended, with coarse sizes, the relation of addresses, the number of live blocks, device calls and the feature that a
// strategy may report. A program with a new edge joins the corpus; beyond a limit the corpus is reduced to a greedy cover.
//
// # Cost and weak cases
//
// In process a program of eight events costs about a microsecond to generate, two to three to execute (the strategy's reset is the largest
// part), half to check; a judge costs a few hundred. In another process a program costs one message each way. Bugs that need more than a few
// hundred events, or another thread, are out of reach; a pure endless loop in process costs a goroutine that Go cannot end, so that a campaign gives
// up after a few.
package fuzz
