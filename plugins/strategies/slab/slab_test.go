package slab

import (
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"pgregory.net/rapid"
)

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"grow":true,"segment_bytes":8388608}`)
}

func TestInvariants(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{}`, 64, 65536)
}

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow":true,"segment_bytes":3000000}`, 16384, 65536)
}

// TestClasses checks the classes at their edges, worked out by hand, and that each size gets the smallest class that holds it.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		size  uint64
		class int
		bytes uint64
		slab  uint64
	}{
		{1, 0, 256, 2 << 20}, {256, 0, 256, 2 << 20}, {257, 1, 320, 2 << 20}, {320, 1, 320, 2 << 20}, {321, 2, 384, 2 << 20},
		{448, 3, 448, 2 << 20}, {449, 4, 512, 2 << 20}, {512, 4, 512, 2 << 20}, {513, 5, 640, 2 << 20},
		{256 << 10, 40, 256 << 10, 2 << 20}, {256<<10 + 1, 41, 320 << 10, 2560 << 10},
		{1<<20 - 1, 48, 1 << 20, 8 << 20}, {1 << 20, 48, 1 << 20, 8 << 20},
	} {
		if got := classOf(c.size); got != c.class || classBytes(got) != c.bytes || slabBytes(got) != c.slab {
			t.Errorf("size %d: class %d of %d bytes in slabs of %d, want %+v", c.size, got, classBytes(got), slabBytes(got), c)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, MaxClassBytes).Draw(t, "size")
		c := classOf(size)
		if classBytes(c) < size || c > 0 && classBytes(c-1) >= size {
			t.Fatalf("size %d: class %d of %d bytes", size, c, classBytes(c))
		}
	})
}

// TestPlacement works out by hand where blocks lie. The arena is 8 MiB: room for four slabs of 2 MiB, each with 8 blocks of
// 256 KiB or 32 of 64 KiB.
func TestPlacement(t *testing.T) {
	const kib = 1 << 10
	h := New(0, 8<<20)
	alloc := func(size, align, want uint64) (addr, ref uint64) {
		t.Helper()
		addr, granted, ref, ok := h.Alloc(size, align)
		if !ok || addr != want || granted < size {
			t.Fatalf("%d bytes: %d granted at %d KiB, %v; want %d KiB", size, granted, addr/kib, ok, want/kib)
		}
		return addr, ref
	}
	free := func(addr, ref uint64) {
		t.Helper()
		if !h.Free(addr, 0, ref) || h.Free(addr, 0, ref) {
			t.Fatalf("free of %d, or its second free", addr)
		}
	}
	var a, r [9]uint64
	for i := range a { // the ninth opens a second slab
		a[i], r[i] = alloc(256*kib, 0, uint64(i)*256*kib)
	}
	s, sr := alloc(60*kib, 0, 4096*kib) // class 64 KiB: the third slab
	free(a[8], r[8])                    // the second slab is empty and goes back
	free(a[2], r[2])
	free(a[5], r[5])
	alloc(250*kib, 0, 5*256*kib) // last freed, first taken
	alloc(250*kib, 0, 2*256*kib)
	b, br := alloc(1500*kib, 0, 2048*kib) // above the largest class: best fit, the smallest hole is [2 MiB, 4 MiB)
	c, cr := alloc(1<<20, 0, 6144*kib)    // a slab of 8 MiB does not fit: the backing itself
	if _, _, _, ok := h.Alloc(1<<20, 0); !ok {
		t.Fatal("1 MiB is left at 7 MiB")
	}
	if _, _, _, ok := h.Alloc(1<<20, 0); ok {
		t.Fatal("nothing of 1 MiB is left")
	}
	alloc(320, 256, 3548*kib) // class 320 is no multiple of 256: the backing, the hole behind b
	free(b, br)
	free(c, cr)
	free(s, sr)
	h.Reset()
	alloc(8<<20, 0, 0)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{}`) }
