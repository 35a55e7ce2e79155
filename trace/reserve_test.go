package trace_test

import (
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// Reserve changes how memory grows, and nothing else.
func TestReserve(t *testing.T) {
	build := func(reserve int) *trace.Trace {
		b := trace.NewBuilder()
		b.Reserve(reserve, true, true)
		for h := trace.Handle(1); h <= 5; h++ {
			b.At(int64(h) * 10)
			b.Saw(uint64(h)<<20, 512, false)
			must(t, b.Alloc(h, 512, trace.AllocArgs{}))
		}
		tr, err := b.Finish(trace.Meta{})
		must(t, err)
		return tr
	}
	want := build(0)
	for _, n := range []int{-1, 1, 3, 5, 100} {
		got := build(n)
		if trace.Hash(got) != trace.Hash(want) || len(got.TimesNs) != 5 || len(got.Recorded) != 5 {
			t.Errorf("reserve %d: another trace", n)
		}
		if n >= 5 && cap(got.Events) > n+8 {
			t.Errorf("reserve %d: room for %d events", n, cap(got.Events))
		}
	}
}
