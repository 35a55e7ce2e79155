package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// A window holds the trace, within these bounds. A Replay call costs both processes together about 100 µs of processor time on a machine
// at rest and ten times that beside busy neighbours (measured: scheduling, not messages): over 256 Ki events that is 0.4 to 4 ns
// an event, where 32 Ki cost up to 30. More would not be felt, and 256 Ki outcomes and call records are 20 MiB already, which a short trace
// should not have to touch.
const (
	windowEventsMin = 8 << 10
	windowEventsMax = 256 << 10
)

// windowFor chooses the window for a trace: a power of two, since a geometry is easier to recognize so. 0 events is not known.
func windowFor(events uint64) host.Geometry {
	n := uint64(windowEventsMin)
	for n < events && n < windowEventsMax {
		n *= 2
	}
	return host.Geometry{OutcomeCapacity: n, CallCapacity: n}
}

// Plugins launches plugin processes under their guards: the built-in strategies and backends in Self, others in their own
// executables.
type Plugins struct {
	Self    string   // the gpubench executable
	Args    []string // that make it serve as a plugin
	Backend Executable
	Stderr  io.Writer // gets what plugins say; nil keeps only the last 64 KiB with a fault

	described map[Executable]*host.Description
}

// Executable is a plugin executable; the zero value is the built-in one.
type Executable struct {
	Path   string
	SHA256 string
}

