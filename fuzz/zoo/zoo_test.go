package zoo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// eventsMax bounds the program that shows a mutant.
const eventsMax = 15

// program reads a program and the configuration in its header, which must be for the strategy named.
func program(t *testing.T, path, name string) (*trace.Trace, fuzz.Config) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := trace.Parse(f, path)
	if err != nil {
		t.Fatal(err)
	}
	of, cfg, err := fuzz.ConfigOf(p)
	if err != nil || of != zoo.Prefix+name {
		t.Fatalf("%s: it is for %q: %v", path, of, err)
	}
	return p, cfg
}

// TestPastFalseAlarms: what was once blamed on a clean allocator wrongly. A request that an alignment keeps out of the last mapped
// page, next to a block that reaches into it from the page before.
func TestPastFalseAlarms(t *testing.T) {
	p, cfg := program(t, filepath.Join("testdata", "clean-pages.txt"), "expandable")
	if b, err := fuzz.Replay(target(t, "expandable"), cfg, p); err != nil || b != nil {
		t.Errorf("%v, %v", b, err)
	}
}

func target(t testing.TB, name string) *fuzz.Target {
	t.Helper()
	d, ok := zoo.Find(name)
	if !ok {
		t.Fatalf("no strategy %s", name)
	}
	tg, err := fuzz.NewTarget(d.Name, d)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// TestPrograms runs the program of each mutant on the mutant, which the named check must catch, and on the clean allocator,
// which must pass all checks.
func TestPrograms(t *testing.T) {
	for _, m := range zoo.Mutants() {
		t.Run(m.ID, func(t *testing.T) {
			p, cfg := program(t, filepath.Join("testdata", "programs", m.ID+".txt"), m.ID)
			if len(p.Events) > eventsMax {
				t.Errorf("%d events, at most %d", len(p.Events), eventsMax)
			}
			b, err := fuzz.Replay(target(t, m.ID), cfg, p)
			if err != nil {
				t.Fatal(err)
			}
			if b == nil || b.Check != m.Check {
				t.Errorf("caught by %v, want %s: %s", b, m.Check, m.Wrong)
			}
			if b, err = fuzz.Replay(target(t, m.Allocator), cfg, p); err != nil || b != nil {
				t.Errorf("the clean allocator: %v, %v", b, err)
			}
		})
	}
}

// TestTable: sixty mutants or more, each with a name of its own, a line, a reference and a check; and no file of a program
// belongs to none.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range zoo.Mutants() {
		if seen[m.ID] || !strings.HasPrefix(m.ID, "Z") || m.Wrong == "" || m.Reference == "" || !strings.HasPrefix(m.Check, "O") {
			t.Errorf("%+v", m)
		}
		seen[m.ID] = true
		if d := m.Description(); d.Name != zoo.Prefix+m.ID || d.New == nil || !d.Canary {
			t.Errorf("%s is described as %q, canary %v", m.ID, d.Name, d.Canary)
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d mutants, want 60 at least", len(seen))
	}
	if got, want := len(zoo.Descriptions()), len(seen)+len(zoo.Clean()); got != want {
		t.Errorf("%d strategies, want %d", got, want)
	}
	files, err := os.ReadDir(filepath.Join("testdata", "programs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if id, ok := strings.CutSuffix(f.Name(), ".txt"); !ok || !seen[id] {
			t.Errorf("%s is the program of no mutant", f.Name())
		}
	}
}

// TestCleanIsSilent fuzzes each clean allocator for a moment. A finding is a false alarm, of the allocator or of the checks.
func TestCleanIsSilent(t *testing.T) {
	for _, d := range zoo.Clean() {
		t.Run(d.Name, func(t *testing.T) {
			r, err := fuzz.Run(context.Background(), target(t, d.Name), fuzz.Options{Seed: 11, Programs: 4000})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				t.Errorf("%s\n%v\n%+v\n%s", f.Title, &f.Breach, f.Config, text(f.Minimal))
			}
			if r.Programs < 4000 || r.Unreproduced > 0 {
				t.Errorf("%d programs, %d breaches that went away", r.Programs, r.Unreproduced)
			}
		})
	}
}

