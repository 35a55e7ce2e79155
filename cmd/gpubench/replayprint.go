package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// Limits of one replay, as in a suite's defaults.
const (
	defaultMemoryLimit = 4 << 30
	defaultHang        = 5 * time.Second
	minCapacityBytes   = 2 << 20 // one page of a device
)

// replayVerdict answers in one line: did it fit, and if not, why.
func replayVerdict(r *replayResult) string {
	e := r.Exact
	switch {
	case e.ViolationsTotal > 0:
		return fmt.Sprintf("FINDING: %s broke a check %d times: %s", r.Strategy, e.ViolationsTotal, firstViolation(e))
	case e.FirstFailure != nil:
		f := e.FirstFailure
		return fmt.Sprintf("FAILED: %s could not place %s at event %d (h%d): %s; %d of %d allocations failed",
			r.Strategy, results.Bytes(f.SizeBytes), f.Event, f.Handle, r.why(f), e.Allocs.Attempted-e.Allocs.OK-e.Allocs.Recovered, e.Allocs.Attempted)
	}
	if e.Allocs.Attempted == 0 {
		return "OK: the recording has no allocation to place"
	}
	return fmt.Sprintf("OK: %s placed all %d allocations in %s (peak live %s, peak reserved %s)", r.Strategy, e.Allocs.Attempted,
		results.Bytes(r.CapacityBytes), results.Bytes(e.Peak.LiveBytes), results.Bytes(e.Peak.ReservedBytes))
}

// refusedAsRecorded reports whether an allocation failed since the recorded device was asked for what the recording never saw.
func (r *replayResult) refusedAsRecorded() bool {
	f := r.Exact.FirstFailure
	return r.Backend == "recorded" && f != nil && f.Cure == ledger.CureNone && f.DeviceFreeBytes >= f.SizeBytes
}

func (r *replayResult) why(f *ledger.Failure) string {
	if r.refusedAsRecorded() {
		return "the recording has no such device call"
	}
	return whyFailed(f)
}

func firstViolation(e *ledger.Exact) string {
	if len(e.Violations) == 0 {
		return ""
	}
	return e.Violations[0].String()
}

// whyFailed says whether the bytes were there, and what would have cured it.
func whyFailed(f *ledger.Failure) string {
	free := fmt.Sprintf("%s free in reserved memory (largest piece %s), %s free on the device", results.Bytes(f.FreeBytes),
		results.Bytes(f.LargestFreeBytes), results.Bytes(f.DeviceFreeBytes))
	switch f.Cure {
	case ledger.CureMissed:
		return "spurious, a free piece would have served as things stood; " + free
	case ledger.CureWaiting:
		return "spurious, waiting for pending frees would have cured it; " + free
	case ledger.CureDropCaches:
		return "spurious, giving cached segments back would have cured it; " + free
	case ledger.CureCompaction:
		return "spurious, only moving live blocks would have cured it; " + free
	}
	if waste := f.GrantedBytes - min(f.GrantedBytes, f.LiveBytes); waste >= f.SizeBytes {
		return fmt.Sprintf("blocks hold %s more than was asked for (internal fragmentation); %s", results.Bytes(waste), free)
	}
	if f.SizeBytes > f.DeviceBytes+f.DeviceFreeBytes {
		return "the request is larger than the whole device; " + free
	}
	return "the memory was really used up; " + free
}

