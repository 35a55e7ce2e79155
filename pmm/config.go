package pmm

import (
	"fmt"
	"math/bits"
)

// Config describes a device as the manager sees it.
type Config struct {
	// Roots is the size of device memory in roots of 2 MiB.
	Roots int
	// BatchOrder: user roots are asked of PMA 1<<BatchOrder at a time (uvm_perf_pma_batch_nonpinned_order, default 6).
	BatchOrder int
	// UserSizes and KernelSizes are bit masks of the chunk sizes of each type; 2 MiB is always added.
	UserSizes, KernelSizes uint64
	// Scrub is PMA's scrub-on-free: fresh roots are zero.
	Scrub bool
	// ScrubNsPerFrame is the time to zero a 64 KiB frame on the model's clock; 0 is immediate.
	ScrubNsPerFrame int64
	// Oversubscription (uvm_global_oversubscription) lets PMA evict user memory; without it user roots are pinned in PMA.
	Oversubscription bool
	// NoEviction is an architecture without replayable faults (Maxwell): user memory is never evicted.
	NoEviction bool
	// LazyListRule is our own change [model only]: a lazily freed sub-chunk takes its root off the eviction lists at once.
	// The driver leaves it there, so that an eviction before the queue ran would pick a root that is pinned (section "known
	// weak case" of the package comment). Without it Evict skips such a root.
	LazyListRule bool
	// Simulated devices (isSimulated) never batch.
	Simulated bool
	// Costs are the prices on the model's clock. The zero value makes every call free of charge.
	Costs Costs
}

// Size masks of Pascal and newer (uvm_mmu.c, uvm_<arch>_mmu.c).
const (
	// UserSizes4K is the user mask with 4 KiB host pages: 4K, 64K, 2M.
	UserSizes4K = 4<<10 | 64<<10 | RootBytes
	// UserSizes64K is the user mask with 64 KiB host pages: 64K, 2M.
	UserSizes64K = 64<<10 | RootBytes
	// KernelSizesPascal is the kernel mask: 256 bytes (a page-table level), 4K, 64K, 2M.
	KernelSizesPascal = 256 | 4<<10 | 64<<10 | RootBytes
	// BatchOrderDefault is the driver's default of 64 roots a PMA call.
	BatchOrderDefault = 6
)

// DefaultConfig is a device of Pascal or newer with the given memory in bytes (rounded down to roots), the driver's
// default parameters, immediate scrubbing and free calls.
func DefaultConfig(memoryBytes uint64) Config {
	return Config{
		Roots: int(memoryBytes / RootBytes), BatchOrder: BatchOrderDefault, UserSizes: UserSizes4K, KernelSizes: KernelSizesPascal,
		Scrub: true, Oversubscription: true,
	}
}

// Validate returns the first thing that is wrong with the configuration.
func (c Config) Validate() error {
	if c.Roots < 1 || c.Roots > RootsMax {
		return fmt.Errorf("pmm: %d roots of 2 MiB: want 1 to %d", c.Roots, RootsMax)
	}
	if c.BatchOrder < 0 || c.BatchOrder > BatchOrderMax {
		return fmt.Errorf("pmm: batch order %d: want 0 to %d", c.BatchOrder, BatchOrderMax)
	}
	for t, mask := range [types]uint64{c.UserSizes, c.KernelSizes} {
		if mask|RootBytes >= RootBytes<<1 {
			return fmt.Errorf("pmm: %s sizes 0x%x: no chunk is larger than 2 MiB", Type(t), mask)
		}
		if n := bits.OnesCount64(mask | RootBytes); n > SizesMax {
			return fmt.Errorf("pmm: %s sizes 0x%x: %d sizes, at most %d", Type(t), mask, n, SizesMax)
		}
		if mask&(1<<minLog2-1) != 0 {
			return fmt.Errorf("pmm: %s sizes 0x%x: the smallest supported chunk is %d bytes", Type(t), mask, 1<<minLog2)
		}
	}
	if c.ScrubNsPerFrame < 0 {
		return fmt.Errorf("pmm: scrub time %d ns a frame is negative", c.ScrubNsPerFrame)
	}
	return c.Costs.Validate()
}

// minLog2 bounds the children of one split to 32,768 and the counters below a root to 16 bits.
const minLog2 = 6

// sizeTable is one type's sizes: by index ascending, and back.
type sizeTable struct {
	n     int
	log2  [SizesMax]uint8
	index [rootLog2 + 1]uint8 // of a log2 in the mask
	mask  uint64
}

func newSizeTable(mask uint64) sizeTable {
	t := sizeTable{mask: mask | RootBytes}
	for m := t.mask; m != 0; m &= m - 1 {
		l := uint8(bits.TrailingZeros64(m))
		t.log2[t.n] = l
		t.index[l] = uint8(t.n)
		t.n++
	}
	return t
}

// has reports whether size is in the mask.
func (t *sizeTable) has(size uint64) bool { return size != 0 && size&(size-1) == 0 && t.mask&size != 0 }
