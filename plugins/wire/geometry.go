package wire

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// Limits of a window. They bound what one side can make the other map.
const (
	MinRecords = 1
	MaxRecords = 1 << 26 // of either kind: 2 GiB of outcomes, 3 GiB of calls
	pageBytes  = 4096
)

// DefaultGeometry is 65,536 outcomes and as many calls, 5 MiB. A Replay call costs about 100 µs of CPU in the two processes
// together, 1.5 ns an event at this size; a smaller window would stay in the second-level cache but cost more in calls.
var DefaultGeometry = Geometry{OutcomeCapacity: 1 << 16, CallCapacity: 1 << 16}

// Errors about windows, for errors.Is.
var (
	ErrGeometry = errors.New("window geometry")
	ErrWindow   = errors.New("not a usable window")
	ErrLied     = errors.New("the plugin wrote nonsense into the window")
)

// Geometry says how many records a window holds.
type Geometry struct {
	OutcomeCapacity uint64
	CallCapacity    uint64
}

// Validate checks the limits.
func (g Geometry) Validate() error {
	if g.OutcomeCapacity < MinRecords || g.OutcomeCapacity > MaxRecords {
		return fmt.Errorf("%w: %d outcomes, must be %d to %d", ErrGeometry, g.OutcomeCapacity, MinRecords, MaxRecords)
	}
	if g.CallCapacity < MinRecords || g.CallCapacity > MaxRecords {
		return fmt.Errorf("%w: %d calls, must be %d to %d", ErrGeometry, g.CallCapacity, MinRecords, MaxRecords)
	}
	return nil
}

// TotalBytes returns the size of the whole window; the areas begin at page boundaries.
func (g Geometry) TotalBytes() uint64 {
	return g.callOffset() + roundUp(g.CallCapacity*trace.CallBytes)
}

func (g Geometry) outcomeOffset() uint64 { return HeaderBytes }

func (g Geometry) callOffset() uint64 {
	return HeaderBytes + roundUp(g.OutcomeCapacity*trace.OutcomeBytes)
}

func roundUp(n uint64) uint64 { return (n + pageBytes - 1) &^ (pageBytes - 1) }
