// Package learn holds what the strategies share that learn from the first iterations of a program and prepare memory for the
// following ones: a recorder of tensors and their lifetimes, a planner that lays out lifetimes, and the prepared memory itself, where an
// address is given only if all of its bytes are free, so that a wrong prediction costs a fallback and never an overlap.
//
// The planner is interval colouring in layers, as in STAlloc (infinigence/STAlloc Synthesizer/plan_generator.py): tensors are clustered by size
// (one percent apart), the largest cluster first; a tensor goes into a hole of the layers that are there, else into the layer of its cluster whose last end is the latest
// that is not after its start, else into a new layer. The layers are stacked. A second plan places every tensor, largest first, at the lowest free
// offset; the lower of the two is taken. Planning costs every pair of tensors, once.
package learn
