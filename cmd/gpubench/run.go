package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/results/report"
)

// pictureRects is how many rectangles of the address-space picture a run keeps of each case.
const pictureRects = 4_000

// runFlags are the flags of `gpubench run`.
type runFlags struct {
	config, resume, format, weights string
	verbose                         bool
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run [SUITE.yaml | SUITE | RECORDING…]", GroupID: groupCompare,
		Short: "Rank allocator strategies on recordings",
		Long: `Replays each recording against each strategy, every trial in fresh processes, and ranks the strategies by success rate,
fragmentation and latency. Without arguments it runs the suite "default": a bundled PyTorch recording against the built-in
strategies over the model of the physical memory manager.

Results go to a directory (runs/… or --out), one synced line a trial: an interrupted run goes on with --resume DIR.`,
		Example: `  gpubench run
  gpubench run snapshot.pickle --strategies tlsf,pytorch,rmm-pool --device h100-80
  gpubench run my-suite.yaml --trials 10 --format markdown
  gpubench run --resume runs/20261201-101500-default`,
		Args: usageArgs(cobra.ArbitraryArgs),
	}
	fl := cmd.Flags()
	fl.StringSlice("strategies", nil, "strategies to compare, by name")
	fl.String("backend", "", "where strategies get memory: ideal, pmm, host, recorded, or a plugin's")
	fl.String("device", "", "device to model (see: gpubench config devices)")
	fl.Int("trials", 0, "trials of each case, each in a fresh process")
	fl.Duration("time", 0, "time budget; when it is used up the run stops and can be resumed")
	fl.Uint64("seed", 0, "seed of the order of trials and of strategies that draw")
	fl.Bool("min-capacity", false, "also find the smallest device on which each strategy fits the recording")
	fl.Bool("remote", false, "run strategy and backend in two processes")
	fl.String("out", "", "directory for the results; must not hold a run")
	f.config = ""
	fl.StringVar(&f.config, "config", os.Getenv("GPUBENCH_CONFIG"), "configuration file (YAML); default ./gpubench.yaml if it is there")
	fl.StringVar(&f.resume, "resume", "", "go on with an interrupted run in this directory")
	fl.StringVar(&f.weights, "weights", "", "weights for one score, e.g. success=3,fragmentation=1,latency=1")
	fl.BoolVar(&f.verbose, "verbose", false, "print a line a trial")
	form := formatFlag(cmd, formatText, formatJSON, formatMarkdown, formatCSV)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.format = *form
		return runRun(cmd, args, &f)
	}
	_ = cmd.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(configs.Devices(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runRun(cmd *cobra.Command, args []string, f *runFlags) error {
	weights, err := parseWeights(f.weights)
	if err != nil {
		return usageError(err)
	}
	ctx := cmd.Context()
	job, err := openJob(ctx, cmd, args, f)
	if err != nil {
		return err
	}
	defer job.Close()
	unwatch, note := watchHardware(ctx, job.runner, job.launcher, job.suite.BackendOptions)
	if note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+note)
	}
	trials, runErr := job.runner.Do(ctx, job.done)
	unwatch()
	if runErr == nil && job.suite.MinCapacity {
		runErr = job.minCapacities(ctx)
	}
	ranking := results.Rank(job.runner.Run, trials, weights)
	job.fillMinCapacities(ranking)
	kept := "  report: " + filepath.Join(job.runner.Store.Dir(), reportFile)
	if err := job.keep(ranking, trials); err != nil {
		kept = ""
		ranking.Warnings = append(ranking.Warnings, oneLine(err.Error()))
	}
	if err := printRanking(cmd.OutOrStdout(), ranking, format(f.format)); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "results: %s%s\n", job.runner.Store.Dir(), kept)
	return runCode(ctx, runErr, ranking)
}

