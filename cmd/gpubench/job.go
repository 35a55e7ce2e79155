package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/results/bounds"
)

// tracesDir is where a run directory keeps the binary form of its recordings, so that resuming needs nothing else.
const tracesDir = "traces"

// job is a run made ready: everything `gpubench run` holds open.
type job struct {
	suite      *configs.Suite
	runner     *harness.Runner
	launcher   *harness.Plugins
	done       []results.Trial
	recordings []loaded
	minimum    map[string]uint64 // smallest capacity by case
	capacity   uint64            // of the device
	notes      []string          // on settings that were not given but follow from the recordings
}

// Close releases what the job holds.
func (j *job) Close() {
	_ = closeAll(j.recordings)
	if j.runner != nil && j.runner.Store != nil {
		_ = j.runner.Store.Close()
	}
}

// openJob makes a new run, or opens the one to resume.
func openJob(ctx context.Context, cmd *cobra.Command, args []string, f *runFlags) (*job, error) {
	if f.resume != "" {
		if len(args) > 0 {
			return nil, usageError(errors.New("--resume takes no recordings: the directory knows them"))
		}
		return resumeJob(ctx, cmd, f)
	}
	suite, settings, err := configs.Load(suiteRequest(cmd, args, f))
	if err != nil {
		return nil, usageError(err)
	}
	j := &job{suite: suite}
	if err := j.plan(ctx, cmd, settings); err != nil {
		j.Close()
		return nil, usageError(err)
	}
	j.runner.Progress = newProgress(cmd, f.verbose)
	return j, nil
}

// suiteRequest tells a suite from recordings: one argument that is a suite's name or a YAML file is a suite.
func suiteRequest(cmd *cobra.Command, args []string, f *runFlags) configs.Request {
	req := configs.Request{Suite: "default", ConfigFile: f.config, Environ: os.Environ(), Flags: flagValues(cmd)}
	if len(args) == 1 && isSuite(args[0]) {
		req.Suite = args[0]
	} else if len(args) > 0 {
		req.Flags["recordings"] = args
	}
	return req
}

func isSuite(arg string) bool {
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return true
	}
	for _, s := range configs.Suites() {
		if s == arg {
			return true
		}
	}
	return false
}

// plan imports the recordings into the run directory, finds the strategies, and writes run.json.
func (j *job) plan(ctx context.Context, cmd *cobra.Command, settings []configs.Setting) error {
	s := j.suite
	device, err := configs.LoadDevice(s.Device)
	if err != nil {
		return err
	}
	if device, err = hardwareDevice(ctx, s.Backend, s.BackendOptions, device); err != nil {
		return err
	}
	device.CapacityBytes = capacityFor(s.Backend, device)
	j.capacity = device.CapacityBytes
	dir := s.Out
	id := newRunID(stamp(), suiteWord(s))
	if dir == "" {
		dir = filepath.Join("runs", id)
	}
	fresh, err := claim(dir)
	if err != nil {
		return err
	}
	if err := j.prepare(ctx, dir); err != nil {
		if fresh {
			_ = os.RemoveAll(dir)
		}
		return err
	}
	run := &results.Run{ID: id, CreatedAt: stamp().UTC(), Title: s.Title, Seed: s.Seed, Environment: harness.CaptureEnvironment("/"),
		Device: results.DeviceFacts{Name: device.Name, Title: device.Title, CapacityBytes: device.CapacityBytes}}
	v := readVersion()
	run.Environment.Version, run.Environment.Commit, run.Environment.Modified = v.Version, v.Commit, v.Modified
	if run.Config, err = json.Marshal(s); err != nil {
		return err
	}
	if run.Settings, err = json.Marshal(settings); err != nil {
		return err
	}
	if err := j.cases(run, device); err != nil {
		return err
	}
	store, err := results.Create(dir, run)
	if err != nil {
		return err
	}
	j.runner.Run, j.runner.Store = run, store
	for _, n := range j.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d trials of %d cases; results go to %s\n", len(run.Order), len(run.Cases), dir)
	return nil
}

// claim makes the directory of a run, with the folder of its traces. fresh says that it did not exist before.
func claim(dir string) (fresh bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, results.RunFile)); err == nil {
		return false, fmt.Errorf("%w: %s; go on with: gpubench run --resume %s", results.ErrExists, dir, dir)
	}
	_, err = os.Stat(dir)
	fresh = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(filepath.Join(dir, tracesDir), 0o755); err != nil {
		return false, fmt.Errorf("%s cannot be made: %w; choose another directory with --out", dir, errors.Unwrap(err))
	}
	return fresh, nil
}

