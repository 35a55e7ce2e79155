package tlsf

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	for name := range modeNames {
		t.Run(name, func(t *testing.T) { goldentest.Invariants(t, Description(), `{"mode": "`+name+`"}`) })
	}
}

// TestLists checks the list of sizes at the edges of the classes, worked out by hand: class = msb - 7, step = the five bits
// below the highest.
func TestLists(t *testing.T) {
	for _, c := range []struct {
		size uint64
		want uint32
		next uint64
	}{
		{1, 0, 9}, {8, 0, 16}, {9, 1, 17}, {248, 30, 256}, {249, 31, 257}, {256, 31, 257},
		{257, 1*32 + 0, 257 + 8},       // msb 8: steps of 8
		{264, 1*32 + 1, 272},           //
		{511, 1*32 + 31, 519},          //
		{512, 2*32 + 0, 528},           // msb 9: steps of 16
		{1 << 20, 13*32 + 0, 33 << 15}, // msb 20: steps of 32 KiB
		{33 << 15, 13*32 + 1, 34 << 15},
		{63 << 15, 13*32 + 31, 64 << 15},
	} {
		if got := listOf(c.size); got != c.want {
			t.Errorf("listOf(%d) = %d, want %d", c.size, got, c.want)
		}
		if got := nextSize(c.size); got != c.next {
			t.Errorf("nextSize(%d) = %d, want %d", c.size, got, c.next)
		}
	}
}

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow": true, "segment_bytes": 3000000}`, 8192, 65536)
}

func BenchmarkReplay(b *testing.B) {
	for _, mode := range []string{"default", "min-memory", "min-time", "min-offset"} {
		b.Run(mode, func(b *testing.B) { goldentest.BenchAll(b, Description(), `{"mode": "`+mode+`"}`) })
	}
}
