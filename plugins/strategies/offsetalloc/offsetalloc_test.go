package offsetalloc

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) { goldentest.Invariants(t, Description(), "") }

// TestBins checks both roundings, worked out by hand: below 8 exact, then 8 bins a doubling.
func TestBins(t *testing.T) {
	for _, c := range []struct {
		units    uint64
		down, up uint32
	}{
		{1, 1, 1}, {7, 7, 7}, {8, 8, 8}, {15, 15, 15}, {16, 16, 16}, {17, 16, 17}, {18, 17, 17}, {31, 23, 24}, {32, 24, 24}, {33, 24, 25},
		{1 << 20, 18 * 8, 18 * 8}, {1<<20 + 1, 18 * 8, 18*8 + 1}, {1<<20 - 1, 17*8 + 7, 18 * 8},
	} {
		if got := binDown(c.units); got != c.down {
			t.Errorf("binDown(%d) = %d, want %d", c.units, got, c.down)
		}
		if got := binUp(c.units); got != c.up {
			t.Errorf("binUp(%d) = %d, want %d", c.units, got, c.up)
		}
	}
}

// TestNodesRunOut: of 5 nodes the free one counts, and the last is never used: so 3 blocks.
func TestNodesRunOut(t *testing.T) {
	h := newHeap(5, 0, 1<<20)
	for i := 0; i < 3; i++ {
		if _, _, _, ok := h.Alloc(256, 0); !ok {
			t.Fatalf("allocation %d of 3 failed", i+1)
		}
	}
	if _, _, _, ok := h.Alloc(256, 0); ok {
		t.Fatal("a fourth allocation succeeded")
	}
}

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow": true, "segment_bytes": 3000000}`, 8192, 65536)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
