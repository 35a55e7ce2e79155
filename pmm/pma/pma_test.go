package pma_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm/pma"
)

// TestAgainstPlainArray compares random calls with a model that keeps one letter a frame and searches it from the start.
func TestAgainstPlainArray(t *testing.T) {
	_ = testflags.GoldenDir
	rapid.Check(t, func(t *rapid.T) {
		roots := rapid.IntRange(1, 70).Draw(t, "roots")
		f, err := pma.New(pma.Config{Roots: roots, Scrub: true})
		if err != nil {
			t.Fatal(err)
		}
		plain := make([]byte, roots*pma.FramesPerRoot) // 0 free, 'u', 'p'
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0:
				n := rapid.IntRange(1, 5).Draw(t, "n")
				pinned := rapid.Bool().Draw(t, "pinned")
				dst := make([]int32, n)
				got := dst[:f.AllocRoots(dst, pinned, true, 0)]
				want := take(plain, pma.FramesPerRoot, n, map[bool]byte{true: 'p', false: 'u'}[pinned])
				if len(got) != len(want) {
					t.Fatalf("%d roots, want %d", len(got), len(want))
				}
				for i := range got {
					if int(got[i]) != want[i]/pma.FramesPerRoot {
						t.Fatalf("root %d, want %d", got[i], want[i]/pma.FramesPerRoot)
					}
				}
			case 1:
				step := rapid.SampledFrom([]int{1, 2, pma.FramesPerRoot}).Draw(t, "page")
				n := rapid.IntRange(1, 40).Draw(t, "n")
				got, r := f.AllocPages(nil, n, uint64(step)*pma.FrameBytes, 0)
				want := take(plain, step, n, 'p')
				if r != pma.OK || len(got) != len(want) {
					t.Fatalf("%d pages, %v; want %d", len(got), r, len(want))
				}
				for i := range got {
					if got[i] != uint64(want[i])*pma.FrameBytes {
						t.Fatalf("page at 0x%x, want frame %d", got[i], want[i])
					}
				}
			case 2:
				root := rapid.IntRange(0, roots-1).Draw(t, "root")
				mask := rapid.Uint32().Draw(t, "mask")
				want := pma.OK
				for k := range pma.FramesPerRoot {
					if mask>>k&1 == 1 && plain[root*pma.FramesPerRoot+k] == 0 {
						want = pma.InvalidState
					}
				}
				if got := f.Free(root, mask, false, 0); got != want {
					t.Fatalf("free of %08x in root %d: %v, want %v", mask, root, got, want)
				}
				for k := range pma.FramesPerRoot {
					if want == pma.OK && mask>>k&1 == 1 {
						plain[root*pma.FramesPerRoot+k] = 0
					}
				}
			case 3:
				root := rapid.IntRange(0, roots-1).Draw(t, "root")
				part := plain[root*pma.FramesPerRoot : (root+1)*pma.FramesPerRoot]
				want := pma.OK
				for _, s := range part {
					if s != 'u' {
						want = pma.InvalidState
					}
				}
				if got := f.PinRoot(root); got != want {
					t.Fatalf("pin of root %d: %v, want %v", root, got, want)
				}
				for k := range part {
					if want == pma.OK {
						part[k] = 'p'
					}
				}
			}
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// take finds up to n free aligned runs of step frames, lowest first, and marks them.
func take(plain []byte, step, n int, as byte) []int {
	var out []int
next:
	for at := 0; at < len(plain) && len(out) < n; at += step {
		for k := range step {
			if plain[at+k] != 0 {
				continue next
			}
		}
		for k := range step {
			plain[at+k] = as
		}
		out = append(out, at)
	}
	return out
}

// TestLargeDevice: the hierarchical sets find the last root of a 1 TiB device.
func TestLargeDevice(t *testing.T) {
	f, err := pma.New(pma.Config{Roots: pma.RootsMax})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int32, pma.RootsMax-1)
	if n := f.AllocRoots(dst, true, false, 0); n != len(dst) {
		t.Fatalf("%d roots", n)
	}
	if n := f.AllocRoots(dst[:2], true, false, 0); n != 0 {
		t.Fatalf("%d roots of a request that cannot be met whole", n)
	}
	if n := f.AllocRoots(dst[:2], true, true, 0); n != 1 || dst[0] != pma.RootsMax-1 {
		t.Fatalf("%d roots, the first %d", n, dst[0])
	}
	if f.FreeRoots() != 0 || f.NextFreeRoot(0) != -1 {
		t.Fatal("roots are left")
	}
}

// TestHugePages: 512 MiB pages are 256 aligned free roots.
func TestHugePages(t *testing.T) {
	f, err := pma.New(pma.Config{Roots: 600})
	if err != nil {
		t.Fatal(err)
	}
	f.AllocPages(nil, 1, pma.FrameBytes, 0)
	got, r := f.AllocPages(nil, 3, pma.HugeBytes, 0)
	if r != pma.OK || len(got) != 1 || got[0] != pma.HugeBytes {
		t.Fatalf("%v, %v", got, r)
	}
	if _, r := f.AllocPages(nil, 1, 4096, 0); r != pma.InvalidArgument {
		t.Fatalf("%v", r)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestEvicting: a range that is being emptied refuses pins, and only runs without pinned frames are offered.
func TestEvicting(t *testing.T) {
	f, err := pma.New(pma.Config{Roots: 6})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int32, 4)
	f.AllocRoots(dst, false, false, 0)
	if r := f.PinRoot(1); r != pma.OK {
		t.Fatal(r)
	}
	if at := f.FindRange(3, 0); at != 2 {
		t.Errorf("a run of three at %d, want 2", at)
	}
	f.MarkEvicting(2, true)
	if r := f.PinRoot(2); r != pma.InUse {
		t.Errorf("pin of a root being evicted: %v", r)
	}
	if at := f.FindRange(4, 0); at != -1 {
		t.Errorf("a run of four at %d", at)
	}
	f.MarkEvicting(2, false)
	if at := f.FindRange(4, 0); at != 2 {
		t.Errorf("a run of four at %d, want 2", at)
	}
}
