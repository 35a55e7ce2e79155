package harness

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/results"
)

// quietSample is a healthy data centre card at work.
func quietSample() map[string]float64 {
	return map[string]float64{"memory_total_bytes": 80 << 30, "memory_used_bytes": 1 << 30, "clock_sm_mhz": 1980, "clock_event_reasons": 0,
		"temperature_celsius": 45, "power_watts": 300, "ecc_uncorrected_total": 0, "ecc_corrected_total": 0, "remapped_rows_pending": 0,
		"remapped_rows_failed": 0, "pcie_replays_total": 0, "violation_power_ns": 0, "violation_thermal_ns": 0, "processes_count": 1, "process_100_bytes": 1 << 30}
}

// without drops readings and puts their state in place of them.
func without(state string, names ...string) map[string]float64 {
	v := quietSample()
	for _, n := range names {
		delete(v, n)
		v[n+"."+state] = 1
	}
	return v
}

func with(changes map[string]float64) map[string]float64 {
	v := quietSample()
	maps.Copy(v, changes)
	return v
}

func own(pid uint64) (bool, bool) { return pid == 100, pid != 999 }

func TestQualify(t *testing.T) {
	cards := map[string]map[string]string{
		"A100": {"clock_sm_max_mhz": "1410"}, "H100": {"clock_sm_max_mhz": "1980", "clock_sm_application_mhz": "not_supported"},
		"H200": {"clock_sm_max_mhz": "1980"}, "B200": {"clock_sm_max_mhz": "1965"},
	}
	for name, facts := range cards {
		q := Qualify(&Hardware{UUID: "GPU-1", Facts: facts, Own: own, Samples: []HardwareSample{{1, quietSample()}, {2, quietSample()}}})
		if q.Grade != results.GradeClean || len(q.Reasons) != 0 || len(q.Unchecked) != 0 || q.Samples != 2 || q.Device != "GPU-1" {
			t.Errorf("a healthy %s: %+v", name, q)
		}
	}
	h100 := cards["H100"]
	for _, c := range []struct {
		name      string
		last      map[string]float64
		grade     results.Grade
		rules     string
		text      string
		unchecked int
	}{
		{"idle between operations", with(map[string]float64{"clock_event_reasons": 1, "clock_sm_mhz": 345}), "clean", "", "", 0},
		{"uncorrectable error", with(map[string]float64{"ecc_uncorrected_total": 2}), "void", "ecc-uncorrected", "2 uncorrectable ECC errors during the trial", 0},
		{"corrected error", with(map[string]float64{"ecc_corrected_total": 1}), "tainted", "ecc-corrected", "1 corrected", 0},
		{"row remapping", with(map[string]float64{"remapped_rows_pending": 1}), "void", "row-remap-pending", "reset the GPU", 0},
		{"broken row", with(map[string]float64{"remapped_rows_failed": 1}), "void", "row-remap-failed", "service", 0},
		{"heat in hardware", with(map[string]float64{"clock_event_reasons": 0x48}), "void", "hw-slowdown", "1 of 2 samples (event reasons 0x48)", 0},
		{"low clock", with(map[string]float64{"clock_sm_mhz": 1484}), "void", "clock-low", "down to 1484 of 1980 MHz", 0},
		{"clock at the limit", with(map[string]float64{"clock_sm_mhz": 1485}), "clean", "", "", 0},
		{"power cap", with(map[string]float64{"clock_event_reasons": 4}), "tainted", "power-cap", "1 of 2", 0},
		{"software thermal", with(map[string]float64{"clock_event_reasons": 0x20}), "tainted", "sw-thermal", "", 0},
		{"sync boost", with(map[string]float64{"clock_event_reasons": 0x10}), "tainted", "clock-limited", "", 0},
		{"warming up", with(map[string]float64{"temperature_celsius": 56}), "tainted", "temperature-drift", "from 45 to 56", 0},
		{"warm enough", with(map[string]float64{"temperature_celsius": 55}), "clean", "", "", 0},
		{"link errors", with(map[string]float64{"pcie_replays_total": 3}), "tainted", "pcie-replays", "3 PCIe replays", 0},
		{"violation", with(map[string]float64{"violation_thermal_ns": 5e6}), "tainted", "violations", "violation_thermal_ns rose by 5000000", 0},
		{"neighbour", with(map[string]float64{"process_4242_bytes": 1}), "void", "foreign-process", "process 4242", 0},
		{"neighbour of unknown size", with(map[string]float64{"process_4242_bytes.not_supported": 1}), "void", "foreign-process", "process 4242", 0},
		{"process of another namespace", with(map[string]float64{"process_999_bytes": 1}), "clean", "", "", 0},
		{"lost", with(map[string]float64{"power_watts.lost": 1}), "void", "device-lost", "power_watts", 0},
		{"library hangs", with(map[string]float64{"power_watts.hung": 1}), "tainted", "telemetry-hung", "power_watts: hung", 0},
		{"nonsense", without("implausible", "memory_used_bytes"), "tainted", "implausible", "memory_used_bytes", 0},
		{"two at once", with(map[string]float64{"clock_event_reasons": 4, "ecc_uncorrected_total": 1}), "void", "ecc-uncorrected power-cap", "", 0},
	} {
		q := Qualify(&Hardware{UUID: "GPU-1", Facts: h100, Own: own, Samples: []HardwareSample{{1, quietSample()}, {2, c.last}}})
		var rules []string
		for _, r := range q.Reasons {
			rules = append(rules, r.Rule)
		}
		if q.Grade != c.grade || strings.Join(rules, " ") != c.rules || len(q.Unchecked) != c.unchecked {
			t.Errorf("%s: %+v, want %s by %q", c.name, q, c.grade, c.rules)
		} else if c.text != "" && !strings.Contains(q.Reasons[0].Text, c.text) {
			t.Errorf("%s: %q, want %q in it", c.name, q.Reasons[0].Text, c.text)
		}
	}
}

