package canary

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

// TestOverlaps replays a script and keeps books: up to allocation `after` no two live blocks may overlap, later some must,
// while every free is still accepted and in the end nothing is left on the device.
func TestOverlaps(t *testing.T) {
	const after = 500
	s := goldentest.PowerLaw(5_000, 300, 7)
	p, err := goldentest.NewPlayer(Description(), goldentest.Peer{Options: `{"after": 500, "period": 50}`}, s)
	if err != nil {
		t.Fatal(err)
	}
	allocs, overlaps := 0, 0
	for i := range s.Ops {
		b, st := p.Do(&s.Ops[i])
		if s.Ops[i].Free {
			if st != trace.StatusOK {
				t.Fatalf("operation %d: free: %v", i, st)
			}
			continue
		}
		if st != trace.StatusOK {
			t.Fatalf("operation %d: %v", i, st)
		}
		allocs++
		p.Live(func(id int, other sdk.Block) {
			if id != int(s.Ops[i].ID) && other.Addr < b.Addr+b.Size && b.Addr < other.Addr+other.Size {
				overlaps++
				if allocs <= after {
					t.Fatalf("allocation %d overlaps already", allocs)
				}
			}
		})
	}
	if overlaps == 0 {
		t.Fatalf("%d allocations, none overlaps: the canary sings no more", allocs)
	}
	p.FreeAll()
	if err := p.Strategy.Close(); err != nil {
		t.Fatal(err)
	}
	if free, total := p.Device.MemInfo(); free != total {
		t.Fatalf("%d of %d bytes free after Close", free, total)
	}
}
