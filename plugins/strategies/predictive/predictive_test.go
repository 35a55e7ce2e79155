package predictive

import (
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/strategies/internal/learn"
	"pgregory.net/rapid"
)

// TestClasses: a class is the smallest that holds a size, and at most a quarter larger beyond the first few units.
func TestClasses(t *testing.T) {
	for size, want := range map[uint64]uint64{1: 512, 512: 512, 513: 1024, 2048: 2048, 2049: 2560, 2561: 3072, 4096: 4096, 4097: 5120, 1 << 20: 1 << 20, 1<<20 + 1: 5 << 18} {
		if got := classBytes(classOf(size)); got != want {
			t.Errorf("size %d: class of %d, want %d", size, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, 1<<40).Draw(t, "size")
		c := classOf(size)
		if classBytes(c) < size || c > 1 && classBytes(c-1) >= size {
			t.Fatalf("size %d: class %d of %d bytes, the one below has %d", size, c, classBytes(c), classBytes(c-1))
		}
	})
}

// TestPoolsLieOverEachOther: two blocks of 1 MiB early in the iteration and three of 512 KiB late share memory: 2 MiB in all.
func TestPoolsLieOverEachOther(t *testing.T) {
	const kib = 1 << 10
	tensors := []learn.Tensor{{Size: 1024 * kib, Start: 0, End: 40}, {Size: 1000 * kib, Start: 1, End: 41},
		{Size: 512 * kib, Start: 60, End: 90}, {Size: 512 * kib, Start: 61, End: 91}, {Size: 512 * kib, Start: 62, End: 92},
		{Size: 5 * kib, Start: 63}} // outlives the iteration: not predicted
	pools, height := predict([][]learn.Tensor{tensors}, []int{100}, 0, 2)
	if len(pools) != 2 || pools[0].blocks != 3 || pools[1].blocks != 2 || height != 2048*kib {
		t.Fatalf("%+v, height %d KiB", pools, height/kib)
	}
}
