package clock

// cntvct returns the virtual counter after all earlier instructions have completed.
func cntvct() uint64

// cntfrq returns the rate of the virtual counter in Hz.
func cntfrq() uint64

// Ticks reads the counter. It allocates nothing and never goes backwards on one thread.
func Ticks() uint64 { return cntvct() }

func source() Source { return SourceCNTVCT }

// counterFrequency is the rate that the firmware announces; a firmware that left it empty is measured instead.
func counterFrequency() uint64 {
	if f := cntfrq(); f != 0 {
		return f
	}
	return measureFrequency()
}
