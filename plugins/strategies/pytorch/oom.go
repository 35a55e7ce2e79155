package pytorch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

// The errors behind StatusError and StatusInvalid. Inspect shows the last one; Allocator.LastError returns it.
var (
	// ErrSplitRelease is a defect of every version up to 2.11: after max_split_size_mb was lowered,
	// release_available_cached_blocks can pick a block that is a part of a segment, and hands its inner address to cudaFree.
	ErrSplitRelease = errors.New("split-release: release_available_cached_blocks picked a part of a segment (max_split_size_mb was lowered); PyTorch would free an inner address")
	// ErrStaleSize is a defect of 2.6 and before: release_available_cached_blocks reads the size of a block that it has deleted.
	ErrStaleSize = errors.New("stale-size: release_available_cached_blocks of this version reads the size of a block after deleting it; its decision is not defined")
	// ErrPoolDeleted is a defect of 2.11: with expandable segments the segment count of a private pool can reach 0 while
	// blocks are live; the pool object is deleted, and the free of such a block uses it.
	ErrPoolDeleted = errors.New("pool-deleted: free into a private pool that release_cached_blocks has deleted; PyTorch would use freed memory")
	// ErrPoolCount is the other side of it: an unmap with the count at 0 trips an internal assertion.
	ErrPoolCount = errors.New("pool-count: memory of a private pool given back with its segment count at 0; PyTorch stops at an internal assertion")

	// ErrNoVirtualMemory is the answer to expandable_segments:True on a device that has no virtual memory calls.
	ErrNoVirtualMemory = errors.New("expandable_segments:True needs a device with virtual memory")
	// ErrNotLive is the answer to an operation on a block that is not handed out.
	ErrNotLive = errors.New("the block is not live")
	// ErrPoolBusy, ErrPoolReleased and ErrPoolUnknown answer operations on pools out of order.
	ErrPoolBusy     = errors.New("the pool is the default pool or is being recorded already")
	ErrPoolReleased = errors.New("the pool was released by its last user")
	ErrPoolUnknown  = errors.New("no such pool")
	// ErrDevice wraps a device call that failed for another reason than memory.
	ErrDevice = errors.New("device call failed")
	// ErrUnknownSetting is the answer to an option that cannot be changed mid-trace.
	ErrUnknownSetting = errors.New("not an option that can be set mid-trace (conf, memory_fraction)")
)

// invalid keeps err for Inspect and says that nothing was done.
func (a *Allocator) invalid(err error) trace.Status {
	a.lastErr = err
	return trace.StatusInvalid
}

// deviceFailed breaks the operation off; the first reason is kept.
func (a *Allocator) deviceFailed(what string, st trace.CallStatus) {
	if a.opErr == nil {
		a.opErr = fmt.Errorf("%w: %s: %w", ErrDevice, what, st.Err())
	}
}

func (a *Allocator) check(what string, st trace.CallStatus) {
	if st != trace.CallOK {
		a.deviceFailed(what, st)
	}
}

// OOM holds the figures of the last out-of-memory error, in bytes.
type OOM struct {
	TriedBytes       uint64 // segment size of the request, not the request
	TotalBytes       uint64 // total of the device
	FreeBytes        uint64 // free on the device after everything cached was given back
	AllowedBytes     uint64 // by the memory fraction; HasAllowed tells whether there is one
	HasAllowed       bool
	AllocatedBytes   uint64 // "allocated by PyTorch", the free blocks of private pools included
	PrivateBytes     uint64 // free blocks of private pools
	UnallocatedBytes uint64 // "reserved by PyTorch but unallocated"
	RoundedBytes     uint64 // the rounded size, as in the trace entry "oom"
}

// outOfMemory takes down the figures of a failure (the end of malloc).
func (a *Allocator) outOfMemory(r *request) {
	a.st.counts.OOMs++
	if a.cfg.refuseBeforeMalloc && a.overLimit(r) {
		a.st.counts.OOMRejections++
	}
	free, total := a.dev.MemInfo()
	private := uint64(0)
	for _, pp := range a.private {
		if pp != nil {
			private += pp.small.freeBytes() + pp.large.freeBytes()
		}
	}
	allocated := uint64(a.st.gauges[PoolAll][StatAllocatedBytes].current)
	a.lastOOM = OOM{TriedBytes: r.segment, TotalBytes: total, FreeBytes: free, AllowedBytes: a.limitBytes, HasAllowed: a.hasLimit,
		AllocatedBytes: allocated + private, PrivateBytes: private, RoundedBytes: r.size,
		UnallocatedBytes: a.heldBytes - allocated - private}
}

// LastOOM returns the figures of the last failure and whether there was one.
func (a *Allocator) LastOOM() (OOM, bool) { return a.lastOOM, a.st.counts.OOMs > 0 }

// LastError returns the reason of the last StatusError or StatusInvalid, nil when there was none.
func (a *Allocator) LastError() error { return a.lastErr }

// String words the figures in the order and the units of PyTorch's message.
func (o OOM) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "out of memory: tried to allocate %s; device total %s, free %s", FormatSize(o.TriedBytes),
		FormatSize(o.TotalBytes), FormatSize(o.FreeBytes))
	if o.HasAllowed {
		fmt.Fprintf(&s, ", allowed %s", FormatSize(o.AllowedBytes))
	}
	fmt.Fprintf(&s, "; allocated by PyTorch %s", FormatSize(o.AllocatedBytes))
	if o.PrivateBytes > 0 {
		fmt.Fprintf(&s, " (%s cached in private pools)", FormatSize(o.PrivateBytes))
	}
	fmt.Fprintf(&s, ", reserved but unallocated %s", FormatSize(o.UnallocatedBytes))
	return s.String()
}

// FormatSize is format_size of c10/core/Allocator.h: the limits are inclusive, so 1 GiB prints as 1024.00 MiB.
func FormatSize(n uint64) string {
	switch f := float64(n); {
	case n <= 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n <= 1<<20:
		return fmt.Sprintf("%.2f KiB", f/(1<<10))
	case n <= 1<<30:
		return fmt.Sprintf("%.2f MiB", f/(1<<20))
	default:
		return fmt.Sprintf("%.2f GiB", f/(1<<30))
	}
}
