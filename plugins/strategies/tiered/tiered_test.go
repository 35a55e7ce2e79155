package tiered

import (
	"strings"
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"min_spill_bytes":0,"max_host_bytes":16777216}`)
}

// TestSpills works out the moves on an arena of 8 MiB. h1 and h2 are 3 MiB each; h3, 4 MiB, needs the place of h1 and of h2, since the 2 MiB
// behind them do not suffice with either (h1's place is not adjacent): both are spilled. Using h1 finds 4 MiB free behind h3. Using h2 finds 1 MiB: h3 is the coldest and
// goes.
func TestSpills(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(`# gpubench trace 1
h1 = alloc 3MiB
h2 = alloc 3MiB
h3 = alloc 4MiB
use h1 stream=0
use h2 stream=0
free h1
free h3
free h2
h4 = alloc 9MiB
h5 = alloc 8MiB
free h5
`), "test")
	if err != nil {
		t.Fatal(err)
	}
	rep, in := conformtest.Replay(t, Description(), tr, `{}`, 8<<20)
	want := map[string]uint64{"spills": 3, "returns": 2, "spilled_blocks": 0, "host_bytes": 0}
	for k, n := range want {
		if in.Counters[k] != n {
			t.Errorf("%s = %d, want %d", k, in.Counters[k], n)
		}
	}
	if got := rep.Exact.Peak.SpilledBytes; got != 6<<20 {
		t.Errorf("peak in host memory %d, want 6 MiB", got)
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{}`) }
