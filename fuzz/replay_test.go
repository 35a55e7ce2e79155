package fuzz

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/plugins/strategies"
)

// TestEveryFindingEverMade replays the programs in testdata/findings, and those of the cuts of shrinking that once went wrong. Those of
// strategies that are wrong on purpose must show their breach; all others were bugs of ours and must show none any more.
func TestEveryFindingEverMade(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "findings", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p, err := readProgram(path)
			if err != nil {
				t.Fatal(err)
			}
			name, cfg, err := ConfigOf(p)
			if err != nil {
				t.Fatal(err)
			}
			list := strategies.Builtin()
			if strings.HasPrefix(name, "zoo/") {
				list = zoo.Descriptions()
			}
			for _, d := range list {
				if d.Name != name {
					continue
				}
				b, err := Replay(target(t, d), cfg, p)
				if err != nil {
					t.Fatal(err)
				}
				wrong := d.Canary || strings.HasPrefix(name, "zoo/Z")
				if wrong && b == nil {
					t.Error("the breach does not show any more: the checks are blind to it")
				}
				if !wrong && b != nil {
					t.Errorf("it is back: %v", b)
				}
				return
			}
			t.Fatalf("no strategy %s", name)
		})
	}
}

func TestNoFindingIsLost(t *testing.T) {
	if _, err := os.Stat(filepath.Join("testdata", "findings", "README.md")); err != nil {
		t.Errorf("testdata/findings needs a README that names each: %v", err)
	}
}
