package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpubench/gpubench/results"
)

// binary is the program, which must be able to start itself: the test binary under the name that TestMain gives it.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("gpubench")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// command is a run of the program in dir, in a process group of its own.
func command(t *testing.T, dir string, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), binary(t), args...)
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, &out
}

// waitForTrials waits until the run directory holds n trials.
func waitForTrials(t *testing.T, dir string, n int) {
	t.Helper()
	for range 600 {
		if _, trials, _, err := results.Read(dir); err == nil && len(trials) >= n {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the run never came to %d trials", n)
}

// processesOf lists living processes whose command line or environment holds mark.
func processesOf(mark string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		line, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(d, "environ"))
		stat, _ := os.ReadFile(filepath.Join(d, "stat"))
		if strings.Contains(string(stat), ") Z ") {
			continue // dead, only not yet reaped
		}
		if strings.Contains(string(line), mark) || strings.Contains(string(env), mark) {
			found = append(found, filepath.Base(d)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// killedRun starts a run, waits for a trial, sends the signal, and returns the run's directory.
func killedRun(t *testing.T, sig syscall.Signal, code int) string {
	t.Helper()
	work := t.TempDir()
	dir := filepath.Join(work, "r")
	cmd, out := command(t, work, "run", "bundled:complete-tiny", "--strategies", "first-fit,buddy", "--backend", "ideal", "--trials", "3", "--out", "r")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForTrials(t, dir, 1)
	if err := syscall.Kill(cmd.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code >= 0 && cmd.ProcessState.ExitCode() != code {
		t.Errorf("exit code %d, want %d:\n%s", cmd.ProcessState.ExitCode(), code, out)
	}
	return dir
}

func TestInterruptedRunGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		sig  syscall.Signal
		code int
	}{"interrupt": {syscall.SIGINT, codeInterrupted}, "kill -9": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			dir := killedRun(t, c.sig, c.code)
			deadline := time.Now().Add(2 * time.Second)
			for len(processesOf(binary(t))) > 0 && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond)
			}
			if left := processesOf(binary(t)); len(left) > 0 {
				t.Errorf("2 s later these processes live on: %v", left)
			}
			_, before, _, err := results.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			cmd, out := command(t, filepath.Dir(dir), "run", "--resume", "r")
			if err := cmd.Run(); err != nil {
				t.Fatalf("resume: %v\n%s", err, out)
			}
			run, after, _, err := results.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			checkWhole(t, run, before, after)
		})
	}
}

// checkWhole checks that every planned trial is there exactly once, those from before the interruption unchanged, and that trials of
// one case agree.
func checkWhole(t *testing.T, run *results.Run, before, after []results.Trial) {
	t.Helper()
	seen := map[string]bool{}
	hash := map[string]string{}
	for i := range after {
		tr := &after[i]
		if seen[tr.ID] {
			t.Errorf("trial %s is there twice", tr.ID)
		}
		seen[tr.ID] = true
		if h := hash[tr.Case]; h != "" && h != tr.ExactHash {
			t.Errorf("trials of case %s differ in exact metrics", tr.Case)
		}
		hash[tr.Case] = tr.ExactHash
		if i < len(before) && (tr.ID != before[i].ID || tr.StartedAt != before[i].StartedAt) {
			t.Errorf("trial %s from before the interruption changed", before[i].ID)
		}
	}
	if len(after) != len(run.Order) {
		t.Errorf("%d trials of %d planned", len(after), len(run.Order))
	}
}

// exactHashes maps case labels and scopes to the hash of their exact metrics.
func exactHashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	run, trials, _, err := results.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range trials {
		for j := range run.Cases {
			if c := &run.Cases[j]; c.ID == trials[i].Case {
				out[c.Label+" "+string(c.Scope)] = trials[i].ExactHash
			}
		}
	}
	return out
}

func TestSameSeedAndBothBindingsGiveTheSameExactMetrics(t *testing.T) {
	work := t.TempDir()
	args := []string{"run", "bundled:complete-tiny", "--strategies", "tlsf,pytorch,direct", "--backend", "pmm", "--trials", "1", "--out"}
	for _, extra := range [][]string{{"r1"}, {"r2"}, {"r3", "--remote"}} {
		cmd, out := command(t, work, append(args, extra...)...)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", extra, err, out)
		}
	}
	first := exactHashes(t, filepath.Join(work, "r1"))
	if len(first) != 6 { // three strategies at two capacities; the control counts under its strategy
		t.Fatalf("cases: %v", first)
	}
	for _, other := range []string{"r2", "r3"} {
		for k, h := range exactHashes(t, filepath.Join(work, other)) {
			if first[k] != h {
				t.Errorf("%s: %s differs from the first run", other, k)
			}
		}
	}
}
