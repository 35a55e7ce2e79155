package fuzz

import (
	"sync/atomic"
	"testing"

	"github.com/gpubench/gpubench/fuzz/plan"
)

// benchmarkBatch runs batches as a campaign does: generator, strategy, quick checks, and one program in deepEvery judged with
// everything.
func benchmarkBatch(b *testing.B, strategy string, events int) {
	t := builtin(b, strategy)
	lim := t.Limits()
	lim.LengthMax = events
	w := newWorker(t, lim, 1, new(atomic.Bool))
	snap := &snapshot{edges: &Edges{}}
	var programs, ran uint64
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		r := w.batch(n, snap)
		if r.err != nil || len(r.hits) > 0 {
			b.Fatal(r.err, r.hits)
		}
		programs += r.programs
		ran += r.events
		n++
	}
	s := b.Elapsed().Seconds()
	b.ReportMetric(float64(programs)/s, "programs/s")
	b.ReportMetric(float64(ran)/s, "events/s")
	b.ReportMetric(float64(ran)/float64(programs), "events/program")
}

func BenchmarkBatchShort(b *testing.B) { benchmarkBatch(b, "first-fit", 8) }
func BenchmarkBatchLong(b *testing.B)  { benchmarkBatch(b, "first-fit", 4000) }

// BenchmarkStages says where the time of a short program goes.
func BenchmarkStages(b *testing.B) {
	t := builtin(b, "first-fit")
	lim := t.Limits()
	lim.LengthMax = 8
	w := newWorker(t, lim, 1, new(atomic.Bool))
	p := plan.Fill(2, lim)
	p.LengthMax = 8
	w.gen.SetPlan(p)
	src := plan.NewRandom(1, 1)
	snap := &snapshot{edges: &Edges{}}
	b.Run("generate", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			w.generate(src, i, snap)
		}
	})
	tr := w.generate(src, 0, snap)
	cfg := t.configOf(&p, 1)
	s, err := t.open(cfg, tr)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("execute", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := s.Execute(w.generate(src, i, snap), i > 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			tr := w.generate(src, i, snap)
			run, err := s.Execute(tr, i > 0)
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				w.quick.open(cfg, tr)
			}
			if w.quick.program(tr, &run, snap.edges) == guilty {
				b.Fatal(w.quick.led.Violations())
			}
		}
	})
	j := NewJudge(t, cfg)
	b.Run("judge", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if br, err := j.Judge(tr); br != nil || err != nil {
				b.Fatal(br, err)
			}
		}
	})
}
