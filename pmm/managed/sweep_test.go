package managed_test

import (
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm/managed"
)

// TestSweep: working sets of half to twice the capacity. FIFO and LRU fall off a cliff on a loop that does not fit; nobody
// beats the optimum; while the set fits, every policy misses each block once.
func TestSweep(t *testing.T) {
	_ = testflags.GoldenDir
	o := managed.DefaultSweep()
	points, err := managed.Sweep(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + managed.SweepTable(points))
	type cell struct {
		pat   managed.Pattern
		ratio float64
	}
	by := map[cell]map[managed.Policy]managed.SweepPoint{}
	for _, p := range points {
		c := cell{p.Pattern, p.Ratio}
		if by[c] == nil {
			by[c] = map[managed.Policy]managed.SweepPoint{}
		}
		by[c][p.Policy] = p
	}
	for c, row := range by {
		best := row[managed.Belady]
		for pol, p := range row {
			if p.Misses < best.Misses {
				t.Errorf("%s at %.3f: %s misses %d, the optimum %d", c.pat, c.ratio, pol, p.Misses, best.Misses)
			}
			blocks := uint64(c.ratio * 32)
			if c.ratio <= 1 && c.pat != managed.Uniform && c.pat != managed.Zipf && p.Misses != blocks {
				t.Errorf("%s at %.3f: %s misses %d of a set that fits, want %d", c.pat, c.ratio, pol, p.Misses, blocks)
			}
			if c.ratio <= 1 && p.Evictions != 0 {
				t.Errorf("%s at %.3f: %s evicts although the set fits", c.pat, c.ratio, pol)
			}
		}
		if c.pat == managed.Loop && c.ratio > 1 {
			for _, pol := range []managed.Policy{managed.DriverOrder, managed.LRU, managed.Clock} {
				if row[pol].Misses != row[pol].Touches {
					t.Errorf("loop at %.3f: %s misses %d of %d, want all: the block needed next is always the oldest", c.ratio, pol, row[pol].Misses, row[pol].Touches)
				}
			}
			if row[managed.Random].Misses >= row[managed.LRU].Misses || best.Misses >= row[managed.Random].Misses {
				t.Errorf("loop at %.3f: random misses %d, the optimum %d, LRU %d; want optimum < random < LRU",
					c.ratio, row[managed.Random].Misses, best.Misses, row[managed.LRU].Misses)
			}
		}
		if c.pat == managed.Zipf && c.ratio > 1 && row[managed.LRU].Misses >= row[managed.DriverOrder].Misses {
			t.Errorf("zipf at %.3f: LRU misses %d, FIFO %d; hits should help", c.ratio, row[managed.LRU].Misses, row[managed.DriverOrder].Misses)
		}
	}
}
