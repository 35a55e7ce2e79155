package rmmarena

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	for _, options := range []string{`{"arena_fraction": 1}`, `{"arena_fraction": 1, "size_classes": true}`} {
		t.Run(options, func(t *testing.T) { goldentest.InvariantsBetween(t, Description(), options, 4096, 32768) })
	}
}

// TestSizeClasses walks the table: 117 entries, of which the last is the largest number.
func TestSizeClasses(t *testing.T) {
	n := 0
	for size := uint64(1); size <= maxClassBytes; n++ {
		size = sizeClass(size) + 1
	}
	if n != 116 {
		t.Errorf("%d classes up to 256 GiB, want 116", n)
	}
	for _, c := range []struct{ size, want uint64 }{
		{1, 256}, {2048, 2048}, {2049, 2560}, {4096, 4096}, {4097, 5 << 10}, {33 << 10, 40 << 10}, {48<<10 + 1, 54 << 10}, {54 << 10, 54 << 10},
		{54<<10 + 1, 64 << 10}, {56 << 10, 64 << 10}, {65 << 10, 80 << 10}, {100 << 10, 112 << 10}, {256 << 30, 256 << 30}, {256<<30 + 1, rmm.MaxRequestBytes},
	} {
		if got := sizeClass(c.size); got != c.want {
			t.Errorf("class of %d is %d, want %d", c.size, got, c.want)
		}
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{"arena_fraction": 1}`) }
