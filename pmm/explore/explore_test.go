package explore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/explore"
)

func run(t *testing.T, o explore.Options) *explore.Result {
	t.Helper()
	r, err := explore.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Statement())
	if r.Violation != nil {
		t.Fatal("a sequence of operations breaks an invariant")
	}
	return r
}

// TestDepthFive runs every sequence of five operations on two roots. The numbers are those of the first exploration that was
// found right; any change of the model's decisions changes them.
func TestDepthFive(t *testing.T) {
	o := explore.DefaultOptions()
	o.DepthMax = 5
	r := run(t, o)
	if want := "10150 states, 90967 transitions, depth 5, no violation"; r.Statement() != want {
		t.Errorf("got %q, want %q", r.Statement(), want)
	}
	if r.Interleaved == 0 {
		t.Error("no operation ran while the mutex was dropped")
	}
}

// TestComplete exhausts a device of one root: there are no further states.
func TestComplete(t *testing.T) {
	o := explore.Options{Roots: 1, UserSizes: 1 << 20, KernelSizes: 1 << 20, Owners: 1, StatesMax: 1_000_000, Interleave: true}
	if r := run(t, o); !r.Complete {
		t.Errorf("not complete: %s", r.Statement())
	}
}

// TestThreeRoots explores three roots with three user sizes and batches of two.
func TestThreeRoots(t *testing.T) {
	o := explore.DefaultOptions()
	o.Roots, o.BatchOrder, o.StatesMax = 3, 1, 30_000
	o.UserSizes = 512<<10 | 1<<20
	run(t, o)
}

// TestAllTransitions meets 200,000 distinct states, and in them every legal transition that the model can take.
func TestAllTransitions(t *testing.T) {
	o := explore.DefaultOptions()
	o.StatesMax = 200_000
	if testing.Short() || raceEnabled {
		o.StatesMax = 50_000
	}
	r := run(t, o)
	if r.States < o.StatesMax {
		t.Errorf("%d states", r.States)
	}
	for _, tr := range pmm.Transitions {
		if tr.From == tr.To && tr.Why == pmm.FreedInEviction {
			continue // needs a pinned leaf in a root in eviction that is not the evictor's: the model never makes one
		}
		if r.Coverage[tr.Why][tr.From][tr.To] == 0 {
			t.Errorf("no state has seen %s -> %s (%s)", tr.From, tr.To, tr.Why)
		}
	}
}

// BenchmarkMillionStates explores until a million distinct states, each checked for every invariant. The aim is less than
// two minutes on one core, 8,300 states a second.
func BenchmarkMillionStates(b *testing.B) {
	var states, transitions float64
	for b.Loop() {
		r, err := explore.Run(explore.DefaultOptions())
		if err != nil || r.Violation != nil || r.States < 1_000_000 {
			b.Fatalf("%v, %+v", err, r)
		}
		states += float64(r.States)
		transitions += float64(r.Transitions)
	}
	b.ReportMetric(states/b.Elapsed().Seconds(), "states/s")
	b.ReportMetric(transitions/b.Elapsed().Seconds(), "transitions/s")
}

// TestPlantedFaults plants faults with go test -overlay and demands a shortest counterexample of the length worked out by
// hand.
//
// A kernel root that is not handed back after a merge is FREE at rest: allocate a kernel chunk, free it, 2 steps.
//
// A chunk freed while its root is in eviction must stay pinned for the evictor. Only an operation inside an eviction meets
// that: allocate half a root, name its owner so that the root can be evicted, evict it while another thread frees the chunk:
// 3 steps.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for each fault")
	}
	for _, f := range []struct {
		name, old, new string
		steps          int
		want           string
	}{
		{"no hand-back after a merge", "m.lk.unlockMutex()\n	m.handBack(t)", "m.lk.unlockMutex()\n	if isRoot {\n		m.handBack(t)\n	}", 2, "invariant 30"},
		{"freed under the evictor", "if m.nodes[rootOf(c.addr)].flags&flagInEviction != 0 {", "if false {", 3, "meanwhile"},
	} {
		t.Run(f.name, func(t *testing.T) {
			out := withFault(t, "free.go", f.old, f.new)
			if want := fmt.Sprintf("after %d steps", f.steps); !strings.Contains(out, want) || !strings.Contains(out, f.want) {
				t.Errorf("want %q and %q in\n%s", want, f.want, out)
			}
		})
	}
}

// withFault runs TestDepthFive with old replaced by new in a file of the model.
func withFault(t *testing.T, file, old, new string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), old); n != 1 {
		t.Fatalf("%s has %d places like %q, want 1: update the table of faults", file, n, old)
	}
	tmp := t.TempDir()
	faulty, overlay := filepath.Join(tmp, file), filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(faulty, []byte(strings.Replace(string(src), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(map[string]map[string]string{"Replace": {path: faulty}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, j, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-count=1", "-overlay", overlay, "-run", "TestDepthFive", ".").CombinedOutput()
	if err == nil {
		t.Fatal("the exploration passed with the fault planted")
	}
	return string(out)
}

// TestOptions: options that cannot be explored are refused.
func TestOptions(t *testing.T) {
	_ = testflags.GoldenDir
	for name, change := range map[string]func(*explore.Options){
		"no roots":     func(o *explore.Options) { o.Roots = 0 },
		"many owners":  func(o *explore.Options) { o.Owners = explore.OwnersMax + 1 },
		"no states":    func(o *explore.Options) { o.StatesMax = 0 },
		"a wrong size": func(o *explore.Options) { o.UserSizes = 8 << 20 },
	} {
		o := explore.DefaultOptions()
		change(&o)
		if _, err := explore.Run(o); !errors.Is(err, explore.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
