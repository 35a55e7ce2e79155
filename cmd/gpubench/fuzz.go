package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/trace"
)

// fuzzFlags are the flags of `gpubench fuzz`.
type fuzzFlags struct {
	time         time.Duration
	programs     uint64
	seed         uint64
	workers      int
	untilFinding bool
	backend      string
	findings     string
	state        string
	junit        string
	process      bool
	exhaustive   bool
	depth        int
	matrix       bool
}

func newFuzz() *cobra.Command {
	var f fuzzFlags
	cmd := &cobra.Command{
		Use: "fuzz TARGET", GroupID: groupCompare, Short: "Fuzz an allocator until it breaks, and keep the smallest program that breaks it",
		Long: `Runs random programs on an allocator, keeps its own books of every byte, and reports each breach of a safety check or of a promise
as a finding: a directory with the smallest program that shows it and one command that repeats it. TARGET is a built-in strategy, one of the fuzzer's
own allocators (zoo/Z46), a plugin's executable, or pmm, the memory manager's model itself by its own operations. The same seed gives the
same programs and findings. docs/FINDINGS.md describes checks and findings.

Exit codes: 0 nothing found, 4 a finding, 5 blind (the canary's bug was not found either), 6 the plugin cannot be run.`,
		Example: `  gpubench fuzz tlsf --time 10s
  gpubench fuzz ./gpubench-strategy-mine --until-finding
  gpubench fuzz first-fit --exhaustive --depth 7     # every program there is, up to seven events
  gpubench fuzz pmm --time 30s`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	fl := cmd.Flags()
	fl.DurationVar(&f.time, "time", time.Minute, "how long; 0 is until --programs or an interrupt")
	fl.Uint64Var(&f.programs, "programs", 0, "end after so many programs; 0 is no limit")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of plans and programs")
	fl.IntVar(&f.workers, "workers", 1, "batches that run at a time")
	fl.BoolVar(&f.untilFinding, "until-finding", false, "end at the first finding")
	fl.StringVar(&f.backend, "backend", fuzz.BackendIdeal, "device below the strategy: ideal, pmm, host")
	fl.StringVar(&f.findings, "findings", "findings", "directory for findings")
	fl.StringVar(&f.state, "state", "", "directory of corpus and progress: the campaign resumes there, also after a kill")
	fl.StringVar(&f.junit, "junit", "", "write the checks as a JUnit file")
	fl.BoolVar(&f.process, "process", false, "run a built-in strategy in a process of its own, and compare it with itself in this one")
	fl.BoolVar(&f.exhaustive, "exhaustive", false, "run every program of a small scope instead of random ones")
	fl.IntVar(&f.depth, "depth", 6, "events of the longest program with --exhaustive")
	fl.BoolVar(&f.matrix, "matrix", false, "print how often each kind of event ended in each status")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.workers < 1 || f.time < 0 {
			return usageError(errors.New("--workers is at least 1 and --time not negative"))
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		cmd.SetContext(ctx)
		if f.exhaustive {
			return fuzzExhaustive(cmd, args[0], &f, format(*form))
		}
		return fuzzCampaign(cmd, args[0], &f, format(*form))
	}
	return cmd
}

// fuzzCampaign runs a campaign and prints its report.
func fuzzCampaign(cmd *cobra.Command, name string, f *fuzzFlags, form format) error {
	o := fuzz.Options{Seed: f.seed, Time: f.time, Programs: f.programs, Workers: f.workers, UntilFinding: f.untilFinding, State: f.state,
		Findings: f.findings, Version: version}
	if isTerminal(os.Stderr) {
		o.Progress = func(r *fuzz.Report) { fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s", fuzzLine(r)) }
	}
	r, err := runFuzz(cmd.Context(), cmd, name, f, o)
	if o.Progress != nil {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, r); err != nil {
			return err
		}
	}
	if form == formatJSON {
		if err := printJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		printFuzzReport(cmd.OutOrStdout(), r, f.matrix)
	}
	switch {
	case len(r.Findings) > 0:
		return withCode(codeFinding, nil)
	case r.Blind():
		return withCode(codeInconclusive, nil)
	}
	return nil
}

func runFuzz(ctx context.Context, cmd *cobra.Command, name string, f *fuzzFlags, o fuzz.Options) (*fuzz.Report, error) {
	if name == fuzz.TargetPMM {
		return fuzz.RunPMM(ctx, o)
	}
	t, err := openFuzzTarget(cmd, name, f.backend, f.process)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if o.Canary, err = canaryTarget(); err != nil {
		return nil, err
	}
	o.Checksum = t.checksum
	r, err := fuzz.Run(ctx, t.Target, o)
	if errors.Is(err, fuzz.ErrSession) {
		err = withCode(codePluginFault, err)
	}
	return r, err
}

// fuzzLine is the live view.
func fuzzLine(r *fuzz.Report) string {
	rate := 0.0
	if r.Seconds > 0 {
		rate = float64(r.Programs) / r.Seconds
	}
	return fmt.Sprintf("%s  %.0f s  %d programs (%.0f/s)  %d edges  corpus %d  findings %d", r.Target, r.Seconds, r.Programs, rate, r.Edges, r.Corpus, len(r.Findings))
}

func printFuzzReport(w io.Writer, r *fuzz.Report, matrix bool) {
	fmt.Fprintf(w, "%s over %s, seed %d: %d programs, %d events, %d judged with every check, %d edges, corpus %d, %.1f s\n",
		r.Target, r.Backend, r.Seed, r.Programs, r.Events, r.Judged, r.Edges, r.Corpus, r.Seconds)
	if r.Resumed {
		fmt.Fprintln(w, "resumed")
	}
	fmt.Fprintln(w, "canary:", r.Canary)
	for _, c := range r.Checks {
		if c.Applied {
			fmt.Fprintf(w, "  %-4s applied      %s\n", c.Check, c.What)
		} else {
			fmt.Fprintf(w, "  %-4s not applied  %s: %s\n", c.Check, c.What, c.Why)
		}
	}
	if matrix {
		printMatrix(w, &r.Matrix)
	}
	for _, s := range r.Warnings {
		fmt.Fprintln(w, "warning:", s)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, "no finding")
		return
	}
	for i, f := range r.Findings {
		fmt.Fprintf(w, "\nFINDING %s\n  %s\n  smallest program: %d events (found with %d, after %d programs), shows in %s runs\n", f.Title, f.Breach.String(), f.Events, f.OriginalEvents, f.Programs, f.Reliability)
		if i < len(r.Paths) {
			fmt.Fprintf(w, "  repeat: gpubench finding replay %s\n", r.Paths[i])
		}
	}
}

