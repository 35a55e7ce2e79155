package pytorch

import (
	"math"
	"math/bits"
)

// Sizes in bytes, from PyTorch 2.14 c10/core/AllocatorConfig.h (up to 2.8 in c10/cuda/CUDACachingAllocator.cpp).
const (
	miB           = 1 << 20
	minBlockBytes = 512      // kMinBlockSize: unit of rounding and smallest block
	smallBytes    = 1 * miB  // kSmallSize: a rounded size up to this, inclusive, is served by the small pool
	smallSegment  = 2 * miB  // kSmallBuffer: segment of the small pool, page of its expandable segments
	largeSegment  = 20 * miB // kLargeBuffer: segment for medium requests, page of large expandable segments
	minLargeAlloc = 10 * miB // kMinLargeAlloc: from here on a request has a segment of its own
	roundLarge    = 2 * miB  // kRoundLarge: unit of such own segments

	// maxRequestBytes is where NativeCachingAllocator::allocate refuses before anything happens (one_exa_bytes, 2^60).
	maxRequestBytes = 1 << 60
	// unlimited is the value of max_split_size_mb that is not set.
	unlimited = math.MaxUint64
	// roundupIntervals is the length of the table of power-of-two divisions: [1, 2) MiB and smaller … ≥ 32 GiB.
	roundupIntervals   = 16
	roundupFirstLog2   = 20 // log2 of 1 MiB, the first interval
	maxPinnedThreads   = 128
	minLargeSegmentMiB = minLargeAlloc/miB + 1 // large_segment_size_mb must exceed kMinLargeAlloc
)

// settings is what a settings string says (CUDAAllocatorConfig, AcceleratorAllocatorConfig).
type settings struct {
	maxSplitBytes         uint64 // unlimited when not set
	nonSplitRoundingBytes uint64
	gcThreshold           float64 // 0 = off
	roundup               [roundupIntervals]uint64
	roundupOn             bool // some entry of roundup exceeds 1
	expandable            bool
	largeSegmentBytes     uint64
	memoryFraction        float64 // per_process_memory_fraction; looked at when the allocator is made
	refuseBeforeMalloc    bool    // throw_on_cudamalloc_oom
	text                  string  // the string last parsed
}

// defaultSettings is the state before any string was parsed.
func defaultSettings() settings {
	return settings{maxSplitBytes: unlimited, nonSplitRoundingBytes: largeSegment, largeSegmentBytes: largeSegment, memoryFraction: 1}
}

// roundSize is DeviceCachingAllocator::round_size: the size of the block for a request of n ≥ 1 bytes.
func (c *settings) roundSize(n uint64) uint64 {
	if n < minBlockBytes {
		return minBlockBytes
	}
	if c.roundupOn {
		if d := c.divisions(n); d > 1 && n > minBlockBytes*d {
			return roundupPower2(n, d)
		}
	}
	return (n + minBlockBytes - 1) &^ (minBlockBytes - 1)
}

// divisions is AcceleratorAllocatorConfig::roundup_power2_divisions(size).
func (c *settings) divisions(n uint64) uint64 {
	i := bits.Len64(n) - 1 - roundupFirstLog2
	return c.roundup[min(max(i, 0), roundupIntervals-1)]
}

// roundupPower2 is roundup_power2_next_division: n rounded up to the next of d equal steps between the powers of two
// around it. d is a power of two.
func roundupPower2(n, d uint64) uint64 {
	if n&(n-1) == 0 {
		return n
	}
	floor := uint64(1) << (bits.Len64(n) - 1)
	step := floor >> (bits.Len64(d) - 1)
	if step == 0 {
		return floor << 1
	}
	if low := n &^ (step - 1); low != n {
		return low + step
	}
	return n
}

// segmentSize is get_allocation_size: what is asked of the driver for a rounded size.
func (c *settings) segmentSize(size uint64) uint64 {
	switch {
	case size <= smallBytes:
		return smallSegment
	case size < minLargeAlloc:
		return c.largeSegmentBytes
	}
	return (size + roundLarge - 1) &^ (roundLarge - 1)
}
