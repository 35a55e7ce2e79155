package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/results"
)

// watchInterval is the time between samples during a run: short against a trial, long against a look (about a millisecond).
const watchInterval = 50 * time.Millisecond

// watcher watches the device of a run through the telemetry plugin, in a process of its own. When telemetry fails, later
// trials are tainted as not watched, and the run goes on.
type watcher struct {
	plugin *host.Plugin
	cancel context.CancelFunc
	ended  chan struct{}
	device *deviceLine
	parent *deviceLine // of a MIG instance; its readings count where the instance has none

	mu      sync.Mutex
	samples []harness.HardwareSample // since the last Begin; before it the latest only
	about   harness.HardwareSample   // latest of the parent
}

// startWatcher watches the device that a backend's option names. nil and a reason when it cannot be watched.
func startWatcher(ctx context.Context, which string) (*watcher, error) {
	list, err := fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	w := &watcher{device: visibleDevice(list, which), ended: make(chan struct{})}
	devices := []uint32{w.device.Index}
	for i := range list {
		if list[i].UUID != "" && list[i].UUID == w.device.Facts["mig_parent"] {
			w.parent = &list[i]
			devices = append([]uint32{list[i].Index}, devices...) // first, so that its readings are there
		}
	}
	if w.plugin, err = startTelemetry(ctx); err != nil {
		return nil, err
	}
	wctx, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go func() {
		defer close(w.ended)
		_ = w.plugin.Watch(wctx, watchInterval, devices, w.add) // without samples trials are tainted: that says it
	}()
	return w, nil
}

// visibleDevice finds the device that CUDA shows under an index, or a UUID's beginning; the first if none fits.
func visibleDevice(list []deviceLine, which string) *deviceLine {
	if which == "" {
		which = "0"
	}
	if i, err := strconv.Atoi(which); err == nil {
		if visible := strings.Split(os.Getenv("CUDA_VISIBLE_DEVICES"), ","); visible[0] != "" && i < len(visible) {
			which = strings.TrimSpace(visible[i])
		}
	}
	for i := range list {
		d := &list[i]
		if strconv.FormatUint(uint64(d.Index), 10) == which || strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(which)) {
			return d
		}
	}
	return &list[0]
}

func (w *watcher) add(s *host.Sample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := harness.HardwareSample{UnixNs: s.GetUnixNs(), Values: s.GetValues()}
	if w.parent != nil && s.GetDevice() == w.parent.Index {
		w.about = x
		return nil
	}
	for name, v := range w.about.Values {
		if _, own := x.Values[name]; !own && !strings.HasPrefix(name, "process") && !strings.HasPrefix(name, "memory") {
			x.Values[name] = v
		}
	}
	w.samples = append(w.samples, x)
	return nil
}

// Begin implements harness.Watcher: the latest sample is the one from before the trial.
func (w *watcher) Begin() func() *results.Qualification {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.samples); n > 0 {
		w.samples = append(w.samples[:0:0], w.samples[n-1])
	}
	return func() *results.Qualification {
		w.mu.Lock()
		defer w.mu.Unlock()
		facts := w.device.Facts
		if w.parent != nil {
			facts = w.parent.Facts
		}
		return harness.Qualify(&harness.Hardware{UUID: w.device.UUID, Facts: facts, Samples: w.samples, Own: ownProcess})
	}
}

// Close ends the telemetry.
func (w *watcher) Close() {
	w.cancel()
	stopQuietly(w.plugin)
	<-w.ended
}

// ownProcess reports whether a process is this one or a descendant. known is false where the number is nobody's here: the
// driver may number processes of another namespace.
func ownProcess(pid uint64) (own, known bool) {
	self := uint64(os.Getpid())
	for at := pid; at > 1; {
		if at == self {
			return true, true
		}
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.FormatUint(at, 10), "stat"))
		if err != nil {
			return false, at != pid
		}
		// "PID (name) STATE PPID …"; the name may hold anything, so the last parenthesis counts (proc(5)).
		text := string(raw)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			return false, true
		}
		if at, err = strconv.ParseUint(fields[1], 10, 32); err != nil {
			return false, true
		}
	}
	return false, true
}

// watchHardware gives a run a watcher when its backend is hardware, and a note when that cannot be watched.
func watchHardware(ctx context.Context, r *harness.Runner, p *harness.Plugins, options map[string]any) (end func(), note string) {
	none := func() {}
	if p.Backend.Path == "" {
		return none, ""
	}
	if d, err := p.Describe(ctx, p.Backend); err != nil || len(d.GetTelemetry()) == 0 {
		return none, ""
	}
	which, _ := options["device"].(string)
	w, err := startWatcher(ctx, which)
	if err != nil {
		return none, "the hardware is not watched, so nothing says whether a measurement can be trusted: " + oneLine(err.Error())
	}
	r.Watcher = w
	return w.Close, ""
}
