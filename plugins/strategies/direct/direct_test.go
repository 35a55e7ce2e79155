package direct

import (
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

func TestInvariants(t *testing.T) { goldentest.Invariants(t, Description(), "") }

// TestPages: over pages of 2 MiB the k-th allocation lies at page k, a freed page is the next one given, and the device
// refuses when its pages are used up.
func TestPages(t *testing.T) {
	dev, err := ideal.New(ideal.Config{TotalBytes: 4 * ideal.PageBytes})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Description().New(&sdk.Env{Device: dev, CapacityBytes: 4 * ideal.PageBytes})
	if err != nil {
		t.Fatal(err)
	}
	var b [5]sdk.Block
	for i := range b[:4] {
		if st := s.Alloc(&sdk.Request{Size: uint64(i) + 1}, &b[i]); st != trace.StatusOK || b[i].Addr != uint64(i)*ideal.PageBytes || b[i].Size != uint64(i)+1 {
			t.Fatalf("allocation %d: %v %+v", i, st, b[i])
		}
	}
	if st := s.Alloc(&sdk.Request{Size: 1}, &b[4]); st != trace.StatusFailed {
		t.Fatalf("fifth page of four: %v, want failed", st)
	}
	if st := s.Free(&b[2], 0); st != trace.StatusOK {
		t.Fatal(st)
	}
	if st := s.Alloc(&sdk.Request{Size: 1}, &b[4]); st != trace.StatusOK || b[4].Addr != 2*ideal.PageBytes {
		t.Fatalf("after a free: %v %+v, want the freed page", st, b[4])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if free, total := dev.MemInfo(); free != total {
		t.Fatalf("%d of %d bytes free after Close", free, total)
	}
}

func BenchmarkReplay(b *testing.B) {
	s := goldentest.PowerLaw(20_000, 1_000, 1)
	s.CapacityBytes = 64 << 30 // a page of 2 MiB for each block
	goldentest.Bench(b, Description(), "", s)
}
