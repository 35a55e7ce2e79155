package results

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/gpubench/gpubench/results/stats"
)

// rankTolerance is the relative difference below which two counted values are the same place: they are sums and quotients of
// integers in float64, so equal answers may differ in the last bits.
const rankTolerance = 1e-9

// ClassBlind marks a deliberately wrong strategy that no check caught: the checks were blind.
const ClassBlind = "blind"

// confidence is the level asked of an interval of a latency; what few trials can reach is shown beside it.
const confidence = 0.95

// Rank makes the ranking of a run from its trials. It is a pure function: the same directory always gives the same ranking.
func Rank(run *Run, trials []Trial, weights *Weights) *Ranking {
	r := &Ranking{Schema: SchemaVersion, RunID: run.ID, TrialsDone: len(trials), TrialsAll: len(run.Order), Weights: weights,
		Warnings: append([]string{}, run.Warnings...), Findings: []Disqualified{}}
	r.Complete = r.TrialsDone >= r.TrialsAll
	if !r.Complete {
		r.Warnings = append(r.Warnings, fmt.Sprintf("only %d of %d planned trials are done: this ranking is preliminary", r.TrialsDone, r.TrialsAll))
	}
	if run.Device.Uncalibrated {
		r.Warnings = append(r.Warnings, "device times are modelled from published figures that were not measured on "+run.Device.Name+" (uncalibrated): compare them with each other, not with a clock")
	}
	r.Warnings = append(r.Warnings, run.Environment.Warnings...)
	byCase := map[string][]*Trial{}
	for i := range trials {
		byCase[trials[i].Case] = append(byCase[trials[i].Case], &trials[i])
	}
	for ti := range run.Traces {
		t := rankTrace(run, ti, byCase)
		r.Findings = append(r.Findings, t.Disqualified...)
		r.Traces = append(r.Traces, t)
	}
	if weights != nil {
		score(r, weights)
	}
	if len(r.Traces) > 1 {
		r.Across = across(r.Traces)
	}
	r.Verdict = verdict(r)
	return r
}

// contest is one strategy on one trace: its cases and their trials.
type contest struct {
	label         string
	device, tight *Case
	deviceTrials  []*Trial
	tightTrials   []*Trial
	controlTrials []*Trial
}

func contests(run *Run, ti int, byCase map[string][]*Trial) []*contest {
	var list []*contest
	byLabel := map[string]*contest{}
	for i := range run.Cases {
		c := &run.Cases[i]
		if c.Trace != ti {
			continue
		}
		k := byLabel[c.Label]
		if k == nil {
			k = &contest{label: c.Label}
			byLabel[c.Label] = k
			list = append(list, k)
		}
		switch {
		case c.Control:
			k.controlTrials = byCase[c.ID]
		case c.Scope == ScopeTight:
			k.tight, k.tightTrials = c, byCase[c.ID]
		default:
			k.device, k.deviceTrials = c, byCase[c.ID]
		}
	}
	return list
}

func rankTrace(run *Run, ti int, byCase map[string][]*Trial) TraceRanking {
	facts := &run.Traces[ti]
	t := TraceRanking{Trace: facts.Name, SHA256: facts.SHA256, LowerBoundBytes: facts.LowerBoundBytes, Bounds: facts.Bounds, DeviceBytes: run.Device.CapacityBytes,
		Rows: []Row{}, Disqualified: []Disqualified{}, Unmeasured: []Unmeasured{}, Warnings: append([]string{}, facts.Warnings...)}
	t.LatencyBasis = "mean of an event, policy + device time, of loops without a clock around each event"
	for _, k := range contests(run, ti, byCase) {
		if k.tight != nil {
			t.TightBytes = k.tight.CapacityBytes
		}
		if d, bad := disqualify(run, facts.Name, k); bad {
			t.Disqualified = append(t.Disqualified, d)
			continue
		}
		if u, bad := unmeasured(k); bad {
			t.Unmeasured = append(t.Unmeasured, u)
			continue
		}
		if len(k.deviceTrials) == 0 {
			continue // not run yet
		}
		if k.device.Canary {
			t.Unmeasured = append(t.Unmeasured, Unmeasured{Label: k.label, Case: k.device.ID, Class: ClassBlind, Text: "the canary was not caught"})
			t.Warnings = append(t.Warnings, "the canary "+k.label+" was not caught on this recording (it may be too short): that the others have no finding says nothing here")
			continue
		}
		t.Rows = append(t.Rows, makeRow(k))
		if len(k.controlTrials) > 0 {
			noiseFloor(&t, k)
		}
	}
	placeRows(&t)
	warnRefused(&t)
	return t
}