// TestCleanHolds draws plans and programs with rapid, and expects no breach of any check.
func TestCleanHolds(t *testing.T) {
	for _, d := range zoo.Clean() {
		t.Run(d.Name, func(t *testing.T) {
			tg := target(t, d.Name)
			lim := tg.Limits()
			lim.LengthMax = 40
			g := plan.NewGenerator(lim)
			rapid.Check(t, func(t *rapid.T) {
				p := plan.Fill(rapid.Uint64().Draw(t, "plan"), lim)
				g.SetPlan(p)
				tr := g.Program(plan.NewBytes(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "draws")))
				cfg := fuzz.Config{Backend: fuzz.BackendIdeal, DeviceBytes: p.DeviceBytes, ArenaBytes: p.ArenaBytes, Seed: 1}
				if b, err := fuzz.Replay(tg, cfg, tr); err != nil || b != nil {
					t.Fatalf("%v %v\n%+v\n%s", b, err, cfg, text(tr))
				}
			})
		})
	}
}

// TestCampaignFinds lets a campaign find one mutant of each allocator.
func TestCampaignFinds(t *testing.T) {
	for id, want := range map[string]string{"Z79": "O1", "Z37": "O17", "Z68": "O6", "Z7": "O3", "Z74": "O7", "Z92": "O13"} {
		t.Run(id, func(t *testing.T) {
			r, err := fuzz.Run(context.Background(), target(t, id), fuzz.Options{Seed: 3, Programs: 60_000, UntilFinding: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) == 0 {
				t.Fatalf("nothing found in %d programs", r.Programs)
			}
			if f := r.Findings[0]; f.Breach.Check != want || f.Events > eventsMax {
				t.Errorf("%s with %d events, want %s with %d at most\n%s", f.Breach.Check, f.Events, want, eventsMax, text(f.Minimal))
			}
		})
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"zoo/Z46", "Z46", "zoo/tlsf", "tlsf"} {
		if _, ok := zoo.Find(name); !ok {
			t.Errorf("no %s", name)
		}
	}
	if _, ok := zoo.Find("Z3"); ok {
		t.Error("there is a Z3")
	}
}

// TestInspection: the pictures tell what is in the lists, and are valid JSON.
func TestInspection(t *testing.T) {
	for _, d := range zoo.Clean() {
		t.Run(d.Name, func(t *testing.T) {
			w := plan.NewWriter(nil)
			p := w.Write([]plan.Op{{Kind: trace.KindAlloc, Handle: 1, Size: 100_000}, {Kind: trace.KindAlloc, Handle: 2, Size: 100_000},
				{Kind: trace.KindFree, Handle: 1}}, 1)
			s, err := fuzz.OpenLocal(&d, fuzz.Config{DeviceBytes: 32 << 20, ArenaBytes: 16 << 20}, p)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Execute(p, false); err != nil {
				t.Fatal(err)
			}
			in, ok := s.Inspect()
			if !ok {
				t.Fatal("no picture")
			}
			if _, err := json.Marshal(in); err != nil {
				t.Fatal(err)
			}
			live := 0
			each(in, func(b sdk.InspectedBlock) {
				if b.State == "live" {
					live++
					if b.Bytes < 100_000 {
						t.Errorf("a live block of %d bytes", b.Bytes)
					}
				}
			})
			if live != 1 {
				t.Errorf("%d live blocks, want 1: %s", live, fmt.Sprint(in))
			}
		})
	}
}

func each(in sdk.Inspection, f func(sdk.InspectedBlock)) {
	for _, s := range in.Segments {
		for _, b := range s.Blocks {
			f(b)
		}
	}
}

func text(t *trace.Trace) string {
	var b strings.Builder
	if err := trace.Format(&b, t); err != nil {
		return err.Error()
	}
	return b.String()
}
