package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
)

func builtin(t testing.TB, name string) *Target {
	t.Helper()
	for _, d := range strategies.Builtin() {
		if d.Name == name {
			return target(t, d)
		}
	}
	t.Fatalf("no strategy %s", name)
	return nil
}

func target(t testing.TB, d sdk.Description) *Target {
	t.Helper()
	tg, err := NewTarget(d.Name, d)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// told is what of a report must not depend on workers, time, or interruptions.
func told(t *testing.T, r *Report) string {
	t.Helper()
	c := *r
	c.Seconds, c.Resumed, c.Paths, c.Canary = 0, false, nil, ""
	for _, f := range c.Findings {
		f.FirstSeen, f.LastSeen = "", ""
		f.Breach.Stack = ""
	}
	text, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func campaignOf(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(context.Background(), target(t, toyDescription(toyDoubleFree)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCampaignDependsOnTheSeedAlone(t *testing.T) {
	one := told(t, campaignOf(t, Options{Seed: 9, Programs: 6000, Workers: 1}))
	if three := told(t, campaignOf(t, Options{Seed: 9, Programs: 6000, Workers: 3})); one != three {
		t.Errorf("one worker:\n%s\nthree workers:\n%s", one, three)
	}
	if other := told(t, campaignOf(t, Options{Seed: 10, Programs: 6000, Workers: 1})); one == other {
		t.Error("another seed gives the same report")
	}
}

// A campaign that ends half-way and is resumed has done the same as one that went through.
func TestResumedCampaignIsTheSame(t *testing.T) {
	dir := t.TempDir()
	campaignOf(t, Options{Seed: 4, Programs: 3000, State: dir})
	resumed := campaignOf(t, Options{Seed: 4, Programs: 8000, State: dir})
	if !resumed.Resumed {
		t.Fatal("it did not resume")
	}
	through := campaignOf(t, Options{Seed: 4, Programs: 8000, State: t.TempDir()})
	if a, b := told(t, resumed), told(t, through); a != b {
		t.Errorf("resumed:\n%s\nthrough:\n%s", a, b)
	}
}

func TestDamagedStateIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Run(context.Background(), target(t, toyDescription(toyClean)), Options{Seed: 1, Programs: 1, State: dir})
	if err == nil || !strings.Contains(err.Error(), "remove it to start anew") {
		t.Errorf("a damaged state: %v", err)
	}
}

// A program of the corpus that breaks something is found before anything is generated.
func TestCorpusIsReplayedFirst(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, corpusDir), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "# gpubench trace 1\n# source program  covers 100%  device 0\nh1 = alloc 512\nfree h1\nfree! h1\n"
	if err := os.WriteFile(filepath.Join(dir, corpusDir, "a.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, corpusDir, "b.txt"), []byte("h1 = alok 512\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := campaignOf(t, Options{Seed: 1, UntilFinding: true, State: dir})
	if len(r.Findings) != 1 || r.Programs != 1 {
		t.Errorf("%d findings after %d programs, want 1 after 1", len(r.Findings), r.Programs)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "b.txt") {
		t.Errorf("warnings %q, want one about b.txt", r.Warnings)
	}
}

func TestFindingIsWrittenReadAndCounted(t *testing.T) {
	dir := t.TempDir()
	r := campaignOf(t, Options{Seed: 1, UntilFinding: true, Programs: 20_000, Findings: dir, Version: "test"})
	if len(r.Paths) != 1 {
		t.Fatalf("%d findings were written", len(r.Paths))
	}
	for _, name := range []string{FindingFile, ProgramFile, OriginalFile, DiagramFile, DiffFile, ReproFile} {
		if info, err := os.Stat(filepath.Join(r.Paths[0], name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := ReadFindings(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d findings, %v", len(list), err)
	}
	f := list[0]
	if f.Name() != filepath.Base(r.Paths[0]) || !strings.HasPrefix(f.Name(), "double-free-") || f.Count == 0 || f.Environment.Version != "test" {
		t.Errorf("read back %+v", f)
	}
	name, cfg, err := ConfigOf(f.Minimal)
	if err != nil || name != "toy" || cfg.DeviceBytes != f.Config.DeviceBytes || cfg.ArenaBytes != f.Config.ArenaBytes {
		t.Errorf("the program says %s, %+v, %v; the finding %+v", name, cfg, err, f.Config)
	}
	b, err := Replay(target(t, toyDescription(toyDoubleFree)), cfg, f.Minimal)
	if err != nil || !f.Breach.Same(b) {
		t.Errorf("replay of what was read: %v, %v", b, err)
	}
	// Once more: it is counted, not written again.
	again := *r.Findings[0]
	again.Count = 3
	if _, err := again.Write(dir, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if g, err := ReadFinding(r.Paths[0]); err != nil || g.Count != f.Count+3 || g.LastSeen != "2001-09-09T01:46:40Z" || g.FirstSeen != f.FirstSeen {
		t.Errorf("after a second one: %+v, %v", g, err)
	}
	n, err := Reduce(target(t, toyDescription(toyDoubleFree)), f)
	if err != nil || n.Events > f.Events {
		t.Errorf("reduced to %v, %v", n, err)
	}
}

func TestProgramWithoutConfigIsRefused(t *testing.T) {
	f := campaignOf(t, Options{Seed: 1, UntilFinding: true, Programs: 20_000}).Findings[0]
	if _, _, err := ConfigOf(f.Minimal); err == nil || !strings.Contains(err.Error(), "# setting fuzz.device_bytes=NUMBER") {
		t.Errorf("a program without settings: %v", err)
	}
}

func TestJUnit(t *testing.T) {
	r := campaignOf(t, Options{Seed: 1, UntilFinding: true, Programs: 20_000})
	var b bytes.Buffer
	if err := r.JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var s junitSuite
	if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Failures != 1 || s.Tests != len(r.Checks) || s.Skipped == 0 {
		t.Errorf("%d tests, %d failures, %d skipped, want %d, 1, some", s.Tests, s.Failures, s.Skipped, len(r.Checks))
	}
}