// disqualify reports a strategy with a violation, or one that answered the same case in two ways.
func disqualify(run *Run, traceName string, k *contest) (Disqualified, bool) {
	for _, group := range [][]*Trial{k.deviceTrials, k.tightTrials, k.controlTrials} {
		for i, t := range group {
			c := k.device
			if c == nil {
				c = k.tight
			}
			d := Disqualified{Label: k.label, Strategy: c.Strategy, Trace: traceName, Case: t.Case, Canary: c.Canary,
				Next: replayCommand(run, c)}
			if t.Exact != nil && t.Exact.ViolationsTotal > 0 {
				d.Count = t.Exact.ViolationsTotal
				for _, v := range t.Exact.Violations {
					d.Violations = append(d.Violations, v.String())
				}
				if len(t.Exact.Violations) > 0 {
					d.Finding, d.Map = t.Exact.Violations[0].String(), t.Exact.Violations[0].Map
				}
				return d, true
			}
			if i > 0 && t.ExactHash != group[0].ExactHash && t.Status == TrialOK && group[0].Status == TrialOK {
				d.Count = 1
				d.Finding = fmt.Sprintf("O10 nondeterminism: trials %s and %s of the same case differ in exact metrics", group[0].ID, t.ID)
				return d, true
			}
		}
	}
	return Disqualified{}, false
}

func replayCommand(run *Run, c *Case) string {
	path := run.Traces[c.Trace].Path
	cmd := fmt.Sprintf("gpubench replay %s --strategy %s --backend %s --capacity %dB", path, c.Strategy, c.Backend, c.CapacityBytes)
	if len(c.Options) > 0 && string(c.Options) != "{}" {
		cmd += " --options '" + string(c.Options) + "'"
	}
	return cmd
}

func unmeasured(k *contest) (Unmeasured, bool) {
	for _, group := range [][]*Trial{k.tightTrials, k.deviceTrials} {
		for _, t := range group {
			if t.Status != TrialOK && t.Fault != nil {
				return Unmeasured{Label: k.label, Case: t.Case, Class: t.Fault.Class, Text: t.Fault.Text}, true
			}
		}
	}
	return Unmeasured{}, false
}

func makeRow(k *contest) Row {
	exact := k.deviceTrials[0].Exact
	judged := exact
	r := Row{Label: k.label, Strategy: k.device.Strategy, Trials: len(k.deviceTrials), Deviations: k.device.Deviations}
	if len(k.tightTrials) > 0 {
		judged = k.tightTrials[0].Exact
	} else if k.tight != nil {
		r.Warnings = append(r.Warnings, "the tight capacity was not run yet: success and fragmentation are those of the whole device")
	}
	r.Success = counted(judged.Allocs.SuccessRate)
	r.Fragmentation = counted(judged.Fragmentation.ExternalWeighted)
	r.Recovered, r.Failed, r.Spilled, r.Refused = judged.Allocs.Recovered, judged.Allocs.Failed, judged.Allocs.Spilled, judged.Allocs.Refused
	r.Spurious = judged.Spurious.Total
	if judged.FirstFailure != nil {
		e := judged.FirstFailure.Event
		r.FirstFailureEvent = &e
	}
	r.SuccessAtDevice = exact.Allocs.SuccessRate
	r.ReservedOverhead, r.InternalWeighted = judged.Peak.ReservedOverhead, judged.Fragmentation.InternalWeighted
	r.PeakReservedBytes, r.DeviceCallsPer1000 = exact.Peak.ReservedBytes, exact.Device.CallsPerThousandEvents
	r.Latency = latencyOf(k.deviceTrials)
	fillQuantiles(&r, k.deviceTrials)
	r.Warnings = append(r.Warnings, trialWarnings(k)...)
	return r
}