func printReplay(w io.Writer, r *replayResult) error {
	var b strings.Builder
	e := r.Exact
	b.WriteString(r.Verdict + "\n\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-24s "+format+"\n", append([]any{name}, args...)...)
	}
	line("recording", "%s, %d events, lower bound %s", r.Trace, e.Events, results.Bytes(r.LowerBound))
	line("strategy", "%s %s over %s of %s", r.Strategy, r.Options, r.Backend, results.Bytes(r.CapacityBytes))
	if r.Settings != nil {
		line("settings", "%s", r.Settings)
	}
	a := &e.Allocs
	line("success", "%.4f by count, %.4f by bytes (%d ok, %d recovered, %d failed, %d spilled, %d refused)", a.SuccessRate, a.SuccessBytesRate,
		a.OK, a.Recovered, a.Failed, a.Spilled, a.Refused)
	if e.Spurious.Total > 0 {
		line("spurious failures", "%d: %d would have served as things stood, %d by waiting, %d by dropping caches, %d by compaction", e.Spurious.Total,
			e.Spurious.NoneNeeded, e.Spurious.Waiting, e.Spurious.DropCaches, e.Spurious.Compaction)
	}
	line("peak", "live %s, reserved %s, device %s; reserved overhead %.4f", results.Bytes(e.Peak.LiveBytes), results.Bytes(e.Peak.ReservedBytes),
		results.Bytes(e.Peak.DeviceBytes), e.Peak.ReservedOverhead)
	line("external fragmentation", "%.4f weighted by %s, %.4f at the peak, %.4f at most", e.Fragmentation.ExternalWeighted, e.Fragmentation.WeightedBy,
		e.Fragmentation.ExternalAtPeak.Value, e.Fragmentation.ExternalMax)
	line("internal fragmentation", "%.4f weighted, %.4f at the peak", e.Fragmentation.InternalWeighted, e.Fragmentation.InternalAtPeak.Value)
	line("device calls", "%d (%.1f per 1,000 events)", e.Device.Calls, e.Device.CallsPerThousandEvents)
	for _, k := range e.Device.ByKind {
		line("", "%s: %d, %d failed, %s", k.Kind, k.Count, k.Failed, results.Bytes(k.SizeBytes))
	}
	if r.Timed != nil {
		line("policy latency", "%s", latencyText(&r.Timed.Policy.All))
	}
	if e.DeviceLatency != nil {
		kind := "modelled"
		if r.Uncalibrated {
			kind = "modelled, uncalibrated: from published figures that were not measured on this device"
		}
		line("device latency", "%s (%s)", latencyText(e.DeviceLatency), kind)
	}
	writeFailure(&b, e)
	for _, v := range e.Violations {
		b.WriteString("\n" + v.String() + "\n")
		if v.Map != "" {
			b.WriteString(v.Map + "\n")
		}
	}
	if len(r.Warnings) > 0 {
		b.WriteString("\nWarnings:\n")
		for _, x := range r.Warnings {
			b.WriteString("  - " + x + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFailure tells of the first failure and of the live blocks that hold the largest segments hostage.
func writeFailure(b *strings.Builder, e *ledger.Exact) {
	if f := e.FirstFailure; f != nil {
		fmt.Fprintf(b, "\nFirst failure: event %d, h%d, %s%s\n", f.Event, f.Handle, results.Bytes(f.SizeBytes), inTag(f.Tag))
		fmt.Fprintf(b, "  live %s, reserved %s, free inside %s (largest piece %s), pending %s, free on the device %s\n", results.Bytes(f.LiveBytes),
			results.Bytes(f.ReservedBytes), results.Bytes(f.FreeBytes), results.Bytes(f.LargestFreeBytes), results.Bytes(f.PendingBytes), results.Bytes(f.DeviceFreeBytes))
	}
	h := e.Hostages
	if h == nil || len(h.Segments) == 0 {
		return
	}
	fmt.Fprintf(b, "\nHostages at the %s (smallest live block of the segments with most free bytes):\n", h.When)
	for _, s := range h.Segments {
		fmt.Fprintf(b, "  segment 0x%x of %s, %s live: held by h%d of %s%s\n", s.SegmentAddr, results.Bytes(s.SegmentBytes), results.Bytes(s.LiveBytes),
			s.Handle, results.Bytes(s.BlockBytes), inTag(s.Tag))
	}
}

func inTag(tag string) string {
	if tag == "" {
		return ""
	}
	return " (" + tag + ")"
}

func latencyText(l *ledger.Latency) string {
	if l.Samples == 0 {
		return "no samples"
	}
	q := func(q ledger.Quantile) string {
		if q.OK() {
			return results.Ns(q.Ns)
		}
		return "refused"
	}
	return fmt.Sprintf("mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s, max %s", results.Ns(l.MeanNs), q(l.P50), q(l.P90), q(l.P99), q(l.P999), results.Ns(l.MaxNs))
}

// minimizeTrace prints the shortest trace that still fails.
func minimizeTrace(cmd *cobra.Command, one *single, dir string) error {
	path := filepath.Join(dir, "candidate.trace")
	var open *loaded
	t, err := one.runner.Minimize(cmd.Context(), &one.c, func(t *trace.Trace) (harness.Recording, error) {
		if open != nil {
			_ = open.closer.Close()
		}
		_ = os.Remove(path) // the plugin may still map the old one
		if err := trace.WriteFile(path, t); err != nil {
			return harness.Recording{}, err
		}
		l, err := openLoaded(path)
		if err != nil {
			return harness.Recording{}, err
		}
		open = l
		return l.Recording, nil
	})
	if open != nil {
		_ = open.closer.Close()
	}
	if err != nil {
		return one.classify(err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d events still fail (of %d); run: gpubench replay FILE --strategy %s --backend %s --capacity %dB --expect success\n",
		len(t.Events), len(one.rec.Trace.Events), one.cont.Strategy, one.c.Backend, one.c.CapacityBytes)
	return trace.Format(cmd.OutOrStdout(), t)
}
