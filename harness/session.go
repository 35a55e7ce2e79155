package harness

import (
	"context"
	"time"

	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// Timing says where a session's loop reads the clock.
type Timing int

// The timings.
const (
	TimePerEvent Timing = iota // around every event
	TimeBatch                  // only around windows and device calls
)

// OpenSpec is what a session opens: one case, over one trace file.
type OpenSpec struct {
	Case             *results.Case
	TracePath        string // binary form
	TraceEvents      uint64 // how many it holds: for the size of the window
	Seed             uint64
	Timing           Timing
	RestoreStart     bool // the trace begins mid-way and the strategy can take over its layout
	MemoryLimitBytes uint64
	HangTimeout      time.Duration
}

// SessionInfo is what the plugin said when it opened.
type SessionInfo struct {
	Device   DeviceInfo
	Clock    results.Clock
	TickNs   float64 // length of a tick of the plugin's clock
	Remote   *results.RemoteCost
	Restored bool
	Warnings []string
}

// DeviceInfo is the part of the device's description that metrics depend on.
type DeviceInfo struct {
	Name          string
	TotalBytes    uint64
	PageBytes     uint64
	Deterministic bool
	ModelledTime  bool
	Uncalibrated  bool
	CostSource    string
}

// Window is what one drained window held: outcomes of the events first, first+1, …, and the call records written meanwhile.
// The slices are valid until the function that got the window returns.
type Window struct {
	First    uint64
	Outcomes []trace.Outcome
	Calls    []trace.Call
}

// PassStats is what the loop says of one replay.
type PassStats struct {
	Events     uint64
	LoopNs     float64 // of the timed loops, real time
	WallNs     float64 // of that, inside device calls
	LoopCostNs float64 // the loop's own cost an event
	GCs        uint32
	Warnings   []string
}

// Session is one plugin process with a case opened in it.
type Session interface {
	Info() SessionInfo
	// Replay runs the whole trace from a fresh state (it resets first when something ran before) and hands every window to
	// drain, in order. An error of drain ends the replay and is returned.
	Replay(ctx context.Context, drain func(Window) error) (PassStats, error)
	// Reopen closes the case and opens it again in the same process, with another timing. The records of the calls made by
	// closing go to drain, if it is not nil.
	Reopen(ctx context.Context, timing Timing, drain func(Window) error) error
	// SetTrace makes the next Reopen open another trace file.
	SetTrace(path string)
	// Finish closes the case; the records of the calls made by closing go to drain, if it is not nil.
	Finish(ctx context.Context, drain func(Window) error) error
	// Stop ends the process, by force if need be. It never blocks for long and may be called at any time.
	Stop()
}

// Launcher starts a fresh plugin process and opens a case in it. Its errors, and those of Session, are classified by Classify.
type Launcher interface {
	Open(ctx context.Context, spec OpenSpec) (Session, error)
	// Classify turns an error of a session into a fault of the plugin; nil when the plugin is not to blame (an option it
	// rightly refuses, a cancelled context).
	Classify(err error) *results.Fault
}
