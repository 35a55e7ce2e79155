package pmm

import "fmt"

// RootBytes is the size of a root chunk, the largest chunk and the unit exchanged with PMA (UVM_CHUNK_SIZE_MAX).
const RootBytes = 2 << 20

const (
	rootLog2 = 21 // log2 of RootBytes
	// SizesMax is the most chunk sizes one type may have: UVM_MAX_CHUNK_SIZES is 4 in driver 595 and was 6 in 590.
	SizesMax = 6
	// RootsMax is the most roots a device may have: 1 TiB, UVM_GPU_MAX_PHYS_MEM of uvm_mmu.h.
	RootsMax = 1 << 19
	// BatchOrderMax bounds Config.BatchOrder; the driver's default is 6 (64 roots a PMA call).
	BatchOrderMax = 8
	// GPUs is the number of devices whose work trackers distinguish: the owner of the memory and one other.
	GPUs = 2
)

// Type says for whom a chunk is.
type Type uint8

// The two chunk types (uvm_pmm_gpu_memory_type_t).
const (
	// User memory belongs to VA blocks and can be evicted.
	User Type = iota
	// Kernel memory is the driver's own: page tables, buffers. It is pinned in PMA and never evicted.
	Kernel
	types
)

// String returns "user" or "kernel".
func (t Type) String() string {
	if t == Kernel {
		return "kernel"
	}
	return "user"
}

// State is the state of a chunk. There are exactly five (uvm_pmm_gpu_chunk_state_t).
type State uint8

// The states of a chunk, in the driver's order.
const (
	// PMAOwned roots are with PMA; the manager has nothing to say about them.
	PMAOwned State = iota
	// Free chunks are on a free list (unless their root is in eviction).
	Free
	// Split chunks have children.
	Split
	// TempPinned chunks are on no list: fresh user allocations, chunks in eviction, families about to merge.
	TempPinned
	// Allocated chunks are in use; a user root with such a leaf can be evicted.
	Allocated
	states
)

// StatesCount is the number of states.
const StatesCount = int(states)

var stateNames = [...]string{"PMA_OWNED", "FREE", "IS_SPLIT", "TEMP_PINNED", "ALLOCATED"}

// String returns the driver's name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Status is the answer of an operation, a subset of NV_STATUS.
type Status uint8

// The statuses that the manager returns.
const (
	// OK is success.
	OK Status = iota
	// NoMemory: PMA has none and eviction was not allowed or found nothing; metadata ran out; an injected error; a block's
	// eviction failed.
	NoMemory
	// MoreProcessingRequired: eviction found no candidate, but some root is pinned or in eviction; try again from scratch.
	MoreProcessingRequired
	// InUse: PMA refused to pin a root that it is evicting itself. Internal; the manager retries.
	InUse
	// InvalidArgument: a size, type or flag that does not exist.
	InvalidArgument
	// InvalidAddress: an address outside the device.
	InvalidAddress
	// InvalidState: the chunk is not in a state that the operation needs.
	InvalidState
	// InvalidDevice: no such device. Kept for completeness of the test interface.
	InvalidDevice
	statuses
)

var statusNames = [...]string{
	"NV_OK", "NV_ERR_NO_MEMORY", "NV_ERR_MORE_PROCESSING_REQUIRED", "NV_ERR_IN_USE", "NV_ERR_INVALID_ARGUMENT",
	"NV_ERR_INVALID_ADDRESS", "NV_ERR_INVALID_STATE", "NV_ERR_INVALID_DEVICE",
}

// String returns the driver's name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Error makes a Status usable as an error; use Err to turn OK into nil.
func (s Status) Error() string { return "pmm: " + s.String() }

// Err returns nil for OK and the status itself as an error otherwise, so that errors.Is(err, pmm.NoMemory) works.
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return s
}

// Flags modify an allocation (uvm_pmm_alloc_flags_t).
type Flags uint8

// The allocation flags.
const (
	// None asks for free memory only.
	None Flags = 0
	// Evict allows the eviction of user memory; the caller holds no VA block lock.
	Evict Flags = 1
	// DontBatch asks PMA for one root only.
	DontBatch Flags = 2
	// FlagsMask holds all legal flags.
	FlagsMask Flags = Evict | DontBatch
)

// Mark says how a full 2 MiB block uses its root; it chooses the eviction list.
type Mark uint8

// The eviction lists, in the order in which victims are taken.
const (
	// Unused roots go first.
	Unused Mark = iota
	// Discarded roots go second (list added in driver 590.44.01).
	Discarded
	// Used roots go last.
	Used
	marks
)

// String returns the name of the list.
func (k Mark) String() string { return [...]string{"unused", "discarded", "used"}[k] }

// Chunk names a chunk. The zero value names none. A name is valid from the allocation, split or merge that returned it
// until the chunk is freed, merged away or evicted.
type Chunk int32

// NoChunk is the zero Chunk.
const NoChunk Chunk = 0

// Block names a VA block, the owner of user chunks. NoBlock means none.
type Block int32

// NoBlock is the owner of kernel chunks, free chunks and evicted ones.
const NoBlock Block = -1

// Tracker holds the newest pending work on each GPU, as sequence numbers; 0 is none. Index 0 is the GPU that owns the
// memory. It stands for uvm_tracker_t reduced to what decides behaviour.
type Tracker [GPUs]uint64

// Add joins another tracker's entries.
func (t *Tracker) Add(o Tracker) {
	for g, seq := range o {
		if seq > t[g] {
			t[g] = seq
		}
	}
}

// bytesOf returns 1<<log2 for a size known to be a power of two up to 2 MiB.
func bytesOf(log2 uint8) uint64 { return 1 << log2 }
