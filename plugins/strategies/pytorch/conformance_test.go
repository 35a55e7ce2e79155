package pytorch_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/synth"
)

// TestConformance sends synthetic traces of every pattern through the replay loop and lets the ledger, which takes no
// strategy's word, check every outcome and device call: on a device with room and on one that is too small.
func TestConformance(t *testing.T) {
	for _, pattern := range synth.Patterns() {
		tr, err := synth.Build(synth.Options{Pattern: pattern.Name, Events: 4000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		need := trace.Describe(tr).Live.BytesMax
		for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:8"} {
			for _, percent := range []uint64{300, 80} {
				t.Run(fmt.Sprintf("%s/%s/%d%%", pattern.Name, conf, percent), func(t *testing.T) {
					conform(t, tr, conf, max(need*percent/100, 64<<20))
				})
			}
		}
	}
}

func conform(t *testing.T, tr *trace.Trace, conf string, total uint64) {
	t.Helper()
	desc := pytorch.Description()
	opts, err := json.Marshal(map[string]string{"conf": conf})
	if err != nil {
		t.Fatal(err)
	}
	if err := sdk.CheckOptions(desc.Options, opts); err != nil {
		t.Fatal(err)
	}
	r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &desc, Options: opts, Trace: tr,
		OpenDevice: func() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: total}) }})
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: 1 << 12, CallCapacity: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(ledger.Config{Extras: tr.Extras, Strings: tr.Strings, DeviceTotalBytes: total,
		DevicePageBytes: ideal.PageBytes, AlignmentBytes: desc.Alignment, MemInfoExact: true})
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
			switch st := d.Outcomes[i].Status; st {
			case trace.StatusError, trace.StatusUnsupported, trace.StatusInvalid:
				t.Fatalf("event %d %+v: %v", first+uint64(i), tr.Events[first+uint64(i)], st)
			}
		}
		if err := l.Feed(first, tr.Events[first:first+n], nil, d.Outcomes, d.Calls); err != nil {
			t.Fatal(err)
		}
		if d.Summary.Reason == wire.StopEnd {
			break
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rep := l.Finish()
	if rep.Exact.ViolationsTotal > 0 {
		t.Fatalf("%d breaches, the first: %+v", rep.Exact.ViolationsTotal, rep.Exact.Violations[0])
	}
}
