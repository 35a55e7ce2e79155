//go:build cgo && linux

package cuda

// #include "shim.h"
import "C"

// benchBare makes n calls of cuMemGetInfo as a C program would, benchGuarded through the shim with its clock, counters
// and deadline; tests cannot call C themselves.
func (d *Device) benchBare(n int) bool    { return C.gb_bench_bare(d.c, C.uint64_t(n)) == C.GB_OK }
func (d *Device) benchGuarded(n int) bool { return C.gb_bench_guarded(d.c, C.uint64_t(n)) == C.GB_OK }
