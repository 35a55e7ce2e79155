package managed_test

import (
	"testing"

	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/managed"
)

func benchSpace(b *testing.B, roots, blocks int) *managed.Range {
	b.Helper()
	m, err := pmm.New(pmm.DefaultConfig(uint64(roots) * pmm.RootBytes))
	if err != nil {
		b.Fatal(err)
	}
	s, err := managed.New(m, managed.DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Alloc(uint64(blocks) * managed.BlockBytes)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 2 * blocks {
		if err := r.Touch(uint64(i%blocks)*managed.BlockBytes, managed.BlockBytes, managed.Device); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// BenchmarkHit touches one page that is on the device.
func BenchmarkHit(b *testing.B) {
	r := benchSpace(b, 4, 2)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Touch(0, 1, managed.Device); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThrashingLoop goes round twice the memory: every touch of a block faults, evicts another and copies both ways.
func BenchmarkThrashingLoop(b *testing.B) {
	const blocks = 64
	r := benchSpace(b, blocks/2, blocks)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		if err := r.Touch(i%blocks*managed.BlockBytes, managed.BlockBytes, managed.Device); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
