package pmm

import (
	"fmt"
	"math/bits"
)

// Cost is one parameter of the cost model: a figure and where it comes from.
type Cost struct {
	// Value is in the unit that the field's name ends with: nanoseconds (Ns) or bytes a second (BytesPerSec).
	Value int64
	// Source says who published the figure, on what hardware and how it was found.
	Source string
	// Uncalibrated says that nobody has published a figure: Value is a guess of the right order, and every latency that
	// contains it must be shown as such.
	Uncalibrated bool
}

// Costs are the parameters of the cost model. All zero is free of charge. A rate of 0 means infinitely fast.
type Costs struct {
	// AllocNs, FreeNs and UnpinNs are one visit to the lists, a chunk.
	AllocNs, FreeNs, UnpinNs Cost
	// SplitNs and MergeNs are one node split or merged; SplitChildNs and MergeChildNs come on top for each child.
	SplitNs, SplitChildNs, MergeNs, MergeChildNs Cost
	// PMACallNs is one call to PMA; PMARootNs comes on top for each root, or page of a client, that it returns.
	PMACallNs, PMARootNs Cost
	// SyncNs is one wait for GPU work that is pending.
	SyncNs Cost
	// EvictRootNs is choosing a root and pinning it, EvictBlockNs one block asked to move out, without copies and
	// invalidation.
	EvictRootNs, EvictBlockNs Cost
	// ScrubBytesPerSec is zeroing after a free, MemsetBytesPerSec zeroing before first use.
	ScrubBytesPerSec, MemsetBytesPerSec Cost
	// TLBInvalidateNs is one invalidate, MapPageNs one page-table entry written.
	TLBInvalidateNs, MapPageNs Cost
	// FaultBatchNs is one batch of faults, FaultNs comes on top for each fault in it.
	FaultBatchNs, FaultNs Cost
	// CPUFaultNs is one page fault of the host on a page that is on the device, without the copy.
	CPUFaultNs Cost
	// MigrateToDeviceBytesPerSec and MigrateToHostBytesPerSec are copies in fault handling and eviction;
	// PrefetchToDeviceBytesPerSec and PrefetchToHostBytesPerSec are copies in large pieces.
	MigrateToDeviceBytesPerSec, MigrateToHostBytesPerSec, PrefetchToDeviceBytesPerSec, PrefetchToHostBytesPerSec Cost
	// RemoteAccessNs is one access of the device to a page that stays on the host.
	RemoteAccessNs Cost

	// The calls of the CUDA driver, for the backend that offers them over this model.
	// MallocNs and MallocFreeNs are cudaMalloc of new device memory and cudaFree of it.
	MallocNs, MallocFreeNs Cost
	// ManagedAllocNs and ManagedFreeNs are cudaMallocManaged and cudaFree of it.
	ManagedAllocNs, ManagedFreeNs Cost
	// ReserveNs, CreateNs, MapNs, SetAccessNs, UnmapNs, ReleaseNs and AddressFreeNs are cuMemAddressReserve … for a chunk of
	// 2 MiB.
	ReserveNs, CreateNs, MapNs, SetAccessNs, UnmapNs, ReleaseNs, AddressFreeNs Cost
	// MemInfoNs is cudaMemGetInfo.
	MemInfoNs Cost
	// HostAllocBytesPerSec is pinned host memory (cudaMallocHost).
	HostAllocBytesPerSec Cost
}

// NamedCost is one parameter with its name in configuration files.
type NamedCost struct {
	Name string
	*Cost
}

