// Package conformtest replays synthetic traces of every pattern through the real replay loop and lets the ledger, which takes no
// strategy's word, check every outcome, device call and statement about blocks. The tests of the strategies share it.
package conformtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/synth"
)

// minDeviceBytes is the smallest device that a pattern is replayed on: a few segments of any strategy.
const minDeviceBytes = 64 << 20

// Patterns replays events of every synthetic pattern with each of the options, on a device of three times the most live bytes,
// on one of 80 %, where requests must fail, and on one in between.
func Patterns(t *testing.T, desc sdk.Description, events uint64, options ...string) {
	t.Helper()
	for _, pattern := range synth.Patterns() {
		tr, err := synth.Build(synth.Options{Pattern: pattern.Name, Events: events, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		need := trace.Describe(tr).Live.BytesMax
		for _, o := range options {
			for _, percent := range []uint64{300, 110, 80} {
				t.Run(fmt.Sprintf("%s/%s/%d%%", pattern.Name, o, percent), func(t *testing.T) {
					Replay(t, desc, tr, o, max(need*percent/100, minDeviceBytes))
				})
			}
		}
	}
}

// Replay replays one trace on an ideal device of total bytes, fails the test at the first breach of a safety check, and
// returns the ledger's report and the strategy's last picture of itself, empty when it shows none.
func Replay(t testing.TB, desc sdk.Description, tr *trace.Trace, options string, total uint64) (ledger.Report, sdk.Inspection) {
	t.Helper()
	total = (total + ideal.PageBytes - 1) / ideal.PageBytes * ideal.PageBytes
	if err := sdk.CheckOptions(desc.Options, json.RawMessage(options)); err != nil {
		t.Fatal(err)
	}
	r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &desc, Options: json.RawMessage(options), Trace: tr,
		OpenDevice: func() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: total}) }})
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: 1 << 12, CallCapacity: 1 << 14})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(ledger.Config{Extras: tr.Extras, Strings: tr.Strings, DeviceTotalBytes: total,
		DevicePageBytes: ideal.PageBytes, AlignmentBytes: desc.Alignment, MemInfoExact: true,
		IgnoreStreams: !slices.Contains(desc.Promises, sdk.PromiseStreamSafe)})
	feed(t, r, w, l, tr)
	var in sdk.Inspection
	if in, err = r.Inspect(); err != nil && !errors.Is(err, sdk.ErrNoInspect) {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rep := l.Finish()
	if rep.Exact.ViolationsTotal > 0 {
		t.Fatalf("%d breaches, the first: %+v", rep.Exact.ViolationsTotal, rep.Exact.Violations[0])
	}
	return rep, in
}

func feed(t testing.TB, r *sdk.Runner, w *wire.Window, l *ledger.Ledger, tr *trace.Trace) {
	reader := w.Reader()
	for {
		first := r.Next()
		if _, err := r.Replay(w, first, 1<<40, false); err != nil {
			t.Fatal(err)
		}
		d, err := reader.Drain(first)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(len(d.Outcomes))
		for i := range d.Outcomes {
			ev := &tr.Events[first+uint64(i)]
			switch st := d.Outcomes[i].Status; {
			case st == trace.StatusUnsupported && !ev.Kind.NamesHandle(): // an operation that the strategy does not have
			case st == trace.StatusError, st == trace.StatusUnsupported, st == trace.StatusInvalid:
				t.Fatalf("event %d %+v: %v", first+uint64(i), *ev, st)
			}
		}
		if err := l.Feed(first, tr.Events[first:first+n], nil, d.Outcomes, d.Calls); err != nil {
			t.Fatal(err)
		}
		if d.Summary.Reason == wire.StopEnd {
			return
		}
	}
}
