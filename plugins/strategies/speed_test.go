package strategies

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

// original holds the figures of the real programs, millions of operations a second of processor time, in the order of
// goldentest.Loads, measured over the native code on a two-core virtual machine (x86-64, g++ 12.2 -O2); 0 where there is none.
type original struct {
	name string
	mops [4]float64
}

// contestants are the set-ups that are compared with their originals.
var contestants = []struct {
	strategy, options string
	original          original
}{
	{"offset-allocator", `{}`, original{"OffsetAllocator", [4]float64{39, 69, 52, 66}}},
	{"tlsf", `{}`, original{"VMA TLSF", [4]float64{22, 58, 37, 43}}},
	{"tlsf", `{"mode": "min-memory"}`, original{}},
	{"tlsf", `{"mode": "min-time"}`, original{}},
	{"tlsf", `{"mode": "min-offset"}`, original{}},
	{"mattconte-tlsf", `{"align_bytes": 8}`, original{"mattconte/tlsf", [4]float64{12, 30, 14, 11}}},
	{"bfc", `{}`, original{"BFC", [4]float64{10, 15, 14, 6.3}}},
	{"bfc", `{"allow_growth": true}`, original{}},
	{"rmm-pool", `{"initial_fraction": 1}`, original{"RMM pool", [4]float64{1.0, 33, 26, 0.24}}},
	{"rmm-arena", `{"arena_fraction": 1}`, original{"RMM arena", [4]float64{1.0, 1.3, 7.2, 0.5}}},
	{"rmm-binning", `{"min_exponent": 12, "max_exponent": 14}`, original{}},
	// The original was measured on fragmenting, training and inference loads: 1.5 to 3.4.
	{"pytorch", `{}`, original{"PyTorch", [4]float64{1.5, 3.4, 3.4, 1.5}}},
	{"pytorch", `{"conf": "expandable_segments:True"}`, original{}},
	{"buddy", `{}`, original{}},
	{"first-fit", `{}`, original{}},
	{"best-fit", `{}`, original{}},
	{"next-fit", `{}`, original{}},
	{"worst-fit", `{}`, original{}},
}

func find(tb testing.TB, name string) sdk.Description {
	for _, d := range Builtin() {
		if d.Name == name {
			return d
		}
	}
	tb.Fatalf("strategy %q is not built in", name)
	return sdk.Description{}
}

// BenchmarkSpeed measures every contestant on the four loads of a million operations each and prints the table: millions of
// operations a second of processor time, and how many times the original's figure that is. Beside it stands the figure of
// the calibration loop, since processors differ: compare quotients.
//
//	go test ./plugins/strategies -run '^$' -bench Speed -benchtime 1x
func BenchmarkSpeed(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "Mops/cpu-s (x original)\t")
	for _, l := range goldentest.Loads {
		fmt.Fprintf(table, "%s\t", l.Name)
	}
	fmt.Fprintf(table, "B/live of powerlaw\tcalibration M/s\t\n")
	for _, c := range contestants {
		desc := find(b, c.strategy)
		name := c.strategy
		if c.options != "{}" {
			name += " " + c.options
		}
		row, meta, ran := name+"\t", 0.0, false
		for i, l := range goldentest.Loads {
			b.Run(name+"/"+l.Name, func(b *testing.B) {
				v := goldentest.ReportSpeed(b, desc, c.options, l, c.original.mops[i])
				row += fmt.Sprintf("%.1f", v.MopsPerCPUSecond)
				if o := c.original.mops[i]; o > 0 {
					row += fmt.Sprintf(" (%.2f)", v.MopsPerCPUSecond/o)
				}
				row += "\t"
				ran = true
				if l.Name == "powerlaw" {
					meta = v.MetaBytesPerLive
				}
			})
		}
		if !ran { // left out by -bench
			continue
		}
		fmt.Fprintf(table, "%s%.0f\t%.0f\t\n", row, meta, goldentest.Calibrate())
	}
	table.Flush()
}

// TestNoAllocations: in the steady state no event allocates on the Go heap, whichever the load.
func TestNoAllocations(t *testing.T) {
	for _, c := range contestants {
		t.Run(c.strategy+" "+c.options, func(t *testing.T) { goldentest.NoAllocations(t, find(t, c.strategy), c.options) })
	}
}

// bookkeepingBytesMax bounds the memory a strategy may use for itself, for each live block of the power-law load (about 3,700
// blocks and as many holes): an entry of 64 bytes for each block and hole, arrays that grow by a quarter to a half beyond
// what they need, and fixed tables of some 8 KiB a list. The buddy's bitmaps are made for the range, not for its blocks.
const bookkeepingBytesMax = 512

// TestBookkeeping prints and bounds the bookkeeping of every contestant for each live block.
func TestBookkeeping(t *testing.T) {
	for _, c := range contestants {
		got, err := goldentest.BookkeepingPerLive(find(t, c.strategy), c.options, goldentest.Loads[0].Script(20_000))
		if err != nil {
			t.Fatalf("%s %s: %v", c.strategy, c.options, err)
		}
		t.Logf("%-45s %6.0f bytes a live block", c.strategy+" "+c.options, got)
		if got <= 16 || got > bookkeepingBytesMax {
			t.Errorf("%s %s: %.0f bytes of bookkeeping a live block, want 16 to %d", c.strategy, c.options, got, bookkeepingBytesMax)
		}
	}
}