// Fields returns every parameter with its name, in the order of the struct. The pointers lead into c.
func (c *Costs) Fields() []NamedCost {
	return []NamedCost{
		{"alloc_ns", &c.AllocNs}, {"free_ns", &c.FreeNs}, {"unpin_ns", &c.UnpinNs}, {"split_ns", &c.SplitNs},
		{"split_child_ns", &c.SplitChildNs}, {"merge_ns", &c.MergeNs}, {"merge_child_ns", &c.MergeChildNs},
		{"pma_call_ns", &c.PMACallNs}, {"pma_root_ns", &c.PMARootNs}, {"sync_ns", &c.SyncNs},
		{"evict_root_ns", &c.EvictRootNs}, {"evict_block_ns", &c.EvictBlockNs},
		{"scrub_bytes_per_sec", &c.ScrubBytesPerSec}, {"memset_bytes_per_sec", &c.MemsetBytesPerSec},
		{"tlb_invalidate_ns", &c.TLBInvalidateNs}, {"map_page_ns", &c.MapPageNs}, {"fault_batch_ns", &c.FaultBatchNs},
		{"fault_ns", &c.FaultNs}, {"cpu_fault_ns", &c.CPUFaultNs},
		{"migrate_to_device_bytes_per_sec", &c.MigrateToDeviceBytesPerSec},
		{"migrate_to_host_bytes_per_sec", &c.MigrateToHostBytesPerSec},
		{"prefetch_to_device_bytes_per_sec", &c.PrefetchToDeviceBytesPerSec},
		{"prefetch_to_host_bytes_per_sec", &c.PrefetchToHostBytesPerSec}, {"remote_access_ns", &c.RemoteAccessNs},
		{"malloc_ns", &c.MallocNs}, {"malloc_free_ns", &c.MallocFreeNs}, {"managed_alloc_ns", &c.ManagedAllocNs},
		{"managed_free_ns", &c.ManagedFreeNs}, {"reserve_ns", &c.ReserveNs}, {"create_ns", &c.CreateNs},
		{"map_ns", &c.MapNs}, {"set_access_ns", &c.SetAccessNs}, {"unmap_ns", &c.UnmapNs}, {"release_ns", &c.ReleaseNs},
		{"address_free_ns", &c.AddressFreeNs}, {"mem_info_ns", &c.MemInfoNs},
		{"host_alloc_bytes_per_sec", &c.HostAllocBytesPerSec},
	}
}

// Validate refuses a negative figure, since the clock never runs backwards, and a figure that neither has a source nor
// admits to being uncalibrated.
func (c Costs) Validate() error {
	for _, f := range c.Fields() {
		switch {
		case f.Value < 0:
			return fmt.Errorf("pmm: cost %s is %d: it must not be negative", f.Name, f.Value)
		case f.Value > costMax:
			return fmt.Errorf("pmm: cost %s is %d: the largest is %d", f.Name, f.Value, int64(costMax))
		case f.Value != 0 && f.Source == "" && !f.Uncalibrated:
			return fmt.Errorf("pmm: cost %s has no source: name one, or set uncalibrated", f.Name)
		}
	}
	return nil
}

// costMax bounds every figure so that sums stay far from the end of the clock: 10^14 bytes a second, or 28 hours.
const costMax = 100e12

// Uncalibrated returns the names of the parameters in use that nobody has published: every latency computed from one of
// them must be shown with that warning.
func (c *Costs) Uncalibrated() []string {
	var names []string
	for _, f := range c.Fields() {
		if f.Cost.Uncalibrated && f.Value != 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// TransferNs returns the time that bytes take at this rate, rounded down; 0 when the rate is 0.
func (c Cost) TransferNs(bytes uint64) int64 {
	if c.Value <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(bytes, 1e9)
	if hi >= uint64(c.Value) {
		return 1<<63 - 1
	}
	ns, _ := bits.Div64(hi, lo, uint64(c.Value))
	return int64(min(ns, 1<<63-1))
}

// prices are the figures that the core charges, without their sources.
type prices struct {
	alloc, free, unpin, split, splitChild, merge, mergeChild, pmaCall, pmaRoot, sync, evictRoot, evictBlock int64
}

func (c *Costs) prices() prices {
	return prices{
		c.AllocNs.Value, c.FreeNs.Value, c.UnpinNs.Value, c.SplitNs.Value, c.SplitChildNs.Value, c.MergeNs.Value,
		c.MergeChildNs.Value, c.PMACallNs.Value, c.PMARootNs.Value, c.SyncNs.Value, c.EvictRootNs.Value, c.EvictBlockNs.Value,
	}
}
