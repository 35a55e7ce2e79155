package sdk_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/tlsf"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

const (
	benchBytes  = 8 << 30
	benchEvents = 1 << 20
	benchSlots  = 20_000 // blocks live at a time
)

// tlsfExecutable is served when servesEnv is "tlsf".
func tlsfExecutable() sdk.Executable {
	e := executable
	e.Strategies = []sdk.Description{tlsf.Description()}
	return e
}

// churn is a trace of sizes with a power-law tail and random lifetimes.
func churn(b *testing.B) *trace.Trace {
	b.Helper()
	build := trace.NewBuilder()
	x := uint64(88172645463325252)
	draw := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x >> 11
	}
	var live []trace.Handle
	next := trace.Handle(1)
	for build.Len() < benchEvents {
		if n := uint64(len(live)); n > 0 && (draw()&1 == 0 || n >= benchSlots) {
			i := draw() % n
			if err := build.Free(live[i], trace.FreeArgs{}); err != nil {
				b.Fatal(err)
			}
			live[i] = live[n-1]
			live = live[:n-1]
			continue
		}
		size := uint64(256) << (draw() % 4)
		for draw()&3 == 0 && size < 16<<20 {
			size <<= 1
		}
		if err := build.Alloc(next, size+draw()%size, trace.AllocArgs{}); err != nil {
			b.Fatal(err)
		}
		live = append(live, next)
		next++
	}
	t, err := build.Finish(trace.Meta{})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// cpuNs is the processor time of a process so far, user and system. The clock id of another process is made as
// clock_getcpuclockid(3) does.
func cpuNs(b *testing.B, pid int) int64 {
	b.Helper()
	const schedClock = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}

func reportCPU(b *testing.B, spent int64, events int) {
	b.ReportMetric(float64(spent)/float64(events), "cpu-ns/event")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func tlsfOptions(b *testing.B) string {
	b.Helper()
	d := tlsf.Description()
	if err := sdk.CheckOptions(d.Options, json.RawMessage("{}")); err != nil {
		b.Fatal(err)
	}
	return "{}"
}

// BenchmarkInProcess is the loop over tlsf with the records in ordinary memory.
func BenchmarkInProcess(b *testing.B) {
	d := tlsf.Description()
	for name, timing := range map[string]sdk.Timing{"batch": sdk.TimingBatch, "per-event": sdk.TimingPerEvent} {
		b.Run(name, func(b *testing.B) {
			r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &d, Options: json.RawMessage(tlsfOptions(b)), Trace: churn(b), Quiet: true, Timing: timing,
				OpenDevice: func() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: benchBytes}) }})
			if err != nil {
				b.Fatal(err)
			}
			w, err := wire.NewWindow(wire.DefaultGeometry)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			start, events := cpuNs(b, os.Getpid()), 0
			for b.Loop() {
				if err := r.Reset(); err != nil {
					b.Fatal(err)
				}
				for done := uint64(0); done < benchEvents; {
					if _, err := r.Replay(w, done, benchEvents, false); err != nil {
						b.Fatal(err)
					}
					n, _ := w.Published()
					done += n
				}
				events += benchEvents
			}
			reportCPU(b, cpuNs(b, os.Getpid())-start, events)
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOutOfProcess is the same with strategy and device in a plugin process and the records in a shared window. The
// processor time is that of both processes.
func BenchmarkOutOfProcess(b *testing.B) {
	path := filepath.Join(b.TempDir(), "churn.gbt")
	if err := trace.WriteFile(path, churn(b)); err != nil {
		b.Fatal(err)
	}
	for name, timing := range map[string]pluginv1.Timing{"batch": pluginv1.Timing_TIMING_BATCH, "per-event": pluginv1.Timing_TIMING_PER_EVENT} {
		b.Run(name, func(b *testing.B) {
			f, reader, err := wire.CreateWindow(wire.DefaultGeometry)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			defer reader.Close()
			b.Setenv(servesEnv, "tlsf")
			p := start(b, f)
			ctx := deadline(b)
			g := reader.Geometry()
			_, err = p.control.Open(ctx, &pluginv1.OpenRequest{Strategy: tlsf.Description().Name, OptionsJson: tlsfOptions(b), TracePath: path, Timing: timing,
				Device: &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Fused{Fused: &pluginv1.FusedDevice{Backend: "ideal", TotalBytes: benchBytes}}},
				Window: &pluginv1.WindowSpec{File: fd(4), OutcomeCapacity: g.OutcomeCapacity, CallCapacity: g.CallCapacity}})
			if err != nil {
				b.Fatal(err)
			}
			child := p.cmd.Process.Pid
			begin, events := cpuNs(b, os.Getpid())+cpuNs(b, child), 0
			for b.Loop() {
				for done := uint64(0); done < benchEvents; {
					resp, err := p.control.Replay(ctx, &pluginv1.ReplayRequest{First: done, Max: benchEvents, Reset_: done == 0})
					if err != nil {
						b.Fatal(err)
					}
					done += resp.Executed
				}
				events += benchEvents
			}
			reportCPU(b, cpuNs(b, os.Getpid())+cpuNs(b, child)-begin, events)
		})
	}
}
