package harness

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/results"
)

// Hardware is what telemetry saw of one device during a trial.
type Hardware struct {
	UUID    string
	Facts   map[string]string // of the fingerprint
	Samples []HardwareSample  // in the order of time; the first from before the trial, the last from after it
	// Own tells the processes of this run from others; known is false where the number says nothing (another namespace). nil knows none.
	Own func(pid uint64) (own, known bool)
}

// HardwareSample is one sample: readings by name; one that could not be had stands as NAME.STATE = 1.
type HardwareSample struct {
	UnixNs int64
	Values map[string]float64
}

// Limits of the rules.
const (
	// clockShareMin: below 75 % of the clock that was asked for, a sample says that the device was held back (nvbench
	// discards such measurements: nvbench/detail/gpu_frequency.cuh).
	clockShareMin = 0.75
	// temperatureDriftMax in °C: leakage and boost clocks follow the temperature; 10 °C is some percent of the clock.
	temperatureDriftMax = 10
)

// Bits of the clock event reasons (nvml.h, nvmlClocksEventReasons).
const (
	reasonIdle         = 0x1
	reasonSWPowerCap   = 0x4
	reasonHWSlowdown   = 0x8
	reasonSyncBoost    = 0x10
	reasonSWThermal    = 0x20
	reasonHWThermal    = 0x40
	reasonHWPowerBrake = 0x80
	reasonBoardLimit   = 0x200
	reasonReliability  = 0x400
)

// QualifyRule is one rule. Rules are data: the documentation and the reasons in results come from them.
type QualifyRule struct {
	Name  string
	Grade results.Grade // of a trial that breaks it
	Why   string
	needs string // the reading without which it cannot be checked; "" = it always can
	check func(h *Hardware) (text string, broken bool)
}

// QualifyRules are all rules, in the order in which reasons are listed.
func QualifyRules() []QualifyRule {
	void, tainted := results.GradeVoid, results.GradeTainted
	return []QualifyRule{
		{"watched", tainted, "without samples nothing is known of the trial", "", notWatched},
		{"device-lost", void, "the GPU fell off the bus or must be reset", "", anyState("lost")},
		{"telemetry-hung", tainted, "the management library did not answer: the trial was not watched throughout", "", anyState("hung")},
		{"ecc-uncorrected", void, "memory gave wrong data during the trial", "ecc_uncorrected_total", rises("ecc_uncorrected_total", "uncorrectable ECC errors")},
		{"ecc-earlier", tainted, "memory gave wrong data since the driver was loaded", "ecc_uncorrected_total", notZeroAtStart("ecc_uncorrected_total", "uncorrectable ECC errors before the trial")},
		{"ecc-corrected", tainted, "corrections cost time", "ecc_corrected_total", rises("ecc_corrected_total", "corrected ECC errors")},
		{"row-remap-pending", void, "a row of memory waits to be replaced at the next reset", "remapped_rows_pending", flag("remapped_rows_pending", "a row remapping is pending: reset the GPU")},
		{"row-remap-failed", void, "a broken row could not be replaced", "remapped_rows_failed", flag("remapped_rows_failed", "a row remapping failed: the GPU needs service")},
		{"foreign-process", void, "another program used the device", "processes_count", foreignProcess},
		{"hw-slowdown", void, "the hardware halved the clocks or worse: heat, power brake", "clock_event_reasons", reasons(reasonHWSlowdown | reasonHWThermal | reasonHWPowerBrake)},
		{"clock-low", void, "the SM clock was below 75 % of what was asked for, while the device worked", "clock_sm_mhz", clockLow},
		{"power-cap", tainted, "the power limit held the clocks back", "clock_event_reasons", reasons(reasonSWPowerCap)},
		{"sw-thermal", tainted, "the driver held the clocks back because of heat", "clock_event_reasons", reasons(reasonSWThermal)},
		{"clock-limited", tainted, "sync boost, board limit or reliability held the clocks back", "clock_event_reasons", reasons(reasonSyncBoost | reasonBoardLimit | reasonReliability)},
		{"temperature-drift", tainted, "clocks follow the temperature", "temperature_celsius", temperatureDrift},
		{"pcie-replays", tainted, "the link repeated packets: copies take longer", "pcie_replays_total", rises("pcie_replays_total", "PCIe replays")},
		{"violations", tainted, "the driver counted time at reduced clocks", "violation_power_ns", violations},
		{"implausible", tainted, "the management library gives values that cannot be", "", anyState("implausible")},
	}
}

// Qualify judges a trial by the rules. A reading that the device does not offer makes its rules unchecked, not broken.
func Qualify(h *Hardware) *results.Qualification {
	q := &results.Qualification{Grade: results.GradeClean, Device: h.UUID, Samples: len(h.Samples)}
	for _, r := range QualifyRules() {
		if len(h.Samples) == 0 && r.Name != "watched" {
			break
		}
		if r.needs != "" && !h.has(r.needs) {
			q.Unchecked = append(q.Unchecked, r.Name+": "+r.needs+" "+h.stateOf(r.needs))
			continue
		}
		text, broken := r.check(h)
		if !broken {
			continue
		}
		q.Reasons = append(q.Reasons, results.GradeReason{Rule: r.Name, Grade: r.Grade, Text: text})
		if r.Grade == results.GradeVoid || q.Grade == results.GradeClean {
			q.Grade = r.Grade
		}
	}
	if h.Own == nil && len(h.Samples) > 0 {
		q.Unchecked = append(q.Unchecked, "foreign-process: the processes of this run are not known")
	}
	return q
}

