package rmmbinning

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	goldentest.Invariants(t, Description(), `{"min_exponent": 8, "max_exponent": 9, "initial_fraction": 0.25}`)
}

// TestOpenFails: the first chunks of the bins 2^18 to 2^22 need 128 × (0.25 + 0.5 + 1 + 2 + 4) MiB = 992 MiB.
func TestOpenFails(t *testing.T) {
	open := func(mib uint64) error {
		_, err := goldentest.NewPlayer(Description(), goldentest.Peer{Options: `{"min_exponent": 18, "max_exponent": 22}`},
			&goldentest.Script{CapacityBytes: mib << 20, IDs: 1, Streams: 1})
		return err
	}
	if err := open(256); err == nil {
		t.Error("the bins fit 256 MiB")
	}
	if err := open(2048); err != nil {
		t.Error(err)
	}
}

// TestBins: each size goes to the smallest bin that holds it, above the largest to the pool.
func TestBins(t *testing.T) {
	p, err := goldentest.NewPlayer(Description(), goldentest.Peer{}, &goldentest.Script{CapacityBytes: 64 << 20, IDs: 1, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ size, granted uint64 }{
		{1, 4096}, {4096, 4096}, {4097, 8192}, {32769, 65536}, {65536, 65536}, {65537, 65536 + 256},
	} {
		var b sdk.Block
		if st := p.Strategy.Alloc(&sdk.Request{Size: c.size}, &b); st != trace.StatusOK || b.Size != c.granted {
			t.Errorf("%d bytes: %v, granted %d, want %d", c.size, st, b.Size, c.granted)
		}
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
