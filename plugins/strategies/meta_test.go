package strategies

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/trace/synth"
)

// BenchmarkMetaBytes reports what the bookkeeping of each strategy takes for a live block, as it says of itself (Inspection.MetaBytes), with some
// thousands of live blocks of a power law on a device of 1 GiB.
func BenchmarkMetaBytes(b *testing.B) {
	tr, err := synth.Build(synth.Options{Pattern: "powerlaw", Events: 40_000, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range Builtin() {
		if d.Canary {
			continue
		}
		b.Run(d.Name, func(b *testing.B) {
			for b.Loop() {
				rep, in := conformtest.Replay(b, d, tr, `{}`, 1<<30)
				live := rep.Exact.Peak.LiveBlocks
				b.ReportMetric(float64(in.MetaBytes)/float64(live), "bytes/block")
				b.ReportMetric(float64(live), "live-blocks")
			}
		})
	}
}
