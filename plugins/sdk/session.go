package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/gpubench/gpubench/backends"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// Errors of requests, for errors.Is.
var (
	ErrUnknown = errors.New("unknown name")
	ErrRequest = errors.New("request makes no sense")
	ErrBusy    = errors.New("a strategy is open already")
	ErrNotOpen = errors.New("nothing is open")
)

// worker runs functions one after the other on one locked thread: a strategy and a CUDA context see one thread for all
// their life.
type worker struct {
	jobs chan func()
}

func newWorker() *worker {
	w := &worker{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range w.jobs {
			f()
		}
	}()
	return w
}

// do runs f and waits for it, but not longer than ctx. What was begun goes on; the next do waits for its end.
func (w *worker) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case w.jobs <- func() { done <- f() }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// session is one open strategy with everything that belongs to it.
type session struct {
	runner   *Runner
	executor *Executor
	window   *wire.Window // nil for Execute
	trace    *trace.Trace
	closers  []func() error // in the order of opening
	closed   bool           // Close was called; only records wait
	cost     *pluginv1.RemoteCost
}

// files are the inherited descriptors in use. They stay open: a session may be opened again over the same.
type files struct{ inherited map[uint32]*os.File }

// with calls use with the file that spec names.
func (f *files) with(spec *pluginv1.FileSpec, use func(*os.File) error) error {
	switch where := spec.GetWhere().(type) {
	case *pluginv1.FileSpec_Fd:
		file := f.inherited[where.Fd]
		if file == nil {
			if file = os.NewFile(uintptr(where.Fd), fmt.Sprintf("descriptor %d", where.Fd)); file == nil {
				return fmt.Errorf("%w: descriptor %d", ErrRequest, where.Fd)
			}
			if f.inherited == nil {
				f.inherited = map[uint32]*os.File{}
			}
			f.inherited[where.Fd] = file
		}
		return use(file)
	case *pluginv1.FileSpec_Path:
		file, err := os.OpenFile(where.Path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(use(file), file.Close())
	}
	return fmt.Errorf("%w: neither a descriptor nor a path of a memory file", ErrRequest)
}

// openSession opens what an OpenRequest asks for.
func openSession(e *Executable, f *files, q *pluginv1.OpenRequest) (_ *session, resp *pluginv1.OpenResponse, err error) {
	s := &session{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	d, err := e.strategy(q.GetStrategy())
	if err != nil {
		return nil, nil, err
	}
	if err := CheckOptions(d.Options, json.RawMessage(q.GetOptionsJson())); err != nil {
		return nil, nil, fmt.Errorf("strategy %s: %w", d.Name, err)
	}
	if err := s.openFiles(f, q); err != nil {
		return nil, nil, err
	}
	open, err := s.device(e, f, q.GetDevice())
	if err != nil {
		return nil, nil, err
	}
	c := RunnerConfig{Strategy: d, Options: json.RawMessage(q.GetOptionsJson()), OpenDevice: open, Trace: s.trace, Capacity: q.GetCapacityBytes(),
		Seed: q.GetSeed(), Quiet: s.window != nil, MemoryMax: q.GetMemoryLimitBytes()}
	if q.GetTiming() == pluginv1.Timing_TIMING_BATCH {
		c.Timing = TimingBatch
	}
	if s.runner, err = NewRunner(c); err != nil {
		return nil, nil, err
	}
	s.closers = append(s.closers, s.runner.Close)
	if s.window == nil {
		s.executor = NewExecutor(s.runner)
	}
	resp = &pluginv1.OpenResponse{Device: deviceInfo(s.runner.Device()), Clock: s.clockInfo(), RemoteCost: s.cost}
	if s.trace != nil {
		resp.TraceEvents = uint64(len(s.trace.Events))
	}
	if q.GetRestoreStart() {
		if err := s.runner.Restore(); err != nil {
			return nil, nil, err
		}
		resp.Restored = s.runner.restored
	}
	return s, resp, nil
}

// openFiles maps the trace and the window.
func (s *session) openFiles(f *files, q *pluginv1.OpenRequest) error {
	if (q.GetTracePath() == "") != (q.GetWindow() == nil) {
		return fmt.Errorf("%w: a trace needs a window and a window a trace", ErrRequest)
	}
	if q.GetTracePath() == "" {
		return nil
	}
	// The harness has checked every record of the file; the loop checks the indexes that it uses once more.
	t, closer, err := trace.OpenWith(q.GetTracePath(), trace.OpenOptions{Trusted: true})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	s.trace = t
	s.closers = append(s.closers, closer.Close)
	g := wire.Geometry{OutcomeCapacity: q.GetWindow().GetOutcomeCapacity(), CallCapacity: q.GetWindow().GetCallCapacity()}
	return f.with(q.GetWindow().GetFile(), func(file *os.File) error {
		w, err := wire.MapWindow(file, g)
		if err == nil {
			s.window = w
			s.closers = append(s.closers, w.Close)
		}
		return err
	})
}

// device returns the function that opens the device.
func (s *session) device(e *Executable, f *files, spec *pluginv1.DeviceSpec) (func() (backends.Device, error), error) {
	switch b := spec.GetBinding().(type) {
	case *pluginv1.DeviceSpec_Fused:
		return opener(e, b.Fused.GetBackend(), b.Fused.GetOptionsJson(), b.Fused.GetTotalBytes(), s.trace)
	case *pluginv1.DeviceSpec_Remote:
		d, err := s.remote(f, b.Remote)
		if err != nil {
			return nil, err
		}
		return func() (backends.Device, error) { return d, nil }, nil
	}
	return nil, fmt.Errorf("%w: neither a fused nor a remote device", ErrRequest)
}

// opener checks a backend and its options and returns the function that opens a device of it.
func opener(e *Executable, name, options string, totalBytes uint64, t *trace.Trace) (func() (backends.Device, error), error) {
	b, err := e.backend(name)
	if err != nil {
		return nil, err
	}
	if options == "" {
		options = "{}"
	}
	if err := CheckOptions(b.Options, json.RawMessage(options)); err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	return func() (backends.Device, error) {
		d, err := b.Open(json.RawMessage(options), totalBytes, t)
		if err != nil {
			return nil, fmt.Errorf("backend %s: %w", name, err)
		}
		return d, nil
	}, nil
}

// remote makes the near end of a remote device and measures what its transport costs.
func (s *session) remote(f *files, q *pluginv1.RemoteDevice) (*remoteDevice, error) {
	info, caps := fromDeviceInfo(q.GetInfo())
	var c caller
	var closer io.Closer
	binding := "slot"
	switch {
	case q.GetSlot() != nil:
		err := f.with(q.GetSlot(), func(file *os.File) error {
			slot, err := wire.MapSlot(file)
			c, closer = slot, slot
			return err
		})
		if err != nil {
			return nil, err
		}
	case q.GetRpcTarget() != "":
		r, err := dialDevice(q.GetRpcTarget())
		if err != nil {
			return nil, err
		}
		c, closer, binding = r, r, "rpc"
	default:
		return nil, fmt.Errorf("%w: a remote device with neither slot nor target", ErrRequest)
	}
	s.closers = append(s.closers, closer.Close)
	// The device is closed by the process that opened it; here only the transport ends, with the session.
	d := newRemoteDevice(c, info, caps, func() error { return nil })
	cost, err := d.measure()
	if err != nil {
		return nil, fmt.Errorf("remote device %s: %w", info.Name, err)
	}
	if d.Has(CapDeviceReset) {
		d.Reset() // the last session over it may have left something behind
	}
	s.cost = &pluginv1.RemoteCost{Binding: binding, Calls: uint64(cost.Calls), MeanNs: cost.MeanNs, P50Ns: cost.P50Ns, P99Ns: cost.P99Ns}
	return d, nil
}

func (s *session) clockInfo() *pluginv1.ClockInfo {
	info, call, loop := s.runner.Clock()
	return &pluginv1.ClockInfo{Source: info.Source.String(), FrequencyHz: info.FrequencyHz, ReadCostMilliticks: info.ReadCostMilliticks,
		CallCostMilliticks: call, LoopCostMilliticks: loop}
}

// release closes everything, last opened first.
func (s *session) release() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}