func counted(v float64) Metric { return Metric{Value: v, Low: v, High: v, Exact: true} }

// latencies are the means of the trials, one a trial.
func latencies(trials []*Trial) []float64 {
	var xs []float64
	for _, t := range trials {
		if t.Batch != nil && t.Batch.Events > 0 {
			xs = append(xs, t.Batch.PolicyMeanNs+t.Batch.DeviceMeanNs)
		}
	}
	return xs
}

func latencyOf(trials []*Trial) Metric {
	xs := latencies(trials)
	if len(xs) == 0 {
		return Metric{Missing: "no trial was timed"}
	}
	ci := stats.MedianCI(xs, confidence)
	return Metric{Value: ci.Estimate, Low: ci.Low, High: ci.High, Coverage: ci.Coverage}
}

// fillQuantiles takes the median over trials of the policy time's quantiles; a quantile that the clock could not resolve in
// any trial is refused, with the reason once.
func fillQuantiles(r *Row, trials []*Trial) {
	var p50, p99, policy, device []float64
	refused := ""
	for _, t := range trials {
		if t.Batch != nil {
			policy, device = append(policy, t.Batch.PolicyMeanNs), append(device, t.Batch.DeviceMeanNs)
		}
		if t.Timed == nil {
			continue
		}
		if q := t.Timed.Policy.All.P50; q.OK() {
			p50 = append(p50, q.Ns)
		} else {
			refused = q.Refused
		}
		if q := t.Timed.Policy.All.P99; q.OK() {
			p99 = append(p99, q.Ns)
		} else if refused == "" {
			refused = q.Refused
		}
	}
	r.PolicyP50Ns, r.PolicyP99Ns = medianOf(p50), medianOf(p99)
	r.PolicyMeanNs, r.DeviceMeanNs = medianOf(policy), medianOf(device)
	if r.PolicyP50Ns == nil || r.PolicyP99Ns == nil {
		r.PolicyRefused = refused
	}
}

// warnRefused says once why quantiles are missing, and for whom.
func warnRefused(t *TraceRanking) {
	var labels []string
	reason := ""
	for i := range t.Rows {
		if t.Rows[i].PolicyRefused != "" {
			labels, reason = append(labels, t.Rows[i].Label), t.Rows[i].PolicyRefused
		}
	}
	if len(labels) > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("policy quantiles refused for %s: %s; the means in the latency column are free of the clock's cost", strings.Join(labels, ", "), reason))
	}
}

func medianOf(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	m := stats.Median(xs)
	return &m
}

