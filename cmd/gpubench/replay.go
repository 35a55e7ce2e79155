package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// replayFlags are the flags of `gpubench replay`.
type replayFlags struct {
	strategy, options, backend, device, capacity, outcomes, expect string
	opts, backendOpts                                              []string
	traceDevice                                                    int
	seed                                                           uint64
	remote, minimize                                               bool
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use: "replay RECORDING", GroupID: groupCompare, Short: "Replay one recording against one strategy and check every answer",
		Long: `Replays a recording against one strategy once, in its own process, checks every answer against the ledger, and prints what
happened: the verdict first, the first allocation that failed and why, then the metrics.`,
		Example: `  gpubench replay snapshot.pickle --strategy pytorch --capacity 24GiB
  gpubench replay rmm.csv --strategy tlsf --opt mode=min-memory --expect success
  gpubench replay snapshot.pickle --strategy pytorch --capacity 8GiB --minimize > smallest.trace`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.strategy, "strategy", "", "strategy (required)")
	fl.StringArrayVar(&f.opts, "opt", nil, "an option of the strategy, key=value; may be repeated")
	fl.StringVar(&f.options, "options", "", "options of the strategy as one JSON object")
	fl.StringVar(&f.backend, "backend", "pmm", "where the strategy gets memory")
	fl.StringArrayVar(&f.backendOpts, "backend-opt", nil, "an option of the backend, key=value; may be repeated")
	fl.StringVar(&f.device, "device", "a100-80", "device to model")
	fl.StringVar(&f.capacity, "capacity", "", "capacity instead of the device's, e.g. 24GiB")
	fl.StringVar(&f.outcomes, "outcomes", "", "write every outcome to this file, one JSON object a line (- = standard output)")
	fl.StringVar(&f.expect, "expect", "", "success: exit 3 when an allocation fails; failure: exit 3 when none does")
	fl.BoolVar(&f.minimize, "minimize", false, "print the shortest trace that still fails, in text form, instead of the metrics")
	fl.IntVar(&f.traceDevice, "trace-device", -1, "device of a recording of several devices")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of strategies that draw")
	fl.BoolVar(&f.remote, "remote", false, "run strategy and backend in two processes")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runReplay(cmd, args[0], &f, format(*form)) }
	return cmd
}

// replayResult is what `gpubench replay` prints.
type replayResult struct {
	Verdict       string            `json:"verdict"`
	ExitCode      int               `json:"exit_code"`
	Trace         string            `json:"trace"`
	TraceSHA256   string            `json:"trace_sha256"`
	Strategy      string            `json:"strategy"`
	Options       json.RawMessage   `json:"options"`
	Settings      *recordedSettings `json:"settings,omitempty"` // of pytorch over the recorded backend
	Backend       string            `json:"backend"`
	CapacityBytes uint64            `json:"capacity_bytes"`
	LowerBound    uint64            `json:"lower_bound_bytes"`
	Exact         *ledger.Exact     `json:"exact"`
	Timed         *ledger.Timed     `json:"timed"`
	Uncalibrated  bool              `json:"device_time_uncalibrated"`
	Remote        any               `json:"remote,omitempty"`
	Warnings      []string          `json:"warnings"`
	Clock         any               `json:"clock"`
	Violations    []string          `json:"-"`
}

func runReplay(cmd *cobra.Command, path string, f *replayFlags, form format) error {
	ctx := cmd.Context()
	if f.strategy == "" {
		return usageError(errors.New("--strategy NAME is required; see: gpubench plugin list"))
	}
	if f.expect != "" && f.expect != "success" && f.expect != "failure" {
		return usageError(fmt.Errorf("--expect %q is not success or failure", f.expect))
	}
	dir, remove, err := tempDir()
	if err != nil {
		return err
	}
	defer remove()
	one, err := openOne(ctx, path, dir, f)
	if err != nil {
		return usageError(err)
	}
	defer one.Close()
	if f.minimize {
		return minimizeTrace(cmd, one, dir)
	}
	sink, err := openOutcomes(cmd.OutOrStdout(), f.outcomes)
	if err != nil {
		return usageError(err)
	}
	res, err := one.replay(ctx, sink)
	if cerr := sink.Close(); err == nil && cerr != nil {
		err = usageError(cerr)
	}
	if err != nil {
		sink.discard()
		return one.classify(err)
	}
	code, why := replayCode(res, f.expect)
	res.ExitCode = code
	if f.outcomes != "-" {
		if form == formatJSON {
			err = printJSON(cmd.OutOrStdout(), res)
		} else {
			err = printReplay(cmd.OutOrStdout(), res)
		}
		if err != nil {
			return err
		}
	}
	if code != codeOK {
		return withCode(code, why)
	}
	return nil
}

