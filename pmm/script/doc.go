// Package script runs .ops scripts against the model and prints what happened, in exactly the form of the recordings that
// were made with the driver's own uvm_pmm_gpu.c (open-gpu-kernel-modules 595.45.04) in user space: one header line with the
// configuration, then one JSON object an operation, with a census of every state, list and counter.
//
// A script names chunks by number: numbers count up over allocated chunks, children of splits and pages of resource-manager
// clients, and are never reused, so that removing a line never renumbers what is left. An operation that would break a
// precondition which the driver asserts is answered "REJECT:why" and changes nothing.
//
// What the recordings' test bench added to the driver is here, not in the model: 64 VA blocks (0..63) that are mere owners
// and whose evictions can be made to fail, and trackers of two GPUs whose work finishes only when waited for or told so.
//
// Cost: an operation is as cheap as the model's, its census visits every chunk. Known weak case: a script with very many
// live chunks spends its time in the census, quadratic in the length of the script.
package script
