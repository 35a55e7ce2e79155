package buddy

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"pgregory.net/rapid"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) { goldentest.Invariants(t, Description(), "") }

// TestRoots frees everything in random order and expects the roots back: the binary digits of the number of units, largest
// first.
func TestRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.Uint64Range(1, 5000).Draw(t, "units")
		h := New(1<<21, units*UnitBytes)
		type block struct{ addr, granted uint64 }
		var live []block
		for _, size := range rapid.SliceOfN(rapid.Uint64Range(1, 100*UnitBytes), 0, 50).Draw(t, "sizes") {
			if addr, granted, _, ok := h.Alloc(size, 0); ok {
				if granted < size || granted/2 >= max(size, UnitBytes) || (addr-1<<21)%granted != 0 {
					t.Fatalf("%d bytes: granted %d at %d", size, granted, addr)
				}
				live = append(live, block{addr, granted})
			}
		}
		for _, i := range rapid.Permutation(live).Draw(t, "order") {
			if !h.Free(i.addr, i.granted, 0) {
				t.Fatalf("free of %+v refused", i)
			}
			if h.Free(i.addr, i.granted, 0) {
				t.Fatalf("second free of %+v accepted", i)
			}
		}
		var in sdk.Inspection
		h.Inspect(&in)
		rest := units
		for _, b := range in.Segments[0].Blocks {
			largest := uint64(1)
			for largest*2 <= rest {
				largest *= 2
			}
			if b.State != "free" || b.Bytes != largest*UnitBytes {
				t.Fatalf("block %+v where the root of %d units is due", b, largest)
			}
			rest -= largest
		}
		if rest != 0 {
			t.Fatalf("%d units are in no root", rest)
		}
	})
}

// TestLargeArena opens an arena of 80 GiB and counts the bookkeeping, which must not be proportional to it.
func TestLargeArena(t *testing.T) {
	h := New(0, 80<<30)
	if _, _, _, ok := h.Alloc(64<<30, 0); !ok {
		t.Fatal("64 GiB of 80 GiB failed")
	}
	if _, _, _, ok := h.Alloc(1, 0); !ok {
		t.Fatal("1 byte failed")
	}
	var in sdk.Inspection
	h.Inspect(&in)
	if in.MetaBytes > 2<<20 {
		t.Fatalf("bookkeeping of %d bytes for two blocks, want at most 2 MiB", in.MetaBytes)
	}
}

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow": true, "segment_bytes": 3000000}`, 8192, 65536)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
