package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/tlsf"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// pipelineRounds is how often the sides of a comparison take turns; their median counts, so that a neighbour on the machine who disturbs
// one turn moves nothing. Where neighbours never rest, the least disturbed turn of each side (least) says more.
const pipelineRounds = 7

// pipelineEvents is the length of the trace: 10 million, with -short one.
func pipelineEvents() uint64 {
	if testing.Short() {
		return 1_000_000
	}
	return 10_000_000
}

// inProcess is the loop of the SDK over tlsf and the ideal device in this process, with its records in ordinary memory.
type inProcess struct {
	runner *sdk.Runner
	window *wire.Window
	reader *wire.Reader
	events uint64
}

func openInProcess(b *testing.B, t *trace.Trace, timing sdk.Timing) *inProcess {
	b.Helper()
	d := tlsf.Description()
	r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &d, Trace: t, Capacity: pipelineBytes, Timing: timing, Quiet: true,
		OpenDevice: func() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: pipelineBytes}) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: pipelineOutcomes, CallCapacity: pipelineCalls})
	if err != nil {
		b.Fatal(err)
	}
	return &inProcess{runner: r, window: w, reader: w.Reader(), events: uint64(len(t.Events))}
}

// replay runs the whole trace once.
func (x *inProcess) replay(b *testing.B, drain func([]trace.Outcome)) {
	b.Helper()
	if err := x.runner.Reset(); err != nil {
		b.Fatal(err)
	}
	for done := uint64(0); done < x.events; {
		if _, err := x.runner.Replay(x.window, done, x.events, false); err != nil {
			b.Fatal(err)
		}
		d, err := x.reader.Drain(done)
		if err != nil {
			b.Fatal(err)
		}
		drain(d.Outcomes)
		done += uint64(len(d.Outcomes))
	}
}

// granted reads every record, as the cheapest consumer would.
func granted(outcomes []trace.Outcome) (sum uint64) {
	for i := range outcomes {
		sum += outcomes[i].Granted
	}
	return sum
}

// BenchmarkPipelineOutOfProcess compares the processor time of a trace through a plugin process (harness, guard and plugin together, the
// window drained) with that of the same loop in this process that writes the same records to ordinary memory. The sides take turns.
func BenchmarkPipelineOutOfProcess(b *testing.B) {
	path := churnFile(b, pipelineEvents())
	for _, mode := range []struct {
		name   string
		timing sdk.Timing
	}{{"per-event", sdk.TimingPerEvent}, {"batch", sdk.TimingBatch}} {
		b.Run(mode.name, func(b *testing.B) {
			out := openPipeline(b, path, mode.timing == sdk.TimingBatch)
			in := openInProcess(b, out.trace, mode.timing)
			pids := []int{os.Getpid(), out.plugin.GuardPID(), out.pid}
			var sums [2]uint64
			sides := [2]func(){
				func() { in.replay(b, func(o []trace.Outcome) { sums[0] += granted(o) }) },
				func() {
					out.replay(b, func(w host.Batch) error {
						sums[1] += granted(w.Outcomes)
						return nil
					})
				},
			}
			b.ReportAllocs()
			var perEvent [2][]float64
			var ratios []float64
			for b.Loop() {
				for range pipelineRounds {
					var spent [2]float64
					for k, replay := range sides {
						before := cpuOf(b, pids)
						replay()
						spent[k] = float64(cpuOf(b, pids)-before) / float64(in.events)
						perEvent[k] = append(perEvent[k], spent[k])
					}
					ratios = append(ratios, spent[1]/spent[0])
				}
			}
			if sums[0] != sums[1] {
				b.Fatalf("the two sides granted %d and %d bytes in all", sums[0], sums[1])
			}
			b.ReportMetric(middle(perEvent[0]), "in-cpu-ns/event")
			b.ReportMetric(middle(perEvent[1]), "out-cpu-ns/event")
			b.ReportMetric(middle(perEvent[1])/middle(perEvent[0]), "out/in-cpu-ratio")
			b.ReportMetric(middle(ratios), "out/in-paired-ratio")
			b.ReportMetric(slices.Min(perEvent[1])/slices.Min(perEvent[0]), "out/in-least-ratio")
		})
	}
}

func cpuOf(b *testing.B, pids []int) (sum int64) {
	for _, pid := range pids {
		sum += cpuNs(b, pid)
	}
	return sum
}

func middle(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkPipelineLedger is the whole way: plugin, window, and the ledger with every metric but the picture. Plugin and harness take turns,
// so events/cpu-s, by the processor time of all processes, is what events/s comes to on a machine that does nothing else.
func BenchmarkPipelineLedger(b *testing.B) {
	b.Run("one-after-another", func(b *testing.B) { benchmarkPipelineLedger(b, false) })
	b.Run("overlapped", func(b *testing.B) { benchmarkPipelineLedger(b, true) })
}

// benchmarkPipelineLedger reads every window with the whole ledger, between two windows as in a timed pass, or while the plugin
// runs on, as in the pass that gives the exact metrics.
func benchmarkPipelineLedger(b *testing.B, overlapped bool) {
	x := openPipeline(b, churnFile(b, pipelineEvents()), false)
	pids := []int{os.Getpid(), x.plugin.GuardPID(), x.pid}
	n := float64(len(x.trace.Events))
	var wall, cpu, plugin []float64
	b.ReportAllocs()
	for b.Loop() {
		for range pipelineRounds {
			l := x.fullLedger() // fresh: its first pages count like those of a trial
			began, all, own := time.Now(), cpuOf(b, pids), cpuNs(b, x.pid)
			x.ledgerPass(b, l, overlapped)
			cpu = append(cpu, float64(cpuOf(b, pids)-all)/n)
			plugin = append(plugin, float64(cpuNs(b, x.pid)-own)/n)
			wall = append(wall, float64(time.Since(began).Nanoseconds())/n)
			if r := l.Finish(); r.Exact.ViolationsTotal != 0 {
				b.Fatal(r.Exact.Violations)
			}
		}
	}
	b.ReportMetric(1e9/middle(wall), "events/s")
	b.ReportMetric(1e9/middle(cpu), "events/cpu-s")
	b.ReportMetric(middle(cpu), "cpu-ns/event")
	b.ReportMetric(middle(plugin), "plugin-cpu-ns/event")
	b.ReportMetric(slices.Min(cpu), "least-cpu-ns/event")
}

// ledgerPass replays the trace once through a ledger.
func (x *pipeline) ledgerPass(b *testing.B, l *ledger.Ledger, overlapped bool) {
	feed := x.feed(l)
	if !overlapped {
		x.replay(b, feed)
		return
	}
	o := harness.NewOverlap(func(w harness.Window) error {
		return l.Feed(w.First, x.trace.Events[w.First:w.First+uint64(len(w.Outcomes))], nil, w.Outcomes, w.Calls)
	})
	x.replay(b, func(d host.Batch) error {
		return o.Add(harness.Window{First: d.First, Outcomes: d.Outcomes, Calls: d.Calls})
	})
	if err := o.Wait(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPipelineMemory reports the peaks of memory at a tenth of the trace and at all of it.
func BenchmarkPipelineMemory(b *testing.B) {
	for b.Loop() {
		n := pipelineEvents()
		tenth, all := measureMemory(b, n/10), measureMemory(b, n)
		b.ReportMetric(float64(tenth.plugin), "plugin-B-tenth")
		b.ReportMetric(float64(all.plugin), "plugin-B")
		b.ReportMetric(float64(tenth.harness), "harness-B-tenth")
		b.ReportMetric(float64(all.harness), "harness-B")
	}
}
