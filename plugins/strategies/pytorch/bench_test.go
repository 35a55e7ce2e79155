package pytorch_test

import (
	"path/filepath"
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
)

// recordedScript is the allocations and frees of a recording in testdata, for a device of another size.
func recordedScript(b *testing.B, name string, capacity uint64) *goldentest.Script {
	b.Helper()
	_, dec := openGolden(b, filepath.Join("testdata", name+".jsonl.gz"))
	if dec == nil {
		b.Fatalf("testdata/%s is not a recording", name)
	}
	s := &goldentest.Script{CapacityBytes: capacity, Streams: 1}
	owners := map[int]int{} // stream of each block: the recordings name it at the allocation only
	for dec.More() {
		var op goldenOp
		if err := dec.Decode(&op); err != nil {
			b.Fatal(err)
		}
		s.Streams = max(s.Streams, op.Stream+1)
		s.IDs = max(s.IDs, op.ID+1)
		if op.Op == "a" {
			owners[op.ID] = op.Stream
		}
		if op.Op == "a" || op.Op == "f" {
			s.Ops = append(s.Ops, goldentest.Op{Free: op.Op == "f", ID: uint32(op.ID), Size: op.Size, Stream: uint16(owners[op.ID])})
		}
	}
	return s
}

// BenchmarkAllocator measures events a second, allocations and frees alike, through the interface of strategies. The
// loads: the three on which the original was measured (transformer training, LLM inference, log-uniform sizes), four
// streams, and the four kinds of script that all strategies share, on devices large enough that nothing fails.
func BenchmarkAllocator(b *testing.B) {
	const gib = 1 << 30
	expandable := `{"conf": "expandable_segments:True"}`
	for _, l := range []struct {
		name, recording, options string
		capacity                 uint64
	}{
		{"training", "train-grow-tight-expandable", "", 24 * gib},
		{"training-expandable", "train-grow-tight-expandable", expandable, 24 * gib},
		{"inference", "infer-tight-maxsplit-rounding", "", 12 * gib},
		{"inference-expandable", "infer-tight-maxsplit-rounding", expandable, 12 * gib},
		{"frag", "frag-maxsplit20", "", 16 * gib},
		{"frag-expandable", "frag-maxsplit20", expandable, 16 * gib},
		{"streams", "streams-tight-default", "", 8 * gib},
	} {
		b.Run(l.name, func(b *testing.B) {
			goldentest.Bench(b, pytorch.Description(), l.options, recordedScript(b, l.recording, l.capacity))
		})
	}
	for _, name := range []string{"training-tight", "serving", "adversary-tight"} {
		b.Run("script-"+name, func(b *testing.B) {
			s, err := goldentest.ScriptOf("../testdata", name+".20k")
			if err != nil {
				b.Fatal(err)
			}
			s.CapacityBytes *= 2
			goldentest.Bench(b, pytorch.Description(), "", s)
		})
	}
	b.Run("script-powerlaw-1M", func(b *testing.B) {
		goldentest.Bench(b, pytorch.Description(), "", goldentest.PowerLaw(1_000_000, 20_000, 1))
	})
}
