package results

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpubench/gpubench/ledger"
)

func newRun() *Run {
	return &Run{ID: "r1", Seed: 7, Cases: []Case{{ID: "c000", Label: "tlsf"}}, Order: []Unit{{"c000", 1}, {"c000", 2}}}
}

func trialNamed(id string) *Trial {
	return &Trial{ID: id, Case: "c000", Status: TrialOK, Exact: &ledger.Exact{Events: 42}, ExactHash: "h"}
}

func mustCreate(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Create(dir, newRun())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ids(trials []Trial) string {
	var out []string
	for _, t := range trials {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func TestWhatIsAppendedIsReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := mustCreate(t, dir)
	for _, id := range []string{"c000-t1", "c000-t2"} {
		if err := s.Append(trialNamed(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AppendSeries("c000-t1", Curves{Strings: []string{"", "a"}}); err != nil {
		t.Fatal(err)
	}
	run, trials, warnings, err := Read(dir) // while the writer still holds the directory
	if err != nil || len(warnings) != 0 || run.ID != "r1" || run.Schema != SchemaVersion || ids(trials) != "c000-t1 c000-t2" {
		t.Fatalf("run %+v, trials %s, warnings %v, error %v", run, ids(trials), warnings, err)
	}
	if trials[0].Exact.Events != 42 {
		t.Errorf("exact %+v", trials[0].Exact)
	}
	var c Curves
	if err := ReadSeries(dir, "c000-t1", &c); err != nil || c.Strings[1] != "a" {
		t.Errorf("series %+v, %v", c, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryCutOfTheLastLineLosesOnlyThatTrial(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := mustCreate(t, dir)
	_ = s.Append(trialNamed("c000-t1"))
	one := s.size
	_ = s.Append(trialNamed("c000-t2"))
	two := s.size
	s.Close()
	name := filepath.Join(dir, TrialsFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := one; cut <= two; cut += max(1, min(61, two-cut)) {
		if err := os.WriteFile(name, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		s, _, trials, warnings, err := Resume(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want, warned := "c000-t1", cut != one
		if cut == two {
			want, warned = "c000-t1 c000-t2", false
		}
		if ids(trials) != want || (len(warnings) == 1) != warned {
			t.Fatalf("cut at %d: trials %s, warnings %v", cut, ids(trials), warnings)
		}
		if err := s.Append(trialNamed("again")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, trials, _, err = Read(dir); err != nil || ids(trials) != want+" again" {
			t.Fatalf("cut at %d: after appending: %s, %v", cut, ids(trials), err)
		}
	}
}

func TestDamageBeforeTheEndIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := mustCreate(t, dir)
	_ = s.Append(trialNamed("c000-t1"))
	_ = s.Append(trialNamed("c000-t2"))
	s.Close()
	name := filepath.Join(dir, TrialsFile)
	whole, _ := os.ReadFile(name)
	damaged := strings.Replace(string(whole), `"events":42`, `"events":43`, 1)
	if err := os.WriteFile(name, []byte(damaged), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, _, err := Read(dir)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "trials.jsonl:1") || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("damaged line: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Read(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged run.json: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"schema":999}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Read(dir); !errors.Is(err, ErrSchema) {
		t.Errorf("newer schema: %v", err)
	}
	if _, _, _, err := Read(t.TempDir()); !errors.Is(err, ErrNotARun) {
		t.Errorf("empty directory: %v", err)
	}
}

func TestTwoWritersAreKeptApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := mustCreate(t, dir)
	if _, err := Create(dir, newRun()); !errors.Is(err, ErrLocked) {
		t.Errorf("second writer: %v", err)
	}
	if _, _, _, _, err := Resume(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("resume beside a writer: %v", err)
	}
	s.Close()
	if _, err := Create(dir, newRun()); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("create over a run: %v", err)
	}
}

func TestFullDiskKeepsWhatWasMeasured(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small tmpfs cannot be mounted here (%v); run as root", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(mount, 0) })
	dir := filepath.Join(mount, "run")
	s := mustCreate(t, dir)
	defer s.Close()
	var kept []string
	for i := 0; ; i++ {
		tr := trialNamed(fmt.Sprintf("c000-t%d", i))
		tr.Warnings = []string{strings.Repeat("w", 20_000)}
		err := s.Append(tr)
		if err != nil {
			if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "--resume") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("full disk: %v", err)
			}
			break
		}
		kept = append(kept, tr.ID)
		if i > 100 {
			t.Fatal("the disk never became full")
		}
	}
	_, trials, warnings, err := Read(dir)
	if err != nil || len(warnings) != 0 || ids(trials) != strings.Join(kept, " ") || len(kept) < 5 {
		t.Fatalf("kept %s, read %s, warnings %v, error %v", kept, ids(trials), warnings, err)
	}
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("a read-only tmpfs cannot be mounted here (%v); run as root", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(mount, 0) })
	_, err := Create(filepath.Join(mount, "run"), newRun())
	if err == nil || !strings.Contains(err.Error(), "cannot be written") || !strings.Contains(err.Error(), "--out") {
		t.Errorf("read-only: %v", err)
	}
}