// printMatrix prints how often each kind of event ended in each status: a column that is empty throughout was never reached.
func printMatrix(w io.Writer, m *fuzz.Matrix) {
	fmt.Fprintf(w, "%-16s", "event")
	for s := trace.StatusOK; s <= trace.StatusError; s++ {
		fmt.Fprintf(w, "%12s", s)
	}
	fmt.Fprintln(w)
	for _, k := range m.Kinds() {
		fmt.Fprintf(w, "%-16s", k)
		for s := range m[k] {
			fmt.Fprintf(w, "%12d", m[k][s])
		}
		fmt.Fprintln(w)
	}
}

// fuzzExhaustive runs every program of a small scope.
func fuzzExhaustive(cmd *cobra.Command, name string, f *fuzzFlags, form format) error {
	if name == fuzz.TargetPMM {
		return usageError(errors.New("the model has an exhaustive mode of its own; see: gpubench pmm --help"))
	}
	t, err := openFuzzTarget(cmd, name, f.backend, f.process)
	if err != nil {
		return err
	}
	defer t.close()
	var progress func(int, uint64)
	if isTerminal(os.Stderr) {
		progress = func(depth int, n uint64) {
			fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[Kdepth %d: %d programs", depth, n)
		}
	}
	ctx := cmd.Context()
	if cmd.Flags().Changed("time") && f.time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.time)
		defer cancel()
	}
	e, err := fuzz.Exhaust(ctx, t.Target, fuzz.DefaultScope(t.Target, f.depth), progress)
	if progress != nil {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	if err != nil {
		return usageError(err)
	}
	if form == formatJSON {
		if err := printJSON(cmd.OutOrStdout(), e); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, e.Statement())
	}
	switch {
	case e.Finding != nil:
		e.Finding.Environment = fuzz.HereAndNow(version)
		path, err := e.Finding.Write(f.findings, time.Now())
		if err != nil {
			return err
		}
		if form == formatText {
			fmt.Fprintf(cmd.OutOrStdout(), "FINDING %s\n  %s\n  repeat: gpubench finding replay %s\n", e.Finding.Title, e.Finding.Breach.String(), path)
		}
		return withCode(codeFinding, nil)
	case !e.Complete:
		return withCode(codeBudget, nil)
	}
	return nil
}

// writeJUnit writes the checks of a campaign as JUnit's XML.
func writeJUnit(path string, r *fuzz.Report) error {
	var b strings.Builder
	if err := r.JUnit(&b); err != nil {
		return err
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