// runCode turns how a run ended into the exit code: interruption, budget and errors of the store first, then findings, then
// plugin faults.
func runCode(ctx context.Context, runErr error, r *results.Ranking) error {
	switch {
	case ctx.Err() != nil:
		return withCode(codeInterrupted, errors.New("interrupted; what was measured is kept"))
	case errors.Is(runErr, harness.ErrBudget):
		return withCode(codeBudget, runErr)
	case runErr != nil:
		return withCode(codeUsage, runErr)
	}
	for _, d := range r.Findings {
		if !d.Canary {
			return withCode(codeFinding, fmt.Errorf("%s on %s broke a check: %s", d.Label, d.Trace, d.Finding))
		}
	}
	for i := range r.Traces {
		for _, u := range r.Traces[i].Unmeasured {
			if u.Class == results.ClassBlind {
				continue // a warning says so
			}
			if u.Class == harness.FaultVoid {
				return withCode(codeInconclusive, errors.New(u.Label+": "+u.Text))
			}
			if u.Class != "error" {
				return withCode(codePluginFault, errors.New(u.Text))
			}
			return withCode(codeUsage, errors.New(u.Label+": "+u.Text))
		}
	}
	return nil
}

func printRanking(w io.Writer, r *results.Ranking, f format) error {
	switch f {
	case formatJSON:
		return printJSON(w, r)
	case formatMarkdown:
		return results.RenderMarkdown(w, r)
	case formatCSV:
		return results.RenderCSV(w, r)
	}
	out, ok := w.(*os.File)
	return results.RenderText(w, r, ok && useColor(out))
}

// The derived files of a run directory.
const (
	reportFile  = "report.html"
	rankingFile = "ranking.json"
)

// keep writes the derived files.
func (j *job) keep(r *results.Ranking, trials []results.Trial) error {
	dir := j.runner.Store.Dir()
	if err := results.WriteFileDurably(filepath.Join(dir, rankingFile), r); err != nil {
		return err
	}
	return writeReport(dir, j.runner.Run, trials, r)
}

func writeReport(dir string, run *results.Run, trials []results.Trial, r *results.Ranking) error {
	var b strings.Builder
	err := report.Write(&b, report.Input{Run: run, Trials: trials, Ranking: r, Curves: func(id string) (*results.Curves, error) {
		c := &results.Curves{}
		return c, results.ReadSeries(dir, id, c)
	}})
	if err != nil {
		return err
	}
	return results.WriteBytesDurably(filepath.Join(dir, reportFile), []byte(b.String()))
}

// parseWeights reads success=3,fragmentation=1,latency=1; what is not named weighs 0.
func parseWeights(s string) (*results.Weights, error) {
	if s == "" {
		return nil, nil
	}
	w := &results.Weights{}
	for _, part := range strings.Split(s, ",") {
		key, val, ok := strings.Cut(strings.TrimSpace(part), "=")
		var v float64
		if _, err := fmt.Sscanf(val, "%g", &v); err != nil || !ok {
			return nil, fmt.Errorf("--weights %q: write for instance success=3,fragmentation=1,latency=1", s)
		}
		switch key {
		case "success":
			w.Success = v
		case "fragmentation":
			w.Fragmentation = v
		case "latency":
			w.Latency = v
		default:
			return nil, fmt.Errorf("--weights: %q is not one of success, fragmentation, latency", key)
		}
	}
	return w, w.Validate()
}

// newRunID names a run by when and what.
func newRunID(now time.Time, what string) string {
	return now.UTC().Format("20060102-150405") + "-" + what
}

// flagValues collects the flags that were given, by the key of the setting.
func flagValues(cmd *cobra.Command) map[string]any {
	out := map[string]any{}
	get := func(name, key string, read func() (any, error)) {
		if cmd.Flags().Changed(name) {
			if v, err := read(); err == nil {
				out[key] = v
			}
		}
	}
	fl := cmd.Flags()
	get("strategies", "strategies", func() (any, error) { return fl.GetStringSlice("strategies") })
	get("backend", "backend", func() (any, error) { return fl.GetString("backend") })
	get("device", "device", func() (any, error) { return fl.GetString("device") })
	get("trials", "trials", func() (any, error) { return fl.GetInt("trials") })
	get("time", "time", func() (any, error) { v, err := fl.GetDuration("time"); return v.String(), err })
	get("seed", "seed", func() (any, error) { return fl.GetUint64("seed") })
	get("min-capacity", "min_capacity", func() (any, error) { return fl.GetBool("min-capacity") })
	get("remote", "remote", func() (any, error) { return fl.GetBool("remote") })
	get("out", "out", func() (any, error) { return fl.GetString("out") })
	return out
}

// stamp is the time of the run's name.
func stamp() time.Time { return clock.Now() }
