// Package zoo holds allocators that are wrong on purpose: the ground truth by which the fuzzer is measured.
//
// Six compact allocators are written here for that purpose alone: a binary buddy, a caching allocator, a two-level segregated fit, a
// manager of root chunks, stream order over the caching allocator, and an allocator of mapped pages. Each takes one bug, a mistake that was
// reported of a real allocator, planted at the same place of the same state machine; with none it is clean. All are strategies like
// any other: zoo/caching is clean, zoo/Z37 is the caching allocator with mutant Z37. The strategies that ship with the program
// carry no such switch.
//
// # What a mutant promises
//
// A mutant promises what its clean allocator promises, so that the checks of promises apply to it. The table names, for each, the check
// that must catch it; testdata/programs has a program of at most fifteen events that shows it, which a test runs against the mutant (it
// must be caught) and against the clean allocator (it must not).
//
// # Structure
//
// caching, streams, tlsf and expandable keep blocks in a chain: nodes in a table, linked in address order, so that a bug in
// linking or merging has the consequences that it has in C. buddy and chunks keep lists of free blocks by order. Lists are searched one
// by one: programs are short, and what counts is that each line can be compared with the report.
//
// # Invariants of the clean allocators
//
// The blocks of a segment lie side by side from its first byte to its last. No two neighbours are free at once (buddies and halves of
// chunks excepted). A request fails only when neither a free block nor the device can serve it, after caches were dropped (not
// promised by buddy and chunks, which round to powers of two). What fails changes nothing.
//
// # Known weak case
//
// Bugs that need two threads are in the table where one fixed order of the steps shows them (Z16, Z17, Z85). Those that are races and
// nothing else are not: Z38 (two locks in two orders) and Z97 (two system calls at once). Bugs in memory that the allocator itself
// writes (Z77) and bugs of cost alone (Z106) are not here either: a strategy does not write the memory it manages, and the fuzzer
// bounds waste but not time.
package zoo
