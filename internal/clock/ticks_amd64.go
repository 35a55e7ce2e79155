package clock

// rdtsc returns the time-stamp counter after all earlier instructions have completed.
func rdtsc() uint64

// cpuid executes CPUID with the given leaf and sub-leaf 0.
func cpuid(leaf uint32) (eax, ebx, ecx, edx uint32)

const (
	leafExtendedMax = 0x80000000 // EAX: greatest extended leaf
	leafPower       = 0x80000007 // EDX bit 8: invariant TSC
	invariantTSC    = 1 << 8
)

var useTSC = hasInvariantTSC()

func hasInvariantTSC() bool {
	greatest, _, _, _ := cpuid(leafExtendedMax)
	if greatest < leafPower {
		return false
	}
	_, _, _, edx := cpuid(leafPower)
	return edx&invariantTSC != 0
}

// Ticks reads the counter. It allocates nothing and never goes backwards on one thread.
func Ticks() uint64 {
	if useTSC {
		return rdtsc()
	}
	return monotonicTicks()
}

func source() Source {
	if useTSC {
		return SourceTSC
	}
	return SourceMonotonic
}

// counterFrequency is not asked on amd64: the rate of the time-stamp counter is measured.
func counterFrequency() uint64 { return measureFrequency() }
