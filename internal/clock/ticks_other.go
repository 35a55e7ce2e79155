//go:build !amd64 && !arm64

package clock

// Ticks reads the monotonic clock of the operating system, in ns.
func Ticks() uint64 { return monotonicTicks() }

func source() Source { return SourceMonotonic }

func counterFrequency() uint64 { return 1e9 }
