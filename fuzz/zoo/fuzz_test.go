package zoo_test

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/fuzz/zoo"
)

// FuzzClean decodes plan and program from bytes: the first says which clean allocator, the next eight the plan. No check may say
// anything.
func FuzzClean(f *testing.F) {
	var targets []*fuzz.Target
	for i, d := range zoo.Clean() {
		targets = append(targets, target(f, d.Name))
		for seed := range byte(4) {
			f.Add([]byte{byte(i), seed, 1, 2, 3, 4, 5, 6, 7, 200, 100, 50, 25, 12, 6, 3, 1, 0, 255, 128, 64, 32, 16, 8, 4, 2, 90, 80, 70, 60, 50, 40, 30, 20, 10})
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 9 {
			return
		}
		tg := targets[int(data[0])%len(targets)]
		lim := tg.Limits()
		lim.LengthMax = 60
		seed := uint64(0)
		for _, b := range data[1:9] {
			seed = seed<<8 | uint64(b)
		}
		p := plan.Fill(seed, lim)
		g := plan.NewGenerator(lim)
		g.SetPlan(p)
		tr := g.Program(plan.NewBytes(data[9:]))
		cfg := fuzz.Config{Backend: fuzz.BackendIdeal, DeviceBytes: p.DeviceBytes, ArenaBytes: p.ArenaBytes, Seed: 1}
		if b, err := fuzz.Replay(tg, cfg, tr); b != nil || err != nil && !errors.Is(err, fuzz.ErrConfig) {
			t.Fatalf("%s: %v %v\n%+v\n%s", tg.Name, b, err, cfg, text(tr))
		}
	})
}
