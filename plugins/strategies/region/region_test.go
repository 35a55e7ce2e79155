package region

import (
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"region_bytes":1048576}`, `{"grow":true,"segment_bytes":8388608,"region_bytes":2097152}`)
}

func TestInvariants(t *testing.T) {
	for _, o := range []string{`{"region_bytes":2048}`, `{"region_bytes":65536}`, `{}`} {
		goldentest.Invariants(t, Description(), o)
	}
}

// TestRegions follows the pointer by hand: regions of 16 units of 256 bytes in a range of 40, so that requests of up to two units
// share a region.
func TestRegions(t *testing.T) {
	const u = UnitBytes
	h := New(0, 40*u, 16*u)
	alloc := func(units, want uint64) (addr, ref uint64) {
		t.Helper()
		addr, _, ref, ok := h.Alloc(units*u-1, 0)
		if !ok || addr != want*u {
			t.Fatalf("%d units at %d, %v; want %d", units, addr/u, ok, want)
		}
		return addr, ref
	}
	free := func(addr, ref uint64) {
		t.Helper()
		if !h.Free(addr, 0, ref) || h.Free(addr, 0, ref) {
			t.Fatalf("free at %d, or its second free", addr/u)
		}
	}
	a, ar := alloc(2, 0)
	b, br := alloc(2, 2)
	free(a, ar) // serves nobody
	c, cr := alloc(2, 4)
	free(b, br)
	free(c, cr) // the region is empty: it starts again
	var addr, ref [8]uint64
	for i := range addr {
		addr[i], ref[i] = alloc(2, uint64(2*i))
	}
	d, dr := alloc(1, 16) // the region is full: a second one
	e, er := alloc(3, 32) // more than an eighth: a region of its own
	_, _ = alloc(1, 17)   // still the second region
	for i := range addr[1:] {
		free(addr[i], ref[i])
	}
	if _, _, _, ok := h.Alloc(16*u, 0); ok {
		t.Fatal("a region was reused with a live block in it")
	}
	free(addr[7], ref[7]) // closed and empty: back to the backing
	f, fr := alloc(16, 0)
	free(d, dr)
	free(e, er)
	free(f, fr)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{}`) }