// replayCode: a violation is a finding; an expectation that does not hold is a failed gate.
func replayCode(r *replayResult, expect string) (int, error) {
	if r.Exact.ViolationsTotal > 0 {
		return codeFinding, errors.New(r.Verdict)
	}
	failed := r.Exact.FirstFailure != nil
	switch {
	case expect == "success" && failed:
		return codeGate, fmt.Errorf("expected success, but an allocation failed: event %d", r.Exact.FirstFailure.Event)
	case expect == "failure" && !failed:
		return codeGate, errors.New("expected a failure, but every allocation succeeded")
	}
	return codeOK, nil
}

// single is one case made ready.
type single struct {
	rec      loaded
	all      []loaded
	launcher *harness.Plugins
	cont     harness.Contender
	c        results.Case
	runner   *harness.Runner
	// uncalibrated: device times come from figures that were not measured on the device.
	uncalibrated bool
	settings     *recordedSettings // of pytorch over the recorded backend, else nil
}

// Close releases the recording.
func (s *single) Close() { _ = closeAll(s.all) }

func openOne(ctx context.Context, path, dir string, f *replayFlags) (*single, error) {
	device, err := configs.LoadDevice(f.device)
	if err != nil {
		return nil, err
	}
	backendOptions, err := parseOptions("", f.backendOpts)
	if err != nil {
		return nil, fmt.Errorf("--backend-opt: %w", err)
	}
	if device, err = hardwareDevice(ctx, f.backend, backendOptions, device); err != nil {
		return nil, err
	}
	capacity := capacityFor(f.backend, device)
	if f.capacity != "" {
		if capacity, err = configs.ParseBytes(f.capacity); err != nil {
			return nil, fmt.Errorf("--capacity: %w", err)
		}
		if capacity < minCapacityBytes {
			return nil, fmt.Errorf("--capacity %s: a device has at least %s, one page", f.capacity, results.Bytes(minCapacityBytes))
		}
	}
	options, err := parseOptions(f.options, f.opts)
	if err != nil {
		return nil, err
	}
	s := &single{}
	var which *int
	if f.traceDevice >= 0 {
		which = &f.traceDevice
	}
	if s.all, err = loadRecordings(path, dir, which); err != nil {
		return nil, err
	}
	if len(s.all) > 1 {
		s.Close()
		return nil, fmt.Errorf("%s holds %d devices; choose one with --trace-device", path, len(s.all))
	}
	s.rec = s.all[0]
	if err := s.find(ctx, f, options); err != nil {
		s.Close()
		return nil, err
	}
	s.c = results.Case{ID: "c000", Strategy: s.cont.Strategy, Label: s.cont.Label, Options: s.cont.Options, Backend: f.backend, CapacityBytes: capacity,
		Scope: results.ScopeDevice, Binding: "fused", Plugin: s.cont.Plugin, PluginSHA256: s.cont.PluginSHA256}
	if f.remote || !slices.Contains(s.cont.Backends, f.backend) {
		s.c.Binding = "remote"
	}
	if err := s.setBackend(f, device); err != nil {
		s.Close()
		return nil, err
	}
	s.runner = &harness.Runner{Recordings: []harness.Recording{s.rec.Recording}, Contenders: []harness.Contender{s.cont}, Launcher: s.launcher, Seed: f.seed,
		MemoryLimitBytes: memoryLimitFor(f.backend, defaultMemoryLimit, capacity), HangTimeout: defaultHang}
	return s, nil
}

// setBackend notes the options of the backend: what was given, and for the model the device's figures.
func (s *single) setBackend(f *replayFlags, device *configs.Device) error {
	options, err := parseOptions("", f.backendOpts)
	if err != nil {
		return fmt.Errorf("--backend-opt: %w", err)
	}
	if f.backend == "pmm" {
		options["device"], options["costs"] = device.Name, device.Costs
		s.uncalibrated = device.Uncalibrated()
	}
	if len(options) > 0 {
		s.c.BackendOptions, err = json.Marshal(options)
	}
	return err
}

func (s *single) find(ctx context.Context, f *replayFlags, options map[string]any) error {
	var err error
	if s.launcher, err = newLauncher(ctx, f.backend); err != nil {
		return err
	}
	spec, settings, err := asRecorded(f.backend, configs.StrategySpec{Name: f.strategy, Label: f.strategy, Options: options}, s.all)
	if err != nil {
		return err
	}
	s.settings = settings
	s.cont, err = findContender(ctx, s.launcher, spec)
	return err
}