func TestQualifyWhatADeviceDoesNotTell(t *testing.T) {
	gb10 := without("not_supported", "ecc_uncorrected_total", "ecc_corrected_total", "remapped_rows_pending", "remapped_rows_failed")
	gb10["memory.unified"] = 1
	instance := without("not_supported", "clock_sm_mhz", "clock_event_reasons", "temperature_celsius", "pcie_replays_total", "violation_power_ns")
	for _, c := range []struct {
		name      string
		v         map[string]float64
		unchecked []string
	}{
		{"GB10", gb10, []string{"ecc-uncorrected: ecc_uncorrected_total not supported", "ecc-earlier: ecc_uncorrected_total not supported", "ecc-corrected: ecc_corrected_total not supported",
			"row-remap-pending: remapped_rows_pending not supported", "row-remap-failed: remapped_rows_failed not supported"}},
		{"MIG instance", instance, []string{"hw-slowdown: clock_event_reasons not supported", "clock-low: clock_sm_mhz not supported", "power-cap: clock_event_reasons not supported",
			"sw-thermal: clock_event_reasons not supported", "clock-limited: clock_event_reasons not supported", "temperature-drift: temperature_celsius not supported",
			"pcie-replays: pcie_replays_total not supported", "violations: violation_power_ns not supported"}},
	} {
		q := Qualify(&Hardware{Own: own, Samples: []HardwareSample{{1, c.v}, {2, c.v}}})
		if q.Grade != results.GradeClean || !slices.Equal(q.Unchecked, c.unchecked) {
			t.Errorf("%s: %s, unchecked %q", c.name, q.Grade, q.Unchecked)
		}
	}
	// The parent of an instance is judged with its own readings, where the instance has none.
	if q := Qualify(&Hardware{Own: own, Samples: []HardwareSample{{1, quietSample()}, {2, with(map[string]float64{"clock_event_reasons": 8})}}}); q.Grade != results.GradeVoid {
		t.Errorf("MIG parent: %+v", q)
	}
	if q := Qualify(&Hardware{UUID: "GPU-1"}); q.Grade != results.GradeTainted || len(q.Reasons) != 1 || q.Reasons[0].Rule != "watched" {
		t.Errorf("without samples: %+v", q)
	}
	earlier := with(map[string]float64{"ecc_uncorrected_total": 1})
	if q := Qualify(&Hardware{Own: own, Samples: []HardwareSample{{1, earlier}, {2, earlier}}}); q.Grade != results.GradeTainted || q.Reasons[0].Rule != "ecc-earlier" {
		t.Errorf("an old error: %+v", q)
	}
	if q := Qualify(&Hardware{Samples: []HardwareSample{{1, quietSample()}}}); len(q.Unchecked) != 1 {
		t.Errorf("unknown processes: %+v", q)
	}
}

func TestRulesAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range QualifyRules() {
		if r.Name == "" || r.Why == "" || r.check == nil || seen[r.Name] || r.Grade == results.GradeClean {
			t.Errorf("rule %+v", r)
		}
		seen[r.Name] = true
	}
}

// scriptedWatcher judges trials by a list.
type scriptedWatcher struct {
	grades []results.Grade
	n      int
}

func (w *scriptedWatcher) Begin() func() *results.Qualification {
	return func() *results.Qualification {
		g := w.grades[w.n]
		w.n++
		q := &results.Qualification{Grade: g}
		if g != results.GradeClean {
			q.Reasons = []results.GradeReason{{Rule: "hw-slowdown", Grade: g, Text: "hot"}}
		}
		return q
	}
}

func TestVoidTrialsAreRepeated(t *testing.T) {
	for _, c := range []struct {
		grades   []results.Grade
		status   results.TrialStatus
		grade    results.Grade
		warnings int
	}{
		{[]results.Grade{"clean"}, results.TrialOK, "clean", 0},
		{[]results.Grade{"tainted"}, results.TrialOK, "tainted", 1},              // its reason
		{[]results.Grade{"void", "void", "clean"}, results.TrialOK, "clean", 1},  // that two came before
		{[]results.Grade{"void", "tainted"}, results.TrialOK, "tainted", 2},      // both
		{[]results.Grade{"void", "void", "void"}, results.TrialError, "void", 0}, // given up
	} {
		w := &scriptedWatcher{grades: c.grades}
		got, curves, err := watched(w, func() (*results.Trial, *results.Curves, error) {
			return &results.Trial{Status: results.TrialOK, ExactHash: "h"}, &results.Curves{}, nil
		})
		if err != nil || got.Status != c.status || got.Qualification.Grade != c.grade || w.n != len(c.grades) || len(got.Warnings) != c.warnings {
			t.Errorf("%v: %+v, %v after %d trials", c.grades, got, err, w.n)
		}
		if c.status == results.TrialError && (got.ExactHash != "" || curves != nil || got.Fault.Class != FaultVoid ||
			got.Fault.Text != "void 3 times because of the hardware's state: hw-slowdown: hot") {
			t.Errorf("%v: %+v: the figures of a void trial are kept", c.grades, got.Fault)
		}
	}
	broken := errors.New("cancelled")
	_, _, err := watched(&scriptedWatcher{grades: []results.Grade{"clean"}}, func() (*results.Trial, *results.Curves, error) { return nil, nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
}
