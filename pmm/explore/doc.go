// Package explore runs every sequence of operations on a small model, up to a depth or a number of states, and checks every
// invariant in every state it meets.
//
// # Method
//
// Breadth first. A state is the canonical encoding of the model (pmm.Model.AppendState), owners renamed in order of
// appearance, plus which owners will refuse to move. States are compared byte by byte, so no hash collision can hide one.
// Each state keeps its parent and the operation that led to it: a violation comes with a shortest sequence of operations
// from an empty device, since no shorter one met it before.
//
// # Operations
//
// Allocations of every type and size with and without eviction, frees with and without pending work, unpins to each owner,
// splits, merges, marks, lazy frees and the queue's worker, test evictions, PMA's two callbacks, clients of the resource
// manager, hand-backs, completion of work, and the injected errors. Where the driver drops its mutex in the middle of an
// eviction, every operation that another thread could run there is run there too, one at each place.
//
// # Cost
//
// One transition is a copy of a few kilobytes, one operation and one encoding: one to two microseconds. A state costs its
// encoding (about 60 bytes on three roots) and 30 bytes beside it. Known weak case: the number of states grows with the
// order of every list; more than three roots or three sizes are not exhausted in any useful time, only bounded.
package explore
