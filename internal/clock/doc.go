// Package clock is the only package that reads time for measuring. Everything else takes ticks, or a time, as a value.
//
// # Source
//
// Operations of 20 to 200 ns are measured, so the clock must be cheap and of fine grain:
//
//   - amd64: the time-stamp counter, when the processor says that it is invariant (CPUID leaf 0x80000007, EDX bit 8: Intel
//     SDM volume 3B, section 19.17.1; AMD APM volume 3, appendix E.4.6), that is, runs at one rate in all power states.
//     LFENCE before RDTSC keeps the reading behind all earlier instructions (Intel SDM volume 2B, RDTSC): without it the
//     processor reads the counter while up to some hundred measured instructions are still in flight.
//   - arm64: CNTVCT_EL0, after ISB, at the rate in CNTFRQ_EL0 (Arm ARM D12.1.2). The grain is 1 to 40 ns.
//   - elsewhere, and on amd64 without an invariant counter: the monotonic clock of the operating system, one tick a
//     nanosecond, at several times the cost.
//
// # Calibration
//
// The rate of the time-stamp counter is measured once a process against the monotonic clock over calibrationSpan; each end
// is the tightest of several bracketed readings, so the error is about 50 ns in the span, 10 parts per million. The cost
// of a reading is what lies between two readings with nothing between them: the median of many pairs, since rare
// interruptions must not count. It is given in thousandths of a tick because on arm64 it is often less than one tick.
//
// # Weak cases
//
// A virtual machine that migrates while measuring changes the rate; counters of different sockets may differ by some
// ticks. Both are bounded by locking the measuring thread and by the trial's own checks, not here.
package clock
