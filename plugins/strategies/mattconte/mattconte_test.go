package mattconte

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	for _, options := range []string{`{}`, `{"align_bytes": 8}`} {
		t.Run(options, func(t *testing.T) { goldentest.Invariants(t, Description(), options) })
	}
}

// TestMapping checks the lists at the edges of the classes, worked out by hand from mapping_insert and mapping_search.
func TestMapping(t *testing.T) {
	for _, c := range []struct {
		size        uint64
		list, found uint32
	}{
		{24, 3, 3}, {248, 31, 31}, {256, 32, 32}, {257, 32, 33}, {264, 33, 33}, {511, 63, 64}, {512, 64, 64}, {513, 64, 65},
		{1 << 20, 13 * 32, 13 * 32}, {1<<20 + 1, 13 * 32, 13*32 + 1},
	} {
		if got := mapping(c.size); got != c.list {
			t.Errorf("mapping(%d) = %d, want %d", c.size, got, c.list)
		}
		if got := searchList(c.size); got != c.found {
			t.Errorf("searchList(%d) = %d, want %d", c.size, got, c.found)
		}
	}
}

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow": true, "segment_bytes": 3000000}`, 8192, 65536)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
