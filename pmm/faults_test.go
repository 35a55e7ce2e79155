package pmm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// faults are nine deliberate one-line faults, the ones that were also planted in the driver's own code to see how sharp the
// recordings are. scripts is how many of the 20 recordings noticed there, invariants checked.
var faults = []struct {
	name     string
	file     string
	old, new string
	scripts  int
}{
	{"free lists LIFO", "alloc.go", "n := m.lists[id].head\n\t\tif n == 0", "n := m.lists[id].tail\n\t\tif n == 0", 20},
	{"no LRU refresh when a sub-chunk is freed", "list.go", "} else if r.state != Free {", "} else if r.state != Free && (c.parent == 0 || c.state != Free) {", 20},
	{"USED evicted before UNUSED", "evict.go", "m.firstVictimLocked(evictBase + listID(k))", "m.firstVictimLocked(evictBase + listID(Used-k))", 19},
	{"a merging free hands back only when a root was freed", "free.go", "m.lk.unlockMutex()\n\tm.handBack(t)", "m.lk.unlockMutex()\n\tif isRoot {\n\t\tm.handBack(t)\n\t}", 19},
	{"pinned leaves off by one", "tree.go", "r.pinned += uint16(count - 1)", "r.pinned += uint16(count)", 19},
	{"sub-chunks lose the zero mark", "tree.go", "zero: c.zero, flags", "zero: false, flags", 14},
	{"a merge keeps the zero mark", "tree.go", "p.zero = false", "p.zero = kid.zero", 13},
	{"MORE_PROCESSING turned into NO_MEMORY", "evict.go", "return 0, MoreProcessingRequired", "return 0, NoMemory", 12},
	{"no hand-back after a failed small allocation", "alloc.go", "if s != OK {\n		m.handBack(t)", "if false {\n		m.handBack(t)", 4},
}

// TestFaultsAreCaught plants each fault with go test -overlay and demands that the recordings of the driver notice it. It
// compiles the package nine times; -short leaves it out.
func TestFaultsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for each fault")
	}
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			out := runWithFault(t, dir, f.file, f.old, f.new)
			caught := strings.Count(out, "--- FAIL: TestGoldenDriver/")
			if caught == 0 {
				t.Fatalf("nobody noticed; go test said\n%s", out)
			}
			t.Logf("%d of 20 recordings noticed; %d did with the same fault in the driver", caught, f.scripts)
			if caught < f.scripts {
				t.Errorf("only %d of 20 recordings noticed, %d did with the same fault in the driver", caught, f.scripts)
			}
		})
	}
}

// runWithFault runs the golden tests with old replaced by new in one file, and returns what go test printed.
func runWithFault(t *testing.T, dir, file, old, new string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), old); n != 1 {
		t.Fatalf("%s has %d places like %q, want 1: update the table of faults", file, n, old)
	}
	tmp := t.TempDir()
	faulty := filepath.Join(tmp, file)
	if err := os.WriteFile(faulty, []byte(strings.Replace(string(src), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(dir, file): faulty}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-count=1", "-overlay", path, "-run", "Golden", "./script").CombinedOutput()
	if err == nil {
		t.Fatal("go test passed with the fault planted")
	}
	return string(out)
}
