package results

import (
	"fmt"

	"github.com/gpubench/gpubench/results/bounds"
)

// Ranking is the answer of a run: per trace one table, and over several traces one summary.
type Ranking struct {
	Schema     int            `json:"schema"`
	RunID      string         `json:"run_id"`
	Verdict    string         `json:"verdict"` // the first line a reader sees
	Traces     []TraceRanking `json:"traces"`
	Across     *Across        `json:"across,omitempty"` // nil with fewer than two traces
	Weights    *Weights       `json:"weights,omitempty"`
	Complete   bool           `json:"complete"` // every planned trial was run
	TrialsDone int            `json:"trials_done"`
	TrialsAll  int            `json:"trials_planned"`
	Warnings   []string       `json:"warnings"`
	Findings   []Disqualified `json:"findings"` // every disqualified strategy, with its finding
}

// TraceRanking ranks the strategies on one trace.
type TraceRanking struct {
	Trace              string         `json:"trace"`
	SHA256             string         `json:"sha256"`
	LowerBoundBytes    uint64         `json:"lower_bound_bytes"`
	Bounds             *bounds.Report `json:"bounds,omitempty"`
	DeviceBytes        uint64         `json:"device_bytes"`
	TightBytes         uint64         `json:"tight_bytes"` // 0 when only the device's capacity was run
	Rows               []Row          `json:"rows"`        // best first; equal places are ties
	Disqualified       []Disqualified `json:"disqualified"`
	Unmeasured         []Unmeasured   `json:"unmeasured"`           // faults and errors: no result, so no place
	NoiseFloorNs       *float64       `json:"noise_floor_ns"`       // largest difference of the A/A control; nil without one
	NoiseFloorRelative *float64       `json:"noise_floor_relative"` // the same, as a share of the control's latency
	LatencyBasis       string         `json:"latency_basis"`        // what the latency column is, in words
	Warnings           []string       `json:"warnings"`
}

// Row is one strategy on one trace.
type Row struct {
	Label    string `json:"label"`
	Strategy string `json:"strategy"`
	Place    int    `json:"place"` // 1 = best; ties share a place
	Tied     bool   `json:"tied"`
	Pareto   bool   `json:"pareto"` // no other strategy is at least as good on all three and better on one

	Success       Metric `json:"success"`       // rate of placed allocations, tight
	Fragmentation Metric `json:"fragmentation"` // external, weighted, tight
	Latency       Metric `json:"latency_ns"`    // mean of policy + device time of an alloc or free, ns

	MeanRank float64 `json:"mean_rank"` // of the three ranks, ties drawn as means

	Recovered          uint64      `json:"recovered"`
	Failed             uint64      `json:"failed"`
	Spilled            uint64      `json:"spilled"`
	Refused            uint64      `json:"refused"`
	Spurious           uint64      `json:"spurious"`
	FirstFailureEvent  *uint64     `json:"first_failure_event,omitempty"`
	SuccessAtDevice    float64     `json:"success_at_device"`
	ReservedOverhead   float64     `json:"reserved_overhead"`
	InternalWeighted   float64     `json:"internal_fragmentation"`
	PeakReservedBytes  uint64      `json:"peak_reserved_bytes"` // at the device's capacity
	DeviceCallsPer1000 float64     `json:"device_calls_per_1000_events"`
	PolicyP50Ns        *float64    `json:"policy_ns_p50"` // nil = refused; the reason is in Warnings
	PolicyP99Ns        *float64    `json:"policy_ns_p99"`
	PolicyRefused      string      `json:"policy_refused,omitempty"` // why a quantile is missing
	PolicyMeanNs       *float64    `json:"policy_ns_mean"`
	DeviceMeanNs       *float64    `json:"device_ns_mean"`
	MinCapacityBytes   *uint64     `json:"min_capacity_bytes,omitempty"`
	Score              *float64    `json:"score,omitempty"` // only with weights
	Deviations         []Deviation `json:"deviations,omitempty"`
	Warnings           []string    `json:"warnings,omitempty"`
	Trials             int         `json:"trials"`
}

// Metric is a value with its rank and, where it was measured and not counted, its interval.
type Metric struct {
	Value    float64 `json:"value"`
	Rank     float64 `json:"rank"` // mean rank of ties
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Exact    bool    `json:"exact"` // counted, not measured: Low = High = Value
	Coverage float64 `json:"coverage,omitempty"`
	Missing  string  `json:"missing,omitempty"` // not empty: there is no value, and why
}

// Disqualified is a strategy that is not ranked because it broke a safety check or gave different answers to the same case.
type Disqualified struct {
	Label      string   `json:"label"`
	Strategy   string   `json:"strategy"`
	Trace      string   `json:"trace"`
	Case       string   `json:"case"`
	Canary     bool     `json:"canary"` // it is wrong on purpose: being caught is what it is for
	Finding    string   `json:"finding"`
	Map        string   `json:"map,omitempty"`
	Count      uint64   `json:"count"`
	Next       string   `json:"next"` // the command to type to see it again
	Violations []string `json:"violations,omitempty"`
}

// Unmeasured is a case without a result.
type Unmeasured struct {
	Label string `json:"label"`
	Case  string `json:"case"`
	Class string `json:"class"`
	Text  string `json:"text"`
}

// Across summarises several traces by average ranks (Friedman, Nemenyi).
type Across struct {
	Rows               []AcrossRow `json:"rows"`
	CriticalDifference float64     `json:"critical_difference"` // of average ranks, α = 0.05; 0 = not defined
	FriedmanP          float64     `json:"friedman_p"`
	Traces             int         `json:"traces"`
	Warnings           []string    `json:"warnings"`
}

// AcrossRow is one strategy over all traces.
type AcrossRow struct {
	Label       string  `json:"label"`
	AverageRank float64 `json:"average_rank"`
	Wins        int     `json:"wins"`
	Group       string  `json:"group"` // letters: strategies that share one are not told apart
}

// Weights are the user's own; without them there is no score.
type Weights struct {
	Success       float64 `json:"success"`
	Fragmentation float64 `json:"fragmentation"`
	Latency       float64 `json:"latency"`
	// FirstStaysFirst is the share of the weight space (sampled evenly) in which the first place stays the same.
	FirstStaysFirst float64 `json:"first_stays_first"`
}

// Validate reports a weight that makes no sense.
func (w *Weights) Validate() error {
	for name, v := range map[string]float64{"success": w.Success, "fragmentation": w.Fragmentation, "latency": w.Latency} {
		if v < 0 || v != v {
			return fmt.Errorf("weight %s=%v: must not be negative", name, v)
		}
	}
	if w.Success+w.Fragmentation+w.Latency == 0 {
		return fmt.Errorf("weights: all are 0")
	}
	return nil
}
