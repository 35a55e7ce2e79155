package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/results"
)

// TestFaultyPluginsCostTheirCaseOnly runs plugins that crash, panic, hang, stop, lie, fill memory and fork beside a good strategy: each
// fault is recorded with its class and, where one died in an event, the exact event; the good strategy is ranked, the run
// ends, and nothing is left behind.
func TestFaultyPluginsCostTheirCaseOnly(t *testing.T) {
	work := t.TempDir()
	plugins := filepath.Join(work, "plugins")
	faulty := filepath.Join(plugins, "gpubench-strategy-crash")
	if out, err := exec.Command("go", "build", "-o", faulty, "./testdata/faulty").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	modes := []string{"crash", "panic", "hang", "stop", "lie", "bomb", "fork"}
	for _, m := range modes[1:] {
		if err := os.Link(faulty, filepath.Join(plugins, "gpubench-strategy-"+m)); err != nil {
			t.Fatal(err)
		}
	}
	trace := "# gpubench trace 1\n"
	for i := 1; i <= 30; i++ {
		trace += "h" + strconv.Itoa(i) + " = alloc 1000\n"
	}
	if err := os.WriteFile(filepath.Join(work, "t.txt"), []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "suite.yaml"), []byte("recordings: [t.txt]\nbackend: ideal\ndevice: t4\ntrials: 1\ntight: false\ncontrol: false\nhang_timeout: 3s\nmemory_limit: 256MiB\nstrategies: [tlsf, "+
		strings.Join(modes, ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := command(t, work, "run", "suite.yaml", "--out", "r")
	cmd.Env = append(os.Environ(), "GPUBENCH_PLUGIN_PATH="+plugins)
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != codeFinding {
		t.Errorf("exit code %d, want %d (the liar's finding):\n%s", code, codeFinding, out)
	}
	run, trials, _, err := results.Read(filepath.Join(work, "r"))
	if err != nil {
		t.Fatal(err)
	}
	checkFaults(t, run, trials)
	if left := processesOf(plugins); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	r := results.Rank(run, trials, nil)
	if len(r.Traces[0].Rows) != 2 || len(r.Findings) != 1 || r.Findings[0].Label != "lie" { // tlsf, and fork, whose answers are right
		t.Errorf("rows %d, findings %+v", len(r.Traces[0].Rows), r.Findings)
	}
}

func checkFaults(t *testing.T, run *results.Run, trials []results.Trial) {
	t.Helper()
	// The tenth allocation is event 9.
	want := map[string]string{"tlsf": "ok", "lie": "ok", "fork": "ok", "crash": "crash at 9", "panic": "crash at 9", "hang": "hang at 9", "stop": "hang at 9", "bomb": "memory-limit at 9"}
	for i := range trials {
		tr := &trials[i]
		label := ""
		for _, c := range run.Cases {
			if c.ID == tr.Case {
				label = c.Label
			}
		}
		got := string(tr.Status)
		if f := tr.Fault; f != nil {
			got = f.Class
			if f.Event != nil {
				got += " at " + strconv.Itoa(int(*f.Event))
			}
			if strings.Contains(f.Text, "\n") {
				t.Errorf("%s: the fault is not one line: %q", label, f.Text)
			}
		}
		if got != want[label] {
			t.Errorf("%s: %s, want %s (%+v)", label, got, want[label], tr.Fault)
		}
		delete(want, label)
	}
	if len(want) > 0 {
		t.Errorf("no trial of %v", want)
	}
}
