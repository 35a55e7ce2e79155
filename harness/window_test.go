package harness

import "testing"

// TestWindowHoldsTheTraceWithinBounds: a window is the next power of two above the trace, from 8 Ki to 256 Ki.
func TestWindowHoldsTheTraceWithinBounds(t *testing.T) {
	for events, want := range map[uint64]uint64{0: 8192, 1: 8192, 7550: 8192, 8192: 8192, 8193: 16384, 100_000: 131_072, 262_144: 262_144,
		262_145: 262_144, 10_000_000: 262_144, 1 << 63: 262_144} {
		g := windowFor(events)
		if g.OutcomeCapacity != want || g.CallCapacity != want {
			t.Errorf("%d events: a window of %d outcomes and %d calls, want %d of each", events, g.OutcomeCapacity, g.CallCapacity, want)
		}
		if err := g.Validate(); err != nil {
			t.Errorf("%d events: %v", events, err)
		}
	}
}
