package rmmfixed

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

func TestInvariants(t *testing.T) {
	goldentest.Invariants(t, Description(), `{"block_bytes": 1000, "blocks_per_chunk": 4}`)
}

// TestFirstInFirstOut: three blocks of a chunk of four are given in address order; a freed one comes after the fourth; the
// fifth block of a full chunk comes from a new one; a request above the block size is refused.
func TestFirstInFirstOut(t *testing.T) {
	p, err := goldentest.NewPlayer(Description(), goldentest.Peer{Options: `{"block_bytes": 524288, "blocks_per_chunk": 4}`},
		&goldentest.Script{CapacityBytes: 8 << 20, IDs: 1, Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	alloc := func(want uint64) (b sdk.Block) {
		t.Helper()
		if st := p.Strategy.Alloc(&sdk.Request{Size: 100}, &b); st != trace.StatusOK || b.Addr != want<<19 || b.Size != 1<<19 {
			t.Fatalf("%v %+v, want block %d", st, b, want)
		}
		return b
	}
	alloc(0)
	one := alloc(1)
	alloc(2)
	if st := p.Strategy.Free(&one, 0); st != trace.StatusOK {
		t.Fatal(st)
	}
	alloc(3)
	alloc(1)
	alloc(4)
	var b sdk.Block
	if st := p.Strategy.Alloc(&sdk.Request{Size: 1<<19 + 1}, &b); st != trace.StatusRefused {
		t.Fatalf("a request above the block size: %v", st)
	}
}

func BenchmarkReplay(b *testing.B) {
	s := goldentest.PowerLaw(20_000, 1_000, 1)
	for i := range s.Ops {
		s.Ops[i].Size = min(s.Ops[i].Size, 4096)
	}
	goldentest.Bench(b, Description(), `{"block_bytes": 4096}`, s)
}