// Open implements Launcher. The strategy's executable serves the backend too when it can (fused); otherwise, and when the
// case asks for it, the backend runs in a process of its own (remote).
func (p *Plugins) Open(ctx context.Context, spec OpenSpec) (Session, error) {
	s := &pluginSession{launcher: p, spec: spec}
	if err := s.start(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Classify implements Launcher.
func (p *Plugins) Classify(err error) *results.Fault {
	var f *host.Fault
	if !errors.As(err, &f) {
		return nil
	}
	out := &results.Fault{Class: faultClass(f), Text: oneLine(f.Error()), Stderr: f.StderrTail}
	if f.HasEvent && f.Event <= math.MaxInt64 {
		e := int64(f.Event)
		out.Event = &e
	}
	return out
}

func faultClass(f *host.Fault) string {
	for _, k := range []struct {
		kind error
		name string
	}{{host.ErrCrash, "crash"}, {host.ErrHang, "hang"}, {host.ErrProtocol, "protocol"}, {host.ErrChecksum, "checksum"},
		{host.ErrMemoryLimit, "memory-limit"}, {host.ErrStart, "start"}, {host.ErrLie, "lie"}} {
		if errors.Is(f, k.kind) {
			return k.name
		}
	}
	return "fault"
}

// pluginSession is a case opened in one process, or in two when the binding is remote.
type pluginSession struct {
	launcher *Plugins
	spec     OpenSpec
	strategy *host.Plugin
	device   *host.Plugin // nil when fused
	slotFile *os.File
	slot     *host.Slot
	watched  chan struct{} // closed when nobody uses slot any more
	opened   *host.Opened
	remote   *host.RemoteDevice
	next     uint64 // the event after the last one replayed
}

func (s *pluginSession) start(ctx context.Context) error {
	var err error
	strategy := host.Spec{Window: windowFor(s.spec.TraceEvents),
		MemoryLimitBytes: s.spec.MemoryLimitBytes, ProgressDeadline: s.spec.HangTimeout, Stderr: s.launcher.Stderr, Name: s.spec.Case.Strategy}
	strategy.Path, strategy.Args, strategy.SHA256 = s.executable(Executable{Path: s.spec.Case.Plugin, SHA256: s.spec.Case.PluginSHA256})
	if s.spec.Case.Binding == "remote" {
		if s.slotFile, s.slot, err = host.CreateSlot(); err != nil {
			return err
		}
		strategy.Files = []*os.File{s.slotFile}
		if err := s.startDevice(ctx); err != nil {
			return err
		}
	}
	if s.strategy, err = host.Start(ctx, strategy); err != nil {
		return err
	}
	return s.open(ctx, s.spec.Timing)
}

func (s *pluginSession) executable(e Executable) (path string, args []string, sum string) {
	if e.Path == "" {
		return s.launcher.Self, s.launcher.Args, ""
	}
	return e.Path, nil, e.SHA256
}

func (s *pluginSession) startDevice(ctx context.Context) error {
	spec := host.Spec{MemoryLimitBytes: s.spec.MemoryLimitBytes, Files: []*os.File{s.slotFile}, Stderr: s.launcher.Stderr,
		Name: "backend " + s.spec.Case.Backend}
	spec.Path, spec.Args, spec.SHA256 = s.executable(s.launcher.Backend)
	var err error
	if s.device, err = host.Start(ctx, spec); err != nil {
		return err
	}
	s.watched = make(chan struct{})
	go func(device *host.Plugin, slot *host.Slot) {
		defer close(s.watched)
		<-device.Done()
		slot.Abort() // a strategy that waits for an answer gets "device lost"
	}(s.device, s.slot)
	return s.openDevice(ctx)
}

func (s *pluginSession) openDevice(ctx context.Context) error {
	info, err := s.device.OpenDevice(ctx, s.backend(), s.spec.TracePath, 0)
	if err != nil {
		return err
	}
	s.remote = &host.RemoteDevice{SlotFile: 0, Info: info}
	return nil
}

func (s *pluginSession) backend() host.FusedDevice {
	c := s.spec.Case
	return host.FusedDevice{Backend: c.Backend, OptionsJSON: string(c.BackendOptions), TotalBytes: c.CapacityBytes}
}

func (s *pluginSession) open(ctx context.Context, timing Timing) error {
	c := s.spec.Case
	req := host.OpenRequest{
		Strategy: c.Strategy, OptionsJSON: string(c.Options), CapacityBytes: c.CapacityBytes, Seed: s.spec.Seed,
		TracePath: s.spec.TracePath, Batch: timing == TimeBatch, RestoreStart: s.spec.RestoreStart,
	}
	if s.device != nil {
		req.Remote = s.remote
	} else {
		fused := s.backend()
		req.Fused = &fused
	}
	var err error
	s.opened, err = s.strategy.Open(ctx, req)
	if errors.Is(err, host.ErrNoMemory) {
		err = fmt.Errorf("%w: %w", ErrNoArena, err)
	}
	s.next = 0
	return err
}

// Info implements Session.
func (s *pluginSession) Info() SessionInfo {
	d, c := s.opened.GetDevice(), s.opened.GetClock()
	tick := 1.0
	if c.GetFrequencyHz() > 0 {
		tick = 1e9 / float64(c.GetFrequencyHz())
	}
	info := SessionInfo{
		Device: DeviceInfo{Name: d.GetName(), TotalBytes: d.GetTotalBytes(), PageBytes: d.GetPageBytes(), Deterministic: d.GetDeterministic(),
			ModelledTime: d.GetModelledTime(), Uncalibrated: d.GetUncalibratedTime(), CostSource: d.GetCostSource()},
		Clock: results.Clock{Source: c.GetSource(), FrequencyHz: c.GetFrequencyHz(), CostNs: milliticksNs(c.GetReadCostMilliticks(), tick),
			LoopCostNs: milliticksNs(c.GetLoopCostMilliticks(), tick)},
		TickNs: tick, Restored: s.opened.GetRestored(), Warnings: s.opened.GetWarnings(),
	}
	if r := s.opened.GetRemoteCost(); r != nil {
		info.Remote = &results.RemoteCost{Binding: r.GetBinding(), MeanNs: r.GetMeanNs(), P99Ns: r.GetP99Ns()}
	}
	return info
}

func milliticksNs(m uint64, tick float64) float64 { return float64(m) / 1000 * tick }

// Replay implements Session.
func (s *pluginSession) Replay(ctx context.Context, drain func(Window) error) (PassStats, error) {
	info := s.Info()
	st := PassStats{LoopCostNs: info.Clock.LoopCostNs}
	seen := map[string]bool{}
	totals, err := s.strategy.Replay(ctx, host.ReplayRequest{Reset: s.next > 0}, func(b host.Batch) error {
		for _, w := range b.Warnings {
			if !seen[w] {
				seen[w] = true
				st.Warnings = append(st.Warnings, w)
			}
		}
		return drain(Window{First: b.First, Outcomes: b.Outcomes, Calls: b.Calls})
	})
	s.next = totals.Executed
	if derr := s.deviceLost(ctx); derr != nil {
		err = derr // what the strategy did without its device is not its fault
	}
	st.Events, st.GCs = totals.Executed, uint32(min(totals.Collections, math.MaxUint32))
	st.LoopNs, st.WallNs = float64(totals.LoopTicks)*info.TickNs, float64(totals.DeviceTicks)*info.TickNs
	return st, err
}

// deviceLost returns the fault of a device whose process has ended by itself.
func (s *pluginSession) deviceLost(ctx context.Context) error {
	if s.device == nil {
		return nil
	}
	select {
	case <-s.device.Done():
		_, err := s.device.CloseDevice(ctx)
		return err
	default:
		return nil
	}
}

// Reopen implements Session. A slot serves one opening of a device, so with a remote binding both processes are started anew.
func (s *pluginSession) Reopen(ctx context.Context, timing Timing, drain func(Window) error) error {
	if err := s.closeCase(ctx, drain); err != nil {
		return err
	}
	if s.device == nil {
		return s.open(ctx, timing)
	}
	s.Stop()
	s.strategy, s.device, s.slot, s.slotFile, s.watched = nil, nil, nil, nil, nil
	s.spec.Timing = timing
	return s.start(ctx)
}

// SetTrace implements Session.
func (s *pluginSession) SetTrace(path string) { s.spec.TracePath = path }

// Finish implements Session.
func (s *pluginSession) Finish(ctx context.Context, drain func(Window) error) error {
	return s.closeCase(ctx, drain)
}

func (s *pluginSession) closeCase(ctx context.Context, drain func(Window) error) error {
	waiting, err := s.strategy.Close(ctx)
	if err != nil {
		return err
	}
	if waiting > 0 && drain != nil {
		if err := s.strategy.DrainCalls(ctx, s.next, func(calls []trace.Call) error { return drain(Window{First: s.next, Calls: calls}) }); err != nil {
			return err
		}
	}
	if s.device != nil {
		if _, err := s.device.CloseDevice(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stopDeadline bounds Stop; the guard's own deadlines are below it.
const stopDeadline = 5 * time.Second

// Stop implements Session.
func (s *pluginSession) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	for _, p := range []*host.Plugin{s.strategy, s.device} {
		if p != nil {
			_ = p.Stop(ctx)
		}
	}
	if s.watched != nil {
		<-s.watched
	}
	if s.slot != nil {
		_ = s.slot.Close()
		_ = s.slotFile.Close()
	}
}

// Describe starts an executable, asks what it serves, and ends it; it asks each executable once.
func (p *Plugins) Describe(ctx context.Context, e Executable) (*host.Description, error) {
	if d := p.described[e]; d != nil {
		return d, nil
	}
	spec := host.Spec{Path: e.Path, SHA256: e.SHA256, Stderr: p.Stderr}
	if e.Path == "" {
		spec.Path, spec.Args = p.Self, p.Args
	}
	pl, err := host.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	d := pl.Describe()
	if p.described == nil {
		p.described = map[Executable]*host.Description{}
	}
	p.described[e] = d
	sctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	return d, pl.Stop(sctx)
}

// MakeContender turns what a plugin says of a strategy into an entry of a run.
func MakeContender(of *host.Description, d *host.StrategyDescription, label string, options []byte, e Executable) Contender {
	c := Contender{Strategy: d.GetName(), Label: label, Version: d.GetVersion(), Options: options, Plugin: e.Path, PluginSHA256: e.SHA256,
		Promises: d.GetPromises(), Canary: d.GetCanary(), Alignment: d.GetAlignmentBytes()}
	for _, b := range of.GetBackends() {
		c.Backends = append(c.Backends, b.GetName())
	}
	for _, x := range d.GetDeviations() {
		c.Deviations = append(c.Deviations, results.Deviation{ID: x.GetId(), Text: x.GetText(), Section: x.GetSection()})
	}
	for _, k := range d.GetCapabilities() {
		c.CanRestore = c.CanRestore || k == "restore"
	}
	return c
}

// UnknownStrategy is the error for a name that no plugin serves.
func UnknownStrategy(name string, known []string) error {
	return fmt.Errorf("strategy %q is not known; known: %s; see: gpubench plugin list", name, strings.Join(known, ", "))
}