// prepare imports recordings, describes strategies, and makes the runner.
func (j *job) prepare(ctx context.Context, dir string) error {
	s := j.suite
	for _, name := range s.Recordings {
		list, err := loadRecordings(name, filepath.Join(dir, tracesDir), nil)
		if err != nil {
			return err
		}
		j.recordings = append(j.recordings, list...)
	}
	launcher, err := newLauncher(ctx, s.Backend)
	if err != nil {
		return err
	}
	j.launcher = launcher
	contenders, err := j.findContenders(ctx)
	if err != nil {
		return err
	}
	j.makeRunner(contenders)
	return nil
}

// findContenders finds every strategy of the suite.
func (j *job) findContenders(ctx context.Context) ([]harness.Contender, error) {
	var out []harness.Contender
	for _, spec := range j.suite.Strategies {
		spec, settings, err := asRecorded(j.suite.Backend, spec, j.recordings)
		if err != nil {
			return nil, err
		}
		if settings != nil {
			j.notes = append(j.notes, spec.Label+": settings "+settings.String())
		}
		c, err := findContender(ctx, j.launcher, spec)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (j *job) makeRunner(contenders []harness.Contender) {
	s := j.suite
	recs := make([]harness.Recording, len(j.recordings))
	for i := range j.recordings {
		recs[i] = j.recordings[i].Recording
	}
	j.runner = &harness.Runner{Recordings: recs, Contenders: contenders, Launcher: j.launcher, Seed: s.Seed,
		MemoryLimitBytes: memoryLimitFor(s.Backend, s.MemoryLimitByte, j.capacity), HangTimeout: s.HangTimeout, PictureRects: pictureRects, Budget: s.Time}
}

// cases plans the run and notes the facts of its recordings.
func (j *job) cases(run *results.Run, device *configs.Device) error {
	s := j.suite
	for i := range j.recordings {
		r := &j.recordings[i]
		f := results.TraceFacts{Name: r.Name, Source: r.Trace.Meta.Source, Path: r.Path, SHA256: r.SHA256, Events: uint64(len(r.Trace.Events)),
			LowerBoundBytes: r.LowerBound, CoversPercent: r.Trace.Meta.CoversPercent, Warnings: r.Trace.Meta.Warnings}
		b := bounds.Bounds(r.Trace)
		f.Bounds = &b
		for _, x := range r.facts.Inconsistent {
			f.Warnings = append(f.Warnings, "inconsistent: "+x.String())
		}
		run.Traces = append(run.Traces, f)
	}
	backend := map[string]any{}
	for k, v := range s.BackendOptions {
		backend[k] = v
	}
	if s.Backend == "pmm" {
		run.Device.Uncalibrated = device.Uncalibrated()
		backend["device"], backend["costs"] = device.Name, device.Costs
	}
	raw, err := json.Marshal(backend)
	if err != nil {
		return err
	}
	factor := 0.0
	if s.Tight {
		factor = s.TightFactor
	}
	run.Cases, run.Order, err = harness.Plan(harness.Spec{
		Title: s.Title, Seed: s.Seed, Trials: s.Trials, Recordings: j.runner.Recordings, Contenders: j.runner.Contenders,
		Backend: s.Backend, BackendOptions: raw, CapacityBytes: device.CapacityBytes, TightFactor: factor, Control: s.Control, Remote: s.Remote,
	})
	return err
}

// resumeJob opens an interrupted run; what it compared, and how, is in the directory.
func resumeJob(ctx context.Context, cmd *cobra.Command, f *runFlags) (*job, error) {
	store, run, trials, warnings, err := results.Resume(f.resume)
	if err != nil {
		return nil, usageError(err)
	}
	j := &job{suite: &configs.Suite{}, runner: &harness.Runner{Store: store}}
	fail := func(err error) (*job, error) {
		j.runner.Store = store
		j.Close()
		return nil, usageError(err)
	}
	if err := json.Unmarshal(run.Config, j.suite); err != nil {
		return fail(fmt.Errorf("%s: config: %w", filepath.Join(f.resume, results.RunFile), err))
	}
	if cmd.Flags().Changed("time") {
		j.suite.Time, _ = cmd.Flags().GetDuration("time")
	}
	j.suite.MemoryLimitByte, _ = configs.ParseBytes(j.suite.MemoryLimit)
	j.capacity = run.Device.CapacityBytes
	if err := j.reopen(ctx, f.resume, run); err != nil {
		return fail(err)
	}
	j.runner.Run, j.runner.Store, j.done = run, store, trials
	j.runner.Progress = newProgress(cmd, f.verbose)
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
	}
	return j, nil
}

// reopen maps the binary traces that the directory keeps, checks that they are those of the plan, and finds the strategies again.
func (j *job) reopen(ctx context.Context, dir string, run *results.Run) error {
	files, err := filepath.Glob(filepath.Join(dir, tracesDir, "*.trace"))
	if err != nil {
		return err
	}
	byHash := map[string]*loaded{}
	for _, p := range files {
		l, err := openLoaded(p)
		if err != nil {
			return err
		}
		byHash[l.SHA256] = l
	}
	for _, t := range run.Traces {
		l := byHash[t.SHA256]
		if l == nil {
			if l, err = openLoaded(t.Path); err != nil || l.SHA256 != t.SHA256 {
				return fmt.Errorf("%w: %s holds no trace with the hash of %s; start anew", results.ErrCorrupt, filepath.Join(dir, tracesDir), t.Name)
			}
		}
		l.Name, l.Path = t.Name, t.Path
		j.recordings = append(j.recordings, *l)
	}
	if j.launcher, err = newLauncher(ctx, j.suite.Backend); err != nil {
		return err
	}
	contenders, err := j.findContenders(ctx)
	if err != nil {
		return err
	}
	store := j.runner.Store
	j.makeRunner(contenders)
	j.runner.Store = store
	return nil
}

func suiteWord(s *configs.Suite) string {
	if s.Name != "" {
		return safeName(s.Name)
	}
	return "run"
}

// newLauncher finds the executable that serves the backend: this one, or a plugin.
func newLauncher(ctx context.Context, backend string) (*harness.Plugins, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &harness.Plugins{Self: self, Args: []string{pluginServeVerb}}
	for _, b := range builtinBackends() {
		if b.Name == backend {
			return p, nil
		}
	}
	found, err := host.Find(host.KindBackend, backend, host.Places())
	if err != nil {
		return nil, fmt.Errorf("backend %q: %w; built in are %s", backend, err, strings.Join(backendNames(), ", "))
	}
	p.Backend = harness.Executable{Path: found.Path, SHA256: found.SHA256}
	return p, nil
}

// findContender finds a strategy among the built-in ones, else as a plugin executable that it asks to describe itself.
func findContender(ctx context.Context, p *harness.Plugins, spec configs.StrategySpec) (harness.Contender, error) {
	options, err := json.Marshal(spec.Options)
	if err != nil {
		return harness.Contender{}, fmt.Errorf("strategy %s: options: %w", spec.Label, err)
	}
	if len(spec.Options) == 0 {
		options = []byte("{}")
	}
	if p.Backend.Path != "" { // an executable that serves backend and strategy runs both in one process
		d, err := p.Describe(ctx, p.Backend)
		if err != nil {
			return harness.Contender{}, err
		}
		for _, s := range d.GetStrategies() {
			if s.GetName() == spec.Name {
				return described(d, s, spec, options, p.Backend)
			}
		}
	}
	builtin, err := p.Describe(ctx, harness.Executable{})
	if err != nil {
		return harness.Contender{}, err
	}
	for _, s := range builtin.GetStrategies() {
		if s.GetName() == spec.Name {
			return described(builtin, s, spec, options, harness.Executable{})
		}
	}
	found, err := host.Find(host.KindStrategy, spec.Name, host.Places())
	if err != nil {
		return harness.Contender{}, harness.UnknownStrategy(spec.Name, strategyNames())
	}
	exe := harness.Executable{Path: found.Path, SHA256: found.SHA256}
	d, err := p.Describe(ctx, exe)
	if err != nil {
		return harness.Contender{}, err
	}
	for _, s := range d.GetStrategies() {
		if s.GetName() == spec.Name || len(d.GetStrategies()) == 1 {
			return described(d, s, spec, options, exe)
		}
	}
	return harness.Contender{}, fmt.Errorf("plugin %s serves no strategy called %q", found.Path, spec.Name)
}

// described checks the options against what the strategy says of itself, before any trial starts.
func described(of *host.Description, s *host.StrategyDescription, spec configs.StrategySpec, options []byte, exe harness.Executable) (harness.Contender, error) {
	if err := sdk.CheckOptions(json.RawMessage(s.GetOptionsSchema()), options); err != nil {
		return harness.Contender{}, fmt.Errorf("strategy %s: %w", spec.Label, err)
	}
	return harness.MakeContender(of, s, spec.Label, options, exe), nil
}
