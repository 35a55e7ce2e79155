package trace

import (
	"errors"
	"fmt"
)

// The reasons for which an event is refused. They come wrapped in an *EventError, which names the event.
var (
	ErrUnknownHandle = errors.New("unknown handle: no alloc of it comes before")
	ErrFreedHandle   = errors.New("freed handle: it was freed before")
	ErrHandleReused  = errors.New("handle reused: a handle names one object for the whole trace")
	ErrHandleZero    = errors.New("handle 0 means none: the first legal handle is h1")
	ErrHandleLive    = errors.New("free! of a live handle: that is a right free, written free")
	ErrNotAProgram   = errors.New("free! is legal only in programs, not in a recording")
	ErrTimeBack      = errors.New("time goes back")
	ErrAlignment     = errors.New("alignment is not a power of two")
	ErrCheckpoint    = errors.New("unknown checkpoint: no checkpoint of that name comes before")
	ErrPoolClosed    = errors.New("no pool is open")
	ErrIndex         = errors.New("index outside its table")
	ErrLimit         = errors.New("limit exceeded")
	ErrArgument      = errors.New("illegal argument")
	ErrState         = errors.New("illegal start state")
	ErrFinished      = errors.New("the builder is finished")
)

// EventError says which event of a trace is wrong and why. Line is the line in the text it came from, 0 when it did not
// come from text.
type EventError struct {
	Event  uint64 // index of the event, from 0
	Line   uint64 // line number from 1; 0 = unknown
	Kind   Kind
	Handle Handle // 0 when the event names none
	Err    error  // wraps one of the sentinels above
}

// Error returns one line.
func (e *EventError) Error() string {
	where := fmt.Sprintf("event %d", e.Event)
	if e.Line > 0 {
		where = fmt.Sprintf("line %d (event %d)", e.Line, e.Event)
	}
	if e.Handle != 0 {
		return fmt.Sprintf("%s: %s h%d: %v", where, e.Kind, e.Handle, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", where, e.Kind, e.Err)
}

// Unwrap returns the reason.
func (e *EventError) Unwrap() error { return e.Err }

// limitError reports that a named limit was passed.
func limitError(name string, limit uint64) error {
	return fmt.Errorf("%w: %s = %d", ErrLimit, name, limit)
}
