package results

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results/bounds"
)

// SchemaVersion is the version of everything in a run directory.
const SchemaVersion = 1

// Run is what was planned: run.json. It is written before the first trial and never again.
type Run struct {
	Schema      int             `json:"schema"`
	ID          string          `json:"id"`
	CreatedAt   time.Time       `json:"created_at"`
	Title       string          `json:"title,omitempty"`
	Seed        uint64          `json:"seed"`
	Config      json.RawMessage `json:"config"`   // the effective suite
	Settings    json.RawMessage `json:"settings"` // requested and effective, with origin
	Environment Environment     `json:"environment"`
	Device      DeviceFacts     `json:"device"`
	Traces      []TraceFacts    `json:"traces"`
	Cases       []Case          `json:"cases"`
	Order       []Unit          `json:"order"` // the trials in the order in which they are to run
	Warnings    []string        `json:"warnings,omitempty"`
}

// DeviceFacts is the device that a model stands for, or the real one.
type DeviceFacts struct {
	Name          string `json:"name"`
	Title         string `json:"title,omitempty"`
	CapacityBytes uint64 `json:"capacity_bytes"`
	Uncalibrated  bool   `json:"uncalibrated"` // its latencies come from figures that were not measured on it
	CostSource    string `json:"cost_source,omitempty"`
}

// TraceFacts is one recording of the run.
type TraceFacts struct {
	Name            string         `json:"name"`
	Source          string         `json:"source"`
	Path            string         `json:"path,omitempty"` // as the user gave it
	SHA256          string         `json:"sha256"`         // content hash
	Events          uint64         `json:"events"`
	LowerBoundBytes uint64         `json:"lower_bound_bytes"` // maximum of live requested bytes
	Bounds          *bounds.Report `json:"bounds,omitempty"`  // what a packing with the whole future known needs
	CoversPercent   float64        `json:"covers_percent"`
	Warnings        []string       `json:"warnings,omitempty"`
}

// Scope says at which capacity a case runs.
type Scope string

// The scopes.
const (
	ScopeDevice Scope = "device" // the device's capacity
	ScopeTight  Scope = "tight"  // a fixed factor of the trace's lower bound
)

// Case is one trace × strategy × backend × parameters.
type Case struct {
	ID             string          `json:"id"`
	Trace          int             `json:"trace"` // index into Run.Traces
	Strategy       string          `json:"strategy"`
	Label          string          `json:"label"`
	Version        string          `json:"version,omitempty"`
	Options        json.RawMessage `json:"options,omitempty"`
	Backend        string          `json:"backend"`
	BackendOptions json.RawMessage `json:"backend_options,omitempty"`
	CapacityBytes  uint64          `json:"capacity_bytes"`
	Scope          Scope           `json:"scope"`
	Control        bool            `json:"control,omitempty"` // the A/A control: the same case as ControlOf
	ControlOf      string          `json:"control_of,omitempty"`
	Binding        string          `json:"binding"` // fused or remote
	Plugin         string          `json:"plugin,omitempty"`
	PluginSHA256   string          `json:"plugin_sha256,omitempty"`
	Promises       []string        `json:"promises,omitempty"`
	Deviations     []Deviation     `json:"deviations,omitempty"`
	Canary         bool            `json:"canary,omitempty"`
}

// Deviation is a known difference from ideal behaviour that a strategy declares.
type Deviation struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Section string `json:"section"`
}

// Unit is one planned trial.
type Unit struct {
	Case   string `json:"case"`
	Number int    `json:"number"` // from 1, within the case
}

// TrialID names the trial of a unit, for files and messages: c03-t2 is the second trial of case c03.
func (u Unit) TrialID() string { return fmt.Sprintf("%s-t%d", u.Case, u.Number) }

// TrialStatus is how a trial ended.
type TrialStatus string

// The trial statuses.
const (
	TrialOK    TrialStatus = "ok"
	TrialFault TrialStatus = "fault" // the plugin crashed, hung or broke the protocol
	TrialError TrialStatus = "error" // the strategy could not be opened for this case (an option, no memory for its arena)
)

// Trial is one execution of a case in fresh processes: a line of trials.jsonl.
type Trial struct {
	Schema    int           `json:"schema"`
	ID        string        `json:"id"`
	Case      string        `json:"case"`
	Number    int           `json:"number"`
	Status    TrialStatus   `json:"status"`
	Fault     *Fault        `json:"fault,omitempty"`
	StartedAt time.Time     `json:"started_at"`
	TookNs    int64         `json:"took_ns"`
	Passes    int           `json:"passes"`     // replays with a clock around each event
	Discarded uint64        `json:"discarded"`  // events of the warm-up, in no latency
	Exact     *ledger.Exact `json:"exact"`      // deterministic; nil unless Status is ok
	ExactHash string        `json:"exact_hash"` // SHA-256 of the JSON of Exact: equal for equal trials
	Timed     *ledger.Timed `json:"timed"`      // of the passes with a clock around each event
	Batch     *Batch        `json:"batch"`      // of the passes without
	Clock     Clock         `json:"clock"`
	Remote    *RemoteCost   `json:"remote,omitempty"`
	GCs       uint32        `json:"collections"` // of garbage inside the timed loop
	Warnings  []string      `json:"warnings,omitempty"`

	// Qualification judges the hardware's state during the trial; nil where nothing was watched.
	Qualification *Qualification `json:"qualification,omitempty"`
}

// Batch is what passes without a clock around each event give: means, free of the clock's own cost.
type Batch struct {
	Passes        int     `json:"passes"`
	Events        uint64  `json:"events"`
	PolicyMeanNs  float64 `json:"policy_ns_mean"`      // an event, device calls and the loop's own cost subtracted
	DeviceMeanNs  float64 `json:"device_ns_mean"`      // an event, on the device's clock (the model's, or real)
	DeviceWallNs  float64 `json:"device_wall_ns_mean"` // an event, real time inside device calls: what running the model costs
	LoopPerSecond float64 `json:"events_per_second"`   // of the whole loop, real time
}

// Clock is the counter that the plugin measured with.
type Clock struct {
	Source      string  `json:"source"`
	FrequencyHz uint64  `json:"frequency_hz"`
	CostNs      float64 `json:"cost_ns"`      // of one interval, subtracted from policy times
	LoopCostNs  float64 `json:"loop_cost_ns"` // of the loop around an event
}

// RemoteCost is what one device call costs in transport when strategy and backend are two processes.
type RemoteCost struct {
	Binding string `json:"binding"`
	MeanNs  uint64 `json:"mean_ns"`
	P99Ns   uint64 `json:"p99_ns"`
}

// Fault says how a plugin failed.
type Fault struct {
	Class  string `json:"class"`           // crash, hang, protocol, checksum, memory-limit, start, lie
	Event  *int64 `json:"event,omitempty"` // the exact event, when known
	Text   string `json:"text"`            // one line
	Stderr string `json:"stderr,omitempty"`
}

// Curves is what AppendSeries keeps of a trial.
type Curves struct {
	Series  *ledger.Series  `json:"series,omitempty"`
	Picture *ledger.Picture `json:"picture,omitempty"`
	Strings []string        `json:"strings,omitempty"` // tags that Picture refers to
}
