package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/synth"
)

// The pipeline under test is what a trial does: a plugin process of the built-in strategies fills the shared window, the harness drains it.
const (
	pipelineStrategy = "tlsf"
	pipelineBytes    = 8 << 30
	pipelineOutcomes = 256 << 10 // the window of a trial of a long trace
	pipelineCalls    = 256 << 10
)

// churnFile writes a power-law trace of n events and returns its path.
func churnFile(tb testing.TB, n uint64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), fmt.Sprintf("churn-%d.trace", n))
	b, err := trace.CreateFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	meta, err := synth.Generate(b, synth.Options{Pattern: "powerlaw", Events: n, Seed: 7})
	if err == nil {
		_, err = b.Finish(meta)
	}
	if err != nil {
		b.Abandon()
		tb.Fatal(err)
	}
	return path
}

// pipeline is a plugin process with the case opened in it, and the trace as the harness sees it.
type pipeline struct {
	plugin  *host.Plugin
	trace   *trace.Trace
	opened  *host.Opened
	pid     int // of the plugin itself; its parent is the guard
	peak    memory
	windows int
}

// memory is anonymous memory, in bytes.
type memory struct{ plugin, harness uint64 }

// openPipeline starts the program as a plugin process and opens tlsf over the ideal device in it.
func openPipeline(tb testing.TB, path string, batch bool) *pipeline {
	tb.Helper()
	program := binary(tb)
	t, closer, err := trace.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = closer.Close() })
	ctx := context.Background()
	p, err := host.Start(ctx, host.Spec{Path: program, Args: []string{pluginServeVerb}, Guard: []string{program, guard.Verb},
		Window: host.Geometry{OutcomeCapacity: pipelineOutcomes, CallCapacity: pipelineCalls}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Stop(ctx) })
	x := &pipeline{plugin: p, trace: t, pid: onlyChild(tb, p.GuardPID())}
	x.opened, err = p.Open(ctx, host.OpenRequest{Strategy: pipelineStrategy, TracePath: path, CapacityBytes: pipelineBytes, Batch: batch,
		Fused: &host.FusedDevice{Backend: "ideal", TotalBytes: pipelineBytes}})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// onlyChild is the process id of the one child of a process.
func onlyChild(tb testing.TB, pid int) int {
	tb.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		tb.Fatal(err)
	}
	var children []string
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		tb.Skipf("process %d has the children %v by /proc; the kernel may not list them", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		tb.Fatal(err)
	}
	return child
}

// replay runs the whole trace once and gives every window to drain.
func (x *pipeline) replay(tb testing.TB, drain func(b host.Batch) error) {
	tb.Helper()
	totals, err := x.plugin.Replay(context.Background(), host.ReplayRequest{Reset: true}, drain)
	if err != nil {
		tb.Fatal(err)
	}
	if totals.Executed != uint64(len(x.trace.Events)) || !totals.End {
		tb.Fatalf("%d of %d events done", totals.Executed, len(x.trace.Events))
	}
}

// fullLedger is the ledger with every metric but the picture.
func (x *pipeline) fullLedger() *ledger.Ledger {
	d, c := x.opened.GetDevice(), x.opened.GetClock()
	tick := 1e9 / float64(c.GetFrequencyHz())
	return ledger.New(ledger.Config{Extras: x.trace.Extras, Strings: x.trace.Strings, DeviceTotalBytes: d.GetTotalBytes(), DevicePageBytes: d.GetPageBytes(),
		AlignmentBytes: 8, MemInfoExact: true, ModelledTime: d.GetModelledTime(), Timing: true, TickNs: tick,
		ClockCostTicks: uint32(c.GetReadCostMilliticks() / 1000), Hostages: true, Series: true})
}

// feed returns a drain function that gives windows to the ledger.
func (x *pipeline) feed(l *ledger.Ledger) func(host.Batch) error {
	return func(b host.Batch) error {
		return l.Feed(b.First, x.trace.Events[b.First:b.First+uint64(len(b.Outcomes))], nil, b.Outcomes, b.Calls)
	}
}

// memoryEvery windows the memory of both processes is looked at.
const memoryEvery = 2

// watch wraps a drain function and keeps the peaks of memory.
func (x *pipeline) watch(tb testing.TB, drain func(host.Batch) error) func(host.Batch) error {
	return func(b host.Batch) error {
		err := drain(b)
		if x.windows++; x.windows%memoryEvery == 0 || uint64(len(b.Outcomes)) < pipelineOutcomes {
			x.look(tb)
		}
		return err
	}
}

// look takes the anonymous memory of the plugin from /proc, and what lives on the heap of the harness from its runtime: its anonymous
// memory would be that of every test before this one.
func (x *pipeline) look(tb testing.TB) {
	x.peak.plugin = max(x.peak.plugin, anonymousBytes(tb, x.pid))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	x.peak.harness = max(x.peak.harness, m.HeapAlloc)
}

// anonymousBytes is RssAnon of a process: heap, stacks and private mappings, but neither the mapped trace nor the window.
func anonymousBytes(tb testing.TB, pid int) uint64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "RssAnon:")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); !ok || err != nil {
		tb.Skip("the kernel does not tell RssAnon")
	}
	return kib << 10
}

// cpuNs is the processor time of a process so far, user and system; the clock id is made as clock_getcpuclockid(3) does.
func cpuNs(tb testing.TB, pid int) int64 {
	tb.Helper()
	const schedClock = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &ts); err != nil {
		tb.Fatal(err)
	}
	return ts.Nano()
}

// TestMemoryDoesNotGrowWithTheTrace replays a short and a long trace of the same shape, each in fresh processes, with the whole ledger.
func TestMemoryDoesNotGrowWithTheTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("replays two million events")
	}
	const short, long = 500_000, 2_000_000
	small, large := measureMemory(t, short), measureMemory(t, long)
	// The long trace has 46 MiB of outcomes more: whoever kept them, or anything else of 8 bytes an event, would be beyond the slack.
	const slack = 8 << 20
	if large.plugin > small.plugin+slack {
		t.Errorf("the plugin's anonymous memory grows: %d bytes for %d events, %d for %d", small.plugin, short, large.plugin, long)
	}
	if large.plugin > pluginBytesMax {
		t.Errorf("the plugin has %d bytes of anonymous memory", large.plugin)
	}
	if large.harness > small.harness+slack {
		t.Errorf("the harness's heap grows: %d bytes for %d events, %d for %d", small.harness, short, large.harness, long)
	}
}

// pluginBytesMax is several times what a plugin of tlsf over the ideal device needs with the collector off in its windows.
const pluginBytesMax = 128 << 20

// measureMemory replays a trace of n events in a fresh process with the whole ledger, and returns the peaks.
func measureMemory(tb testing.TB, n uint64) memory {
	tb.Helper()
	x := openPipeline(tb, churnFile(tb, n), false)
	defer func() { _ = x.plugin.Stop(context.Background()) }()
	l := x.fullLedger()
	x.replay(tb, x.watch(tb, x.feed(l)))
	if r := l.Finish(); r.Exact.ViolationsTotal != 0 || r.Exact.Events != n {
		tb.Fatalf("%d events, %d violations: %v", r.Exact.Events, r.Exact.ViolationsTotal, r.Exact.Violations)
	}
	return x.peak
}
