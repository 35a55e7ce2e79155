package fuzz

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/plugins/strategies"
	"github.com/gpubench/gpubench/trace"
)

// TestBuiltinStrategiesKeepTheirWord judges random programs, thoroughly, on every strategy of ours. The canary is the control: it
// must be caught.
func TestBuiltinStrategiesKeepTheirWord(t *testing.T) {
	for _, d := range strategies.Builtin() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			target, err := NewTarget(d.Name, d)
			if err != nil {
				t.Fatal(err)
			}
			caught := false
			lim := target.Limits()
			g := plan.NewGenerator(lim)
			refused := 0
			const batches, each = 60, 6
			for batch := range uint64(batches) {
				p := plan.Fill(batch, lim)
				g.SetPlan(p)
				src := plan.NewRandom(1, batch)
				j := NewJudge(target, target.configOf(&p, batch))
				for range each {
					g.Swarm(src)
					tr := g.Program(src)
					if err := trace.Validate(tr); err != nil {
						t.Fatal(err)
					}
					b, err := j.Judge(tr)
					if errors.Is(err, ErrConfig) {
						refused++
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if b != nil {
						caught = true
						if !d.Canary {
							var text bytes.Buffer
							_ = trace.Format(&text, tr)
							t.Errorf("%v\n%+v\n%s\n%s%s", b, j.cfg, b.Stack, b.Map, text.String())
							return
						}
					}
				}
				j.Close()
			}
			if d.Canary && !caught {
				t.Error("the canary was not caught: the judge is blind")
			}
			t.Log("plans refused:", refused)
			if refused > batches/2 {
				t.Errorf("%d of %d plans were refused: the configurations are no good", refused, batches)
			}
		})
	}
}
