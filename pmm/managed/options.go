package managed

import (
	"errors"
	"fmt"
)

// Processor is who touches memory.
type Processor uint8

// The two processors.
const (
	// Device is the GPU.
	Device Processor = iota
	// Host is the CPU.
	Host
)

// String returns "device" or "host".
func (p Processor) String() string { return [...]string{"device", "host"}[p] }

// Policy chooses which root is evicted.
type Policy uint8

// The eviction policies.
const (
	// DriverOrder leaves the choice to the manager: unused, discarded, then in order of the last unpin or free, which for
	// whole blocks is the order of arrival.
	DriverOrder Policy = iota
	// LRU evicts the root that was touched longest ago.
	LRU
	// Clock gives every touched root a second chance.
	Clock
	// Random evicts any.
	Random
	// Belady evicts the root whose next touch is farthest away; it needs SetFuture.
	Belady
	policies
)

var policyNames = [...]string{"driver", "lru", "clock", "random", "belady"}

// String returns the policy's name in configuration and tables.
func (p Policy) String() string { return policyNames[p] }

// PolicyByName is the inverse of String.
func PolicyByName(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("managed: no eviction policy %q; there are %v", name, policyNames)
}

// Prefetch are the parameters of the prefetcher.
type Prefetch struct {
	// Enable is uvm_perf_prefetch_enable.
	Enable bool
	// ThresholdPercent (uvm_perf_prefetch_threshold): a subtree is fetched when more than this share of it is or will be there.
	ThresholdPercent int
	// MinFaults (uvm_perf_prefetch_min_faults): fewer faults in a block do not start it.
	MinFaults int
}

// Thrashing are the parameters of the thrashing detector. Times are multiples of the lapse, as in the driver.
type Thrashing struct {
	// Enable is uvm_perf_thrashing_enable.
	Enable bool
	// Threshold (uvm_perf_thrashing_threshold): that many events in a row make a page thrash.
	Threshold int
	// PinThreshold (uvm_perf_thrashing_pin_threshold): that many waits in a row pin the page on the host.
	PinThreshold int
	// LapseNs (uvm_perf_thrashing_lapse_usec): moves of a page between processors within this time are events.
	LapseNs int64
	// NapLapses (uvm_perf_thrashing_nap) is how long a processor is made to wait, EpochLapses (uvm_perf_thrashing_epoch) how
	// long a block must be quiet to be forgiven, PinLapses (uvm_perf_thrashing_pin) how long a page stays pinned, 0 for ever.
	NapLapses, EpochLapses, PinLapses int64
	// MaxResets (uvm_perf_thrashing_max_resets): a block forgiven that often is not watched any more.
	MaxResets int
}

// Options choose the behaviour of a Space.
type Options struct {
	Policy Policy
	// Seed drives the random policy and nothing else.
	Seed      uint64
	Prefetch  Prefetch
	Thrashing Thrashing
	// MapRemoteOnEviction (uvm_perf_map_remote_on_eviction): evicted pages of ranges with the accessed-by advice stay mapped
	// on the device, which reaches them on the host without a fault.
	MapRemoteOnEviction bool
	// BatchFaults (uvm_perf_fault_batch_count) is the most faults serviced at once.
	BatchFaults int
}

// DefaultOptions are the driver's defaults (595.45.04).
func DefaultOptions() Options {
	return Options{
		Prefetch: Prefetch{Enable: true, ThresholdPercent: 51, MinFaults: 1},
		Thrashing: Thrashing{
			Enable: true, Threshold: 3, PinThreshold: 10, LapseNs: 500_000, NapLapses: 1, EpochLapses: 2000, PinLapses: 300, MaxResets: 4,
		},
		MapRemoteOnEviction: true,
		BatchFaults:         256,
	}
}

// The errors of this package. Errors of the manager are wrapped pmm.Status values.
var (
	// ErrOptions: an option outside its bounds.
	ErrOptions = errors.New("managed: bad options")
	// ErrRange: an offset or length outside a range, or a range that was freed.
	ErrRange = errors.New("managed: not inside the range")
	// ErrSize: a size of 0, or one that does not fit into the address space.
	ErrSize = errors.New("managed: bad size")
)

// Validate checks the bounds that the driver checks.
func (o Options) Validate() error {
	switch {
	case o.Policy >= policies:
		return fmt.Errorf("%w: policy %d", ErrOptions, o.Policy)
	case o.BatchFaults < 1:
		return fmt.Errorf("%w: batches of %d faults, want at least 1", ErrOptions, o.BatchFaults)
	case o.Prefetch.Enable && (o.Prefetch.ThresholdPercent < 1 || o.Prefetch.ThresholdPercent > 100):
		return fmt.Errorf("%w: prefetch threshold %d%%, want 1 to 100", ErrOptions, o.Prefetch.ThresholdPercent)
	case o.Prefetch.Enable && (o.Prefetch.MinFaults < 1 || o.Prefetch.MinFaults > 20):
		return fmt.Errorf("%w: prefetch from %d faults, want 1 to 20", ErrOptions, o.Prefetch.MinFaults)
	case o.Thrashing.Enable && (o.Thrashing.Threshold < 1 || o.Thrashing.Threshold > 7):
		return fmt.Errorf("%w: thrashing threshold %d, want 1 to 7", ErrOptions, o.Thrashing.Threshold)
	case o.Thrashing.Enable && (o.Thrashing.PinThreshold < 1 || o.Thrashing.PinThreshold > 255):
		return fmt.Errorf("%w: pin threshold %d, want 1 to 255", ErrOptions, o.Thrashing.PinThreshold)
	case o.Thrashing.Enable && o.Thrashing.LapseNs < 1:
		return fmt.Errorf("%w: lapse of %d ns", ErrOptions, o.Thrashing.LapseNs)
	case o.Thrashing.Enable && (o.Thrashing.NapLapses < 1 || o.Thrashing.NapLapses > 100):
		return fmt.Errorf("%w: nap of %d lapses, want 1 to 100", ErrOptions, o.Thrashing.NapLapses)
	}
	return nil
}
