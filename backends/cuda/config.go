//go:build cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"time"
)

// Library is the driver's library, found by the dynamic loader.
const Library = "libcuda.so.1"

// DefaultShare is the part of the free memory that a device may take unless told otherwise: the rest is for the driver's own
// allocations and for whoever draws the screen.
const DefaultShare = 0.9

// Deadlines of driver calls. Making a context on a machine with many GPUs takes seconds; freeing a pool of 80 GiB takes hundreds of
// milliseconds. What they must tell apart is slow and never.
const (
	OpenDeadline = 30 * time.Second
	CallDeadline = 4 * time.Second // below the 5 s without progress after which a run gives a plugin up
)

// Errors of opening, for errors.Is. Each wraps with one line that says what to do.
var (
	ErrNoDriver    = errors.New("the CUDA driver is not here")
	ErrNoDevice    = errors.New("there is no CUDA device")
	ErrUnknown     = errors.New("no such CUDA device")
	ErrInUse       = errors.New("the device is in use by someone else")
	ErrTooLarge    = errors.New("more memory than may be taken")
	ErrUnsupported = errors.New("the device does not support this")
	ErrDriver      = errors.New("the CUDA driver refused")
	ErrHung        = errors.New("a call of the CUDA driver did not return within its deadline")
)

// Memory is a kind of memory that Malloc takes.
type Memory string

// The kinds.
const (
	MemoryDevice  Memory = "device"  // cuMemAlloc
	MemoryPool    Memory = "pool"    // a stream-ordered pool: cuMemAllocFromPoolAsync on the default stream
	MemoryPinned  Memory = "pinned"  // host memory that the device sees: cuMemHostAlloc
	MemoryManaged Memory = "managed" // cuMemAllocManaged; needs AllowManaged
)

// Process is a program that uses a device.
type Process struct {
	PID  uint32
	Name string
}

// Config says what to open.
type Config struct {
	Library      string // "" is Library
	Device       string // index among the visible devices, or a UUID or its beginning; "" is device 0
	TotalBytes   uint64 // size of the device; 0 = Share of what is free
	Share        float64
	Memory       Memory
	AllowManaged bool
	// AllowShared opens a device that other programs use.
	AllowShared bool
	// Canary fills every block of Malloc with a word of its own and checks it at Free, which is then trace.CallBroken when
	// someone else wrote there. Strategies write nothing, so any change is a finding. Not for measuring.
	Canary bool
	// PoolThresholdBytes is how much unused memory the pool keeps at a synchronisation.
	PoolThresholdBytes uint64
	OpenDeadline       time.Duration // 0 is OpenDeadline
	CallDeadline       time.Duration // 0 is CallDeadline
	// Users lists the programs on the device with this UUID, without the calling process; nil or an error is nobody known.
	Users func(uuid string) ([]Process, error)
}

func (c *Config) defaults() error {
	if c.Library == "" {
		c.Library = Library
	}
	if c.Share == 0 {
		c.Share = DefaultShare
	}
	if c.Share < 0 || c.Share > 1 {
		return fmt.Errorf("%w: a share of %g is not between 0 and 1", ErrTooLarge, c.Share)
	}
	if c.Memory == "" {
		c.Memory = MemoryDevice
	}
	switch c.Memory {
	case MemoryDevice, MemoryPool, MemoryPinned:
	case MemoryManaged:
		if !c.AllowManaged {
			return fmt.Errorf("%w: managed memory can swap a machine to a halt; allow it with allow_managed", ErrUnsupported)
		}
	default:
		return fmt.Errorf("%w: memory %q is not one of device, pool, pinned, managed", ErrUnsupported, c.Memory)
	}
	if c.OpenDeadline == 0 {
		c.OpenDeadline = OpenDeadline
	}
	if c.CallDeadline == 0 {
		c.CallDeadline = CallDeadline
	}
	return nil
}
