package pmm

import "github.com/gpubench/gpubench/pmm/pma"

// This file is the small face of the model for whoever needs a chunk at a time, and what is left of the device. The price of
// a call is the advance of NowNs over it.

// AllocKernel allocates one kernel chunk of a size of the kernel mask (256, 4 KiB, 64 KiB or 2 MiB on Pascal and newer),
// without eviction.
func (m *Model) AllocKernel(size uint64) (Chunk, Status) {
	var c [1]Chunk
	s := m.Alloc(Kernel, size, None, c[:], nil)
	return c[0], s
}

// AllocUser allocates one user chunk of a size of the user mask for a VA block and unpins it, so that it can be evicted.
// With Evict other user memory may be evicted to make room.
func (m *Model) AllocUser(size uint64, flags Flags, b Block) (Chunk, Status) {
	if b < 0 {
		return NoChunk, InvalidArgument
	}
	var c [1]Chunk
	s := m.Alloc(User, size, flags, c[:], nil)
	if s == OK {
		s = m.Unpin(c[0], b, 0)
	}
	return c[0], s
}

// FreeChunk frees a chunk with nothing pending on it.
func (m *Model) FreeChunk(c Chunk) Status { return m.Free(c, Tracker{}) }

// FreeChunks frees chunks in order and stops at the first that cannot be freed.
func (m *Model) FreeChunks(cs []Chunk) Status {
	for _, c := range cs {
		if s := m.Free(c, Tracker{}); s != OK {
			return s
		}
	}
	return OK
}

// MemInfo is how much memory there is, in bytes.
type MemInfo struct {
	// TotalBytes is the device's memory, FreeBytes what PMA could hand out at once (what cudaMemGetInfo shows).
	TotalBytes, FreeBytes uint64
	// ScrubbingBytes will be free once the scrubber has been there.
	ScrubbingBytes uint64
	// UserBytes is unpinned, that is, with the manager for user memory (free chunks included), PinnedBytes all the rest.
	UserBytes, PinnedBytes uint64
	// FreeRoots counts whole free roots: a request backed by 2 MiB pages can fail while FreeBytes are enough.
	FreeRoots int
}

// MemInfo collects finished scrubs and returns how much memory there is.
func (m *Model) MemInfo() MemInfo {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	m.frames.Poll(m.NowNs())
	n := m.frames.Counts()
	return MemInfo{
		TotalBytes: uint64(m.cfg.Roots) * RootBytes, FreeBytes: uint64(n.Free) * pma.FrameBytes,
		ScrubbingBytes: uint64(n.Scrubbing) * pma.FrameBytes, UserBytes: uint64(n.Unpinned) * pma.FrameBytes,
		PinnedBytes: uint64(n.Pinned) * pma.FrameBytes, FreeRoots: m.frames.FreeRoots(),
	}
}

// NextScrubNs returns when the scrubber will have finished everything queued, on the model's clock: a backend that may
// wait can advance to it and try again.
func (m *Model) NextScrubNs() int64 {
	m.lk.lockFrames()
	defer m.lk.unlockFrames()
	return m.frames.ScrubDoneNs()
}