// classify gives an error of a session its exit code.
func (s *single) classify(err error) error {
	if f := s.launcher.Classify(err); f != nil {
		return withCode(codePluginFault, errors.New(f.Text))
	}
	var e *exitError
	if errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err
	}
	return usageError(err)
}

// replay runs the case once and reads its outcomes through the ledger.
func (s *single) replay(ctx context.Context, sink *outcomeSink) (*replayResult, error) {
	o, err := s.runner.ReplayOnce(ctx, &s.c, func(w harness.Window) error { return sink.write(s.rec.Trace, w) })
	if err != nil {
		return nil, err
	}
	r := &replayResult{Trace: s.rec.Name, TraceSHA256: s.rec.SHA256, Strategy: s.cont.Strategy, Options: s.cont.Options, Settings: s.settings, Backend: s.c.Backend,
		CapacityBytes: s.c.CapacityBytes, LowerBound: s.rec.LowerBound, Exact: &o.Report.Exact, Timed: o.Report.Timed, Warnings: o.Warnings, Clock: o.Info.Clock,
		Uncalibrated: s.uncalibrated}
	if o.Info.Remote != nil {
		r.Remote = o.Info.Remote
	}
	r.Warnings = append(r.Warnings, o.Report.Exact.Warnings...)
	r.Warnings = append(r.Warnings, s.rec.Trace.Meta.Warnings...)
	if r.refusedAsRecorded() {
		r.Warnings = append(r.Warnings, fmt.Sprintf(recordedRefusal, r.Strategy))
	}
	r.Verdict = replayVerdict(r)
	return r, nil
}

// parseOptions joins --options and --opt; a value that is JSON is taken as JSON, else as text.
func parseOptions(object string, pairs []string) (map[string]any, error) {
	out := map[string]any{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &out); err != nil {
			return nil, fmt.Errorf("--options: not a JSON object: %w", err)
		}
	}
	for _, p := range pairs {
		key, val, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--opt %q: write key=value", p)
		}
		var v any
		if json.Unmarshal([]byte(val), &v) != nil {
			v = val
		}
		out[key] = v
	}
	return out, nil
}

// outcomeSink writes outcomes as JSON lines.
type outcomeSink struct {
	w    *bufio.Writer
	file *os.File // nil: standard output
	enc  *json.Encoder
}

// outcomeLine is one line of --outcomes.
type outcomeLine struct {
	Event   uint64  `json:"i"`
	Op      string  `json:"op"`
	Handle  uint64  `json:"handle,omitempty"`
	Size    uint64  `json:"size,omitempty"`
	Status  string  `json:"status"`
	Addr    *uint64 `json:"addr,omitempty"`
	Granted uint64  `json:"granted,omitempty"`
	Calls   uint16  `json:"calls,omitempty"`
	Ns      uint32  `json:"device_ns,omitempty"`
}

func openOutcomes(stdout io.Writer, path string) (*outcomeSink, error) {
	s := &outcomeSink{}
	switch path {
	case "":
		return s, nil
	case "-":
		s.w = bufio.NewWriter(stdout)
	default:
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		s.w, s.file = bufio.NewWriterSize(f, 1<<20), f
	}
	s.enc = json.NewEncoder(s.w)
	return s, nil
}

func (s *outcomeSink) write(t *trace.Trace, w harness.Window) error {
	if s.w == nil {
		return nil
	}
	for i := range w.Outcomes {
		e, o := &t.Events[w.First+uint64(i)], &w.Outcomes[i]
		l := outcomeLine{Event: w.First + uint64(i), Op: e.Kind.String(), Handle: uint64(e.Handle), Status: o.Status.String(), Calls: o.Calls, Ns: o.DeviceNs}
		if e.Kind.TakesMemory() {
			l.Size, l.Granted = e.Size, o.Granted
			if o.Status.Placed() {
				l.Addr = &o.Addr
			}
		}
		if err := s.enc.Encode(&l); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a file that holds only a part of the outcomes.
func (s *outcomeSink) discard() {
	if s.file == nil {
		return
	}
	if info, err := os.Stat(s.file.Name()); err == nil && info.Mode().IsRegular() {
		_ = os.Remove(s.file.Name())
	}
}

// Close flushes what was written.
func (s *outcomeSink) Close() error {
	if s.w == nil {
		return nil
	}
	err := s.w.Flush()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}
