package guard

import (
	"fmt"
	"syscall"
)

// Reason says why a plugin ended.
type Reason string

// The reasons.
const (
	ReasonExited      Reason = "exited"       // it exited by itself, with Status.ExitCode
	ReasonSignalled   Reason = "signalled"    // a signal killed it that the guard did not send, Status.Signal
	ReasonStopped     Reason = "stopped"      // the harness asked for an end, or is gone: the guard killed it
	ReasonMemoryLimit Reason = "memory-limit" // the guard killed it because it went over the memory limit
	ReasonNotStarted  Reason = "not-started"  // it could not be executed, Status.Error
	ReasonGuardLost   Reason = "guard-lost"   // the guard itself died without a word; only the harness's side says so
)

// Status is the guard's last word on a plugin: one JSON object on the status pipe.
type Status struct {
	Reason   Reason         `json:"reason"`
	PID      int            `json:"pid,omitempty"`
	ExitCode int            `json:"exit_code"`        // of ReasonExited
	Signal   syscall.Signal `json:"signal,omitempty"` // of ReasonSignalled
	Core     bool           `json:"core,omitempty"`   // the kernel says that it dumped core
	Error    string         `json:"error,omitempty"`  // of ReasonNotStarted

	Orphans   int   `json:"orphans,omitempty"`   // descendants that were still there when the plugin ended, and were killed
	Survivors []int `json:"survivors,omitempty"` // processes that would not die in time (uninterruptible sleep)

	MemoryLimitBytes   uint64 `json:"memory_limit_bytes,omitempty"`
	AnonymousBytesPeak uint64 `json:"anonymous_bytes_peak,omitempty"` // of the tree, as polled; 0 without a limit
	ResidentBytesPeak  uint64 `json:"resident_bytes_peak,omitempty"`  // of the plugin process (ru_maxrss)

	StderrBytes uint64 `json:"stderr_bytes"` // written by the plugin in all
	StderrTail  string `json:"stderr_tail"`  // the last StderrTailBytesMax of them
}

// String says in a few words how the plugin ended.
func (s Status) String() string {
	switch s.Reason {
	case ReasonExited:
		return fmt.Sprintf("exited with code %d", s.ExitCode)
	case ReasonSignalled:
		return fmt.Sprintf("was killed by signal %d (%s)", int(s.Signal), s.Signal)
	case ReasonStopped:
		return "was stopped by the guard"
	case ReasonMemoryLimit:
		return fmt.Sprintf("was killed at its memory limit of %d MiB", s.MemoryLimitBytes>>20)
	case ReasonNotStarted:
		return "could not be executed: " + s.Error
	case ReasonGuardLost:
		return "was lost together with its guard"
	}
	return "ended: " + string(s.Reason)
}