// trialWarnings collects the distinct warnings of a strategy's trials in order.
func trialWarnings(k *contest) []string {
	var out []string
	seen := map[string]bool{}
	for _, group := range [][]*Trial{k.tightTrials, k.deviceTrials} {
		for _, t := range group {
			list := append([]string{}, t.Warnings...)
			if t.Exact != nil {
				list = append(list, t.Exact.Warnings...)
			}
			for _, w := range list {
				if !seen[w] {
					seen[w] = true
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// noisyControl is the A/A difference from which on a ranking by latency says little.
const noisyControl = 0.25

// noiseFloor notes what two measurements of one case differ by.
func noiseFloor(t *TraceRanking, k *contest) {
	a, b := latencies(k.deviceTrials), latencies(k.controlTrials)
	rel := stats.NoiseFloor(a, b, confidence)
	if math.IsNaN(rel) {
		return
	}
	floor := rel * stats.Median(a)
	t.NoiseFloorNs, t.NoiseFloorRelative = &floor, &rel
	if rel > noisyControl {
		t.Warnings = append(t.Warnings, fmt.Sprintf("the A/A control differs by %.0f %%: the machine is too noisy to tell latencies apart that lie closer; run on a quiet machine or with more --trials", 100*rel))
	}
}

// placeRows ranks on the three metrics, marks the Pareto front, and sorts: success first, since a job that does not fit has no
// latency; then the mean of the three ranks. Rows equal in both share a place.
func placeRows(t *TraceRanking) {
	rows := t.Rows
	higher := func(a, b *Metric) bool { return a.Value > b.Value }
	lower := func(a, b *Metric) bool { return a.Value < b.Value }
	rankBy(rows, func(r *Row) *Metric { return &r.Success }, higher, sameCounted)
	rankBy(rows, func(r *Row) *Metric { return &r.Fragmentation }, lower, sameCounted)
	rankBy(rows, func(r *Row) *Metric { return &r.Latency }, lower, func(a, b *Metric) bool { return sameMeasured(a, b, t.NoiseFloorRelative) })
	for i := range rows {
		rows[i].MeanRank = (rows[i].Success.Rank + rows[i].Fragmentation.Rank + rows[i].Latency.Rank) / 3
		rows[i].Pareto = pareto(rows, i)
	}
	sort.SliceStable(rows, func(i, j int) bool {
		if rows[i].Success.Rank != rows[j].Success.Rank {
			return rows[i].Success.Rank < rows[j].Success.Rank
		}
		return rows[i].MeanRank < rows[j].MeanRank
	})
	for i := range rows {
		rows[i].Place = i + 1
		if i > 0 && rows[i].Success.Rank == rows[i-1].Success.Rank && rows[i].MeanRank == rows[i-1].MeanRank {
			rows[i].Place, rows[i].Tied, rows[i-1].Tied = rows[i-1].Place, true, true
		}
	}
}

func sameCounted(a, b *Metric) bool {
	return math.Abs(a.Value-b.Value) <= rankTolerance*math.Max(math.Abs(a.Value), math.Abs(b.Value))
}

// sameMeasured calls two latencies different only when their intervals are apart and the difference exceeds the noise floor.
func sameMeasured(a, b *Metric, floor *float64) bool {
	if a.Missing != "" || b.Missing != "" {
		return a.Missing != "" && b.Missing != ""
	}
	if a.Low <= b.High && b.Low <= a.High {
		return true
	}
	return floor != nil && math.Abs(a.Value-b.Value) <= *floor*math.Min(a.Value, b.Value)
}

// rankBy sets the rank of one metric: the mean of the places that a group of ties takes, values that are missing last. A measured "same" is
// not transitive, so a group is a run of neighbours in order of value, each the same as the group's first.
func rankBy(rows []Row, of func(*Row) *Metric, better, same func(a, b *Metric) bool) {
	order := make([]*Metric, len(rows))
	for i := range rows {
		order[i] = of(&rows[i])
	}
	sort.SliceStable(order, func(i, j int) bool {
		if (order[i].Missing == "") != (order[j].Missing == "") {
			return order[i].Missing == ""
		}
		return better(order[i], order[j])
	})
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && same(order[i], order[j]) {
			j++
		}
		for k := i; k < j; k++ {
			order[k].Rank = float64(i+1+j) / 2
		}
		i = j
	}
}

// pareto reports whether no other row is at least as good on all three ranks and better on one.
func pareto(rows []Row, i int) bool {
	a := &rows[i]
	for j := range rows {
		b := &rows[j]
		if j == i {
			continue
		}
		if b.Success.Rank <= a.Success.Rank && b.Fragmentation.Rank <= a.Fragmentation.Rank && b.Latency.Rank <= a.Latency.Rank &&
			(b.Success.Rank < a.Success.Rank || b.Fragmentation.Rank < a.Fragmentation.Rank || b.Latency.Rank < a.Latency.Rank) {
			return false
		}
	}
	return true
}
