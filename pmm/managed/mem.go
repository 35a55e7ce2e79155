package managed

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/pmm"
)

// MemParams are what the driver's own allocations say (uvm_mem_alloc_params_t of uvm_mem.h).
type MemParams struct {
	// Bytes is the size wanted.
	Bytes uint64
	// PageBytes is the page size; 0 lets the allocation choose.
	PageBytes uint64
	// OnDevice puts the memory on the device, else it is host memory.
	OnDevice bool
	// Zero asks for zeroed memory; not possible on the device.
	Zero bool
}

// The errors of Mem beside those of the manager.
var (
	// ErrZeroOnDevice: the driver asserts that device memory is not asked for zeroed.
	ErrZeroOnDevice = errors.New("managed: device memory cannot be asked for zeroed")
	// ErrPageSize: a page size that the memory does not come in.
	ErrPageSize = errors.New("managed: no such page size")
)

// Mem is one allocation of the driver's own: kernel chunks of the manager, or chunks of host memory. It is pinned, is not
// evicted and does not move.
type Mem struct {
	params MemParams
	m      *pmm.Model
	chunks []pmm.Chunk
	host   *HostMemory
	pages  []*HostChunk
}

// AllocMem allocates memory as uvm_mem_alloc does: the page size is given or picked, and as many chunks of that size are
// taken as the bytes need, all or none. Device chunks come from the manager without eviction.
func AllocMem(m *pmm.Model, h *HostMemory, p MemParams) (*Mem, error) {
	if p.Bytes == 0 {
		return nil, fmt.Errorf("%w: 0 bytes", ErrSize)
	}
	if p.OnDevice && p.Zero {
		return nil, ErrZeroOnDevice
	}
	if p.PageBytes == 0 {
		p.PageBytes = PickPage(p.Bytes, p.OnDevice)
	}
	mem := &Mem{params: p, m: m, host: h}
	n := (p.Bytes + p.PageBytes - 1) / p.PageBytes
	if !p.OnDevice {
		return mem.allocHost(n)
	}
	if m.SizesMask(pmm.Kernel)&p.PageBytes == 0 || p.PageBytes&(p.PageBytes-1) != 0 {
		return nil, fmt.Errorf("%w: %d bytes on the device", ErrPageSize, p.PageBytes)
	}
	if n > uint64(m.Config().Roots)*pmm.RootBytes/p.PageBytes {
		return nil, fmt.Errorf("managed: %d bytes on the device: %w", p.Bytes, pmm.NoMemory)
	}
	mem.chunks = make([]pmm.Chunk, n)
	if st := m.Alloc(pmm.Kernel, p.PageBytes, pmm.None, mem.chunks, nil); st != pmm.OK {
		return nil, fmt.Errorf("managed: %d bytes on the device: %w", p.Bytes, st)
	}
	return mem, nil
}

// PickPage is the driver's choice of a page size (mem_pick_chunk_size of uvm_mem.c): host pages for host memory; on the
// device 4 KiB below 64 KiB, 64 KiB below 2 MiB, else 2 MiB.
func PickPage(bytes uint64, onDevice bool) uint64 {
	switch {
	case !onDevice, bytes < 64<<10:
		return PageBytes
	case bytes < BlockBytes:
		return 64 << 10
	}
	return BlockBytes
}

func (mem *Mem) allocHost(n uint64) (*Mem, error) {
	for range n {
		c, err := mem.host.Alloc(mem.params.PageBytes)
		if err != nil {
			mem.Free()
			return nil, fmt.Errorf("managed: %d bytes of host memory: %w", mem.params.Bytes, err)
		}
		mem.pages = append(mem.pages, c)
	}
	mem.m.AdvanceNs(mem.m.Config().Costs.HostAllocBytesPerSec.TransferNs(mem.Bytes()))
	return mem, nil
}

// Chunks returns the number of chunks and the size of each.
func (mem *Mem) Chunks() (n int, pageBytes uint64) {
	return len(mem.chunks) + len(mem.pages), mem.params.PageBytes
}

// Bytes returns how much memory stands behind the allocation: the size wanted, rounded up to pages.
func (mem *Mem) Bytes() uint64 {
	n, page := mem.Chunks()
	return uint64(n) * page
}

// Free gives the memory back; a second call does nothing.
func (mem *Mem) Free() {
	if len(mem.chunks) > 0 {
		mem.m.FreeChunks(mem.chunks)
	}
	for _, c := range mem.pages {
		c.Free()
	}
	mem.chunks, mem.pages = nil, nil
}
