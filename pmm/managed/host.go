package managed

import (
	"errors"
	"fmt"
	"slices"
)

// The errors of host chunks.
var (
	// ErrHostMemory: the host has no memory left.
	ErrHostMemory = errors.New("managed: out of host memory")
	// ErrHostChunk: the operation does not fit the chunk, such as a split of the smallest.
	ErrHostChunk = errors.New("managed: not possible on this host chunk")
)

// hostSizes are the sizes of host chunks (uvm_pmm_sysmem.c): a page, 64 KiB, 2 MiB.
var hostSizes = []uint64{PageBytes, 64 << 10, BlockBytes}

// HostMemory counts the host memory that the driver takes. There are no free lists, no pool and no eviction: every chunk
// comes from the kernel's page allocator and goes back to it.
type HostMemory struct {
	total, used uint64
}

// NewHostMemory returns a host with so much memory.
func NewHostMemory(bytes uint64) *HostMemory { return &HostMemory{total: bytes} }

// UsedBytes returns how much is taken.
func (h *HostMemory) UsedBytes() uint64 { return h.used }

// HostChunk is a piece of host memory: physical, or logical, that is, part of a physical one that was split. A physical
// chunk lives as long as somebody refers to it: its creator until it is split, and each child after that.
type HostChunk struct {
	h        *HostMemory
	parent   *HostChunk
	offset   uint64 // within the physical chunk
	bytes    uint64
	refs     int
	freed    bool
	physical bool
}

// Alloc takes a chunk of one of the three sizes.
func (h *HostMemory) Alloc(bytes uint64) (*HostChunk, error) {
	if !slices.Contains(hostSizes, bytes) {
		return nil, fmt.Errorf("%w: %d bytes on the host", ErrPageSize, bytes)
	}
	if bytes > h.total-h.used {
		return nil, fmt.Errorf("%w: %d of %d bytes are taken", ErrHostMemory, h.used, h.total)
	}
	h.used += bytes
	return &HostChunk{h: h, bytes: bytes, refs: 1, physical: true}, nil
}

// Bytes returns the size of the chunk.
func (c *HostChunk) Bytes() uint64 { return c.bytes }

// Offset returns where the chunk lies in its physical chunk: its DMA address is that of the physical one plus this.
func (c *HostChunk) Offset() uint64 { return c.offset }

// Split cuts a chunk into logical chunks of the next smaller size, in address order (uvm_cpu_chunk_split). The reference
// of the chunk's creator goes over to the children: it vanishes with the last of them.
func (c *HostChunk) Split() ([]*HostChunk, error) {
	i := slices.Index(hostSizes, c.bytes)
	if c.freed || i < 1 {
		return nil, fmt.Errorf("%w: split of %d bytes", ErrHostChunk, c.bytes)
	}
	size := hostSizes[i-1]
	n := int(c.bytes / size)
	out := make([]*HostChunk, n)
	for k := range out {
		out[k] = &HostChunk{h: c.h, parent: c, offset: c.offset + uint64(k)*size, bytes: size, refs: 1}
	}
	c.refs += n - 1 // one for each child, less the creator's
	c.freed = true  // nobody holds it but its children
	return out, nil
}

// MergeHost joins all children of one chunk back into it (uvm_cpu_chunk_merge). The children must be complete, in order and
// not freed.
func MergeHost(children []*HostChunk) (*HostChunk, error) {
	if len(children) == 0 || children[0].parent == nil {
		return nil, fmt.Errorf("%w: merge of %d chunks", ErrHostChunk, len(children))
	}
	p := children[0].parent
	if uint64(len(children))*children[0].bytes != p.bytes || p.refs != len(children) {
		return nil, fmt.Errorf("%w: merge of %d chunks of %d bytes into %d", ErrHostChunk, len(children), children[0].bytes, p.bytes)
	}
	for k, c := range children {
		if c.parent != p || c.freed || c.offset != p.offset+uint64(k)*c.bytes {
			return nil, fmt.Errorf("%w: child %d does not belong there", ErrHostChunk, k)
		}
	}
	for _, c := range children {
		c.freed, c.refs = true, 0
	}
	p.refs, p.freed = 1, false
	return p, nil
}

// Free gives the holder's reference back; memory goes back to the host with the last one.
func (c *HostChunk) Free() {
	if !c.freed {
		c.freed = true
		c.drop()
	}
}

func (c *HostChunk) drop() {
	if c.refs--; c.refs > 0 {
		return
	}
	if c.physical {
		c.h.used -= c.bytes
		return
	}
	c.parent.drop()
}