// has reports whether some sample has the reading.
func (h *Hardware) has(name string) bool {
	for _, s := range h.Samples {
		if _, ok := s.Values[name]; ok {
			return true
		}
	}
	return false
}

// stateOf names why a reading is not there.
func (h *Hardware) stateOf(name string) string {
	for _, s := range h.Samples {
		for key := range s.Values {
			if state, ok := strings.CutPrefix(key, name+"."); ok {
				return strings.ReplaceAll(state, "_", " ")
			}
		}
	}
	return "not reported"
}

func notWatched(h *Hardware) (string, bool) {
	return "there is no sample of the device during the trial", len(h.Samples) == 0
}

// anyState is broken by a reading in that state; it names the first by name.
func anyState(state string) func(h *Hardware) (string, bool) {
	return func(h *Hardware) (string, bool) {
		var names []string
		for _, s := range h.Samples {
			for key, v := range s.Values {
				if name, ok := strings.CutSuffix(key, "."+state); ok && v == 1 {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				sort.Strings(names)
				return fmt.Sprintf("%s: %s", strings.Join(names, ", "), state), true
			}
		}
		return "", false
	}
}

// series returns the values of a reading, in order, without samples that lack it.
func (h *Hardware) series(name string) []float64 {
	var out []float64
	for _, s := range h.Samples {
		if v, ok := s.Values[name]; ok {
			out = append(out, v)
		}
	}
	return out
}

// rises is broken when a counter grew.
func rises(name, what string) func(h *Hardware) (string, bool) {
	return func(h *Hardware) (string, bool) {
		v := h.series(name)
		first, last := v[0], v[len(v)-1]
		return fmt.Sprintf("%.0f %s during the trial", last-first, what), last > first
	}
}

func notZeroAtStart(name, what string) func(h *Hardware) (string, bool) {
	return func(h *Hardware) (string, bool) {
		v := h.series(name)
		return fmt.Sprintf("%.0f %s", v[0], what), v[0] > 0
	}
}

// flag is broken when a reading of 0 or 1 was ever 1.
func flag(name, text string) func(h *Hardware) (string, bool) {
	return func(h *Hardware) (string, bool) {
		for _, v := range h.series(name) {
			if v != 0 {
				return text, true
			}
		}
		return "", false
	}
}

// reasons is broken when one of the bits was ever set.
func reasons(mask uint64) func(h *Hardware) (string, bool) {
	return func(h *Hardware) (string, bool) {
		v := h.series("clock_event_reasons")
		n, seen := 0, uint64(0)
		for _, x := range v {
			if bits := uint64(x) & mask; bits != 0 {
				n++
				seen |= bits
			}
		}
		return fmt.Sprintf("in %d of %d samples (event reasons 0x%x)", n, len(v), seen), n > 0
	}
}

// clockLow compares with the application clock where one is set, else with the highest; an idle device clocks down and is not judged.
func clockLow(h *Hardware) (string, bool) {
	asked, err := strconv.ParseFloat(h.Facts["clock_sm_application_mhz"], 64)
	if err != nil || asked == 0 {
		if asked, err = strconv.ParseFloat(h.Facts["clock_sm_max_mhz"], 64); err != nil {
			return "", false
		}
	}
	n, lowest := 0, asked
	for _, s := range h.Samples {
		mhz, ok := s.Values["clock_sm_mhz"]
		bits, known := s.Values["clock_event_reasons"]
		if !ok || !known || uint64(bits)&reasonIdle != 0 {
			continue
		}
		if mhz < clockShareMin*asked {
			n++
			lowest = min(lowest, mhz)
		}
	}
	return fmt.Sprintf("in %d of %d samples, down to %.0f of %.0f MHz", n, len(h.Samples), lowest, asked), n > 0
}

func temperatureDrift(h *Hardware) (string, bool) {
	v := h.series("temperature_celsius")
	low, high := v[0], v[0]
	for _, x := range v {
		low, high = min(low, x), max(high, x)
	}
	return fmt.Sprintf("from %.0f to %.0f °C", low, high), high-low > temperatureDriftMax
}

func violations(h *Hardware) (string, bool) {
	var list []string
	for _, name := range []string{"violation_power_ns", "violation_thermal_ns", "violation_reliability_ns"} {
		if v := h.series(name); len(v) > 0 && v[len(v)-1] > v[0] {
			list = append(list, fmt.Sprintf("%s rose by %.0f", name, v[len(v)-1]-v[0]))
		}
	}
	return strings.Join(list, ", "), len(list) > 0
}

// foreignProcess looks at the processes of every sample. A number that cannot be told is passed over.
func foreignProcess(h *Hardware) (string, bool) {
	if h.Own == nil {
		return "", false
	}
	for _, s := range h.Samples {
		var pids []uint64
		for key := range s.Values {
			rest, ok := strings.CutPrefix(key, "process_")
			if !ok {
				continue
			}
			number, _, _ := strings.Cut(rest, "_")
			if pid, err := strconv.ParseUint(number, 10, 32); err == nil {
				pids = append(pids, pid)
			}
		}
		sort.Slice(pids, func(i, j int) bool { return pids[i] < pids[j] })
		for _, pid := range pids {
			if own, known := h.Own(pid); known && !own {
				return fmt.Sprintf("process %d, which is not part of this run, used the device", pid), true
			}
		}
	}
	return "", false
}
