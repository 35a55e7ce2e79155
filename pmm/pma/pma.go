// Package pma models PMA, the frame allocator of NVIDIA's resource manager that lies below the UVM physical memory
// manager (open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/gpu/mem_mgr/phys_mem_allocator).
//
// Device memory is a row of roots of 2 MiB, each of 32 frames of 64 KiB. A frame is free, unpinned (owned by UVM, which may
// be asked to give it back), pinned (owned by the resource manager, or by UVM for kernel use) or scrubbing (freed, not yet
// zeroed). On top of that a frame may carry the mark "evicting" while the manager empties a range.
//
// # Structure
//
// One 32-bit mask of each kind a root, and two hierarchical bit sets over roots: those wholly free, and those with any free
// frame. Allocation is lowest address first, as the forward scan of regmap.c. Taking or giving back a root costs a few word
// operations whatever the size of the device; taking n frames costs O(n) plus the roots visited.
//
// # Scrubbing
//
// With scrub-on-free a frame given back without the "is zero" flag is zeroed by the copy engine. When ScrubNsPerFrame is 0
// that is immediate (as in the recordings of the driver's code); otherwise the frames queue for one scrubber that works in
// order, and become free once an allocation finds, on the caller's clock, that their time has passed. PMA only polls: an
// allocation never waits for a scrub in flight, so a request may fail while memory is on its way.
//
// # Invariants
//
// The four states are exclusive; the counts equal the population of the masks; the bit sets agree with the free masks.
// Check verifies all of them.
//
// The package is pure and not safe for concurrent use.
package pma

import (
	"fmt"
	"math/bits"
)

const (
	// FrameBytes is the size of one frame.
	FrameBytes = 64 << 10
	// RootBytes is the size of one root, the unit that UVM takes.
	RootBytes = 2 << 20
	// FramesPerRoot is the number of frames of a root.
	FramesPerRoot = RootBytes / FrameBytes
	// RootsMax is the largest device: 1 TiB, UVM_GPU_MAX_PHYS_MEM of uvm_mmu.h.
	RootsMax = 1 << 19
)

const rootMask = ^uint32(0)

// Result is the answer of a call.
type Result uint8

// The answers of PMA, named after the NV_STATUS values that the driver returns.
const (
	// OK is success.
	OK Result = iota
	// NoMemory: too few free frames.
	NoMemory
	// InvalidArgument: a page size that PMA does not serve, or an address outside the device or not aligned.
	InvalidArgument
	// InvalidState: the frame is not in the state that the call needs.
	InvalidState
	// InUse: the frame is being evicted.
	InUse
)

// Config describes a device's frames.
type Config struct {
	// Roots is the number of 2 MiB roots, 1 to RootsMax.
	Roots int
	// Scrub turns scrub-on-free on: fresh memory is then known to be zero.
	Scrub bool
	// ScrubNsPerFrame is the time the scrubber takes for 64 KiB; 0 makes scrubs immediate.
	ScrubNsPerFrame int64
}

// scrubJob is a piece of one root in the scrubber's queue.
type scrubJob struct {
	root   int32
	frames uint32
	doneNs int64
}

// Counts is the census of frames by state.
type Counts struct {
	Free, Unpinned, Pinned, Scrubbing int
}

// Frames is the state of one device's memory.
type Frames struct {
	cfg       Config
	free      []uint32
	unpinned  []uint32
	evicting  []uint32
	scrubbing []uint32
	full      bitTree // roots wholly free
	any       bitTree // roots with at least one free frame
	n         Counts
	jobs      []scrubJob // FIFO: jobs[head:]
	head      int
	scrubEnd  int64 // when the scrubber will have done all it has
}

// New returns a device with every frame free.
func New(cfg Config) (*Frames, error) {
	if cfg.Roots < 1 || cfg.Roots > RootsMax {
		return nil, fmt.Errorf("pma: %d roots of 2 MiB: want 1 to %d", cfg.Roots, RootsMax)
	}
	if cfg.ScrubNsPerFrame < 0 {
		return nil, fmt.Errorf("pma: scrub time %d ns a frame is negative", cfg.ScrubNsPerFrame)
	}
	f := &Frames{
		cfg: cfg, free: make([]uint32, cfg.Roots), unpinned: make([]uint32, cfg.Roots), evicting: make([]uint32, cfg.Roots),
		scrubbing: make([]uint32, cfg.Roots), full: newBitTree(cfg.Roots), any: newBitTree(cfg.Roots),
	}
	for i := range f.free {
		f.free[i] = rootMask
		f.full.add(i)
		f.any.add(i)
	}
	f.n.Free = cfg.Roots * FramesPerRoot
	return f, nil
}

// Roots returns the number of roots of the device.
func (f *Frames) Roots() int { return f.cfg.Roots }

// Scrub reports whether scrub-on-free is on, that is, whether fresh memory is zero.
func (f *Frames) Scrub() bool { return f.cfg.Scrub }

// Counts returns the number of frames in each state.
func (f *Frames) Counts() Counts { return f.n }

// FreeRoots counts the roots that are wholly free.
func (f *Frames) FreeRoots() int {
	n := 0
	for _, w := range f.full.levels[0] {
		n += bits.OnesCount64(w)
	}
	return n
}

// NextFreeRoot returns the first wholly free root not below i, or -1.
func (f *Frames) NextFreeRoot(i int) int { return f.full.next(i) }

// RootState returns the masks of one root, bit k standing for its k-th frame; frames in none of them are pinned.
func (f *Frames) RootState(root int) (free, unpinned, scrubbing uint32) {
	return f.free[root], f.unpinned[root], f.scrubbing[root]
}

// take removes free frames of a root from the free set.
func (f *Frames) take(root int, m uint32) {
	was := f.free[root]
	now := was &^ m
	f.free[root] = now
	f.n.Free -= bits.OnesCount32(m)
	if was == rootMask {
		f.full.remove(root)
	}
	if now == 0 {
		f.any.remove(root)
	}
}

// put makes frames of a root free.
func (f *Frames) put(root int, m uint32) {
	was := f.free[root]
	now := was | m
	f.free[root] = now
	f.n.Free += bits.OnesCount32(m)
	if now == rootMask {
		f.full.add(root)
	}
	if was == 0 {
		f.any.add(root)
	}
}

// AllocRoots takes up to len(dst) wholly free roots, lowest first, and returns how many it got. Without partial it takes
// all or none. nowNs is the caller's clock: scrubs finished by then are collected first.
func (f *Frames) AllocRoots(dst []int32, pinned, partial bool, nowNs int64) int {
	f.Poll(nowNs)
	n := 0
	for i := f.full.next(0); i >= 0 && n < len(dst); i = f.full.next(i + 1) {
		dst[n] = int32(i)
		n++
	}
	if n < len(dst) && !partial {
		return 0
	}
	for _, r := range dst[:n] {
		f.take(int(r), rootMask)
		if pinned {
			f.n.Pinned += FramesPerRoot
		} else {
			f.unpinned[r] = rootMask
			f.n.Unpinned += FramesPerRoot
		}
	}
	return n
}

// PageMask returns the frames of the page of pageBytes at byte address addr as a root and a mask; ok is false when the page
// is larger than a root, not aligned, outside the device, or of a size that PMA does not serve within a root.
func (f *Frames) PageMask(addr, pageBytes uint64) (root int, mask uint32, ok bool) {
	if (pageBytes != FrameBytes && pageBytes != 2*FrameBytes && pageBytes != RootBytes) || addr%pageBytes != 0 {
		return 0, 0, false
	}
	if addr/RootBytes >= uint64(f.cfg.Roots) {
		return 0, 0, false
	}
	first := uint(addr % RootBytes / FrameBytes)
	return int(addr / RootBytes), pageBits(pageBytes) << first, true
}

func pageBits(pageBytes uint64) uint32 {
	return uint32(uint64(1)<<(pageBytes/FrameBytes) - 1)
}

// ValidPage reports whether PMA serves pages of this size: 64 KiB, 128 KiB, 2 MiB or 512 MiB.
func ValidPage(pageBytes uint64) bool {
	return pageBytes == FrameBytes || pageBytes == 2*FrameBytes || pageBytes == RootBytes || pageBytes == HugeBytes
}

// HugeBytes is the largest page that PMA serves.
const HugeBytes = 512 << 20

// AllocPages takes up to n pinned pages, lowest address first, appends their addresses to dst, and returns it. It takes what
// there is: the caller compares the count and gives back what it does not want.
func (f *Frames) AllocPages(dst []uint64, n int, pageBytes uint64, nowNs int64) ([]uint64, Result) {
	if !ValidPage(pageBytes) {
		return dst, InvalidArgument
	}
	f.Poll(nowNs)
	if pageBytes == HugeBytes {
		return f.allocHuge(dst, n), OK
	}
	set := &f.any
	if pageBytes == RootBytes {
		set = &f.full
	}
	step := uint(pageBytes / FrameBytes)
	want := pageBits(pageBytes)
	for i := set.next(0); i >= 0 && n > 0; i = set.next(i + 1) {
		var got uint32
		for k := uint(0); k < FramesPerRoot && n > 0; k += step {
			if m := want << k; f.free[i]&m == m {
				got |= m
				dst = append(dst, uint64(i)*RootBytes+uint64(k)*FrameBytes)
				n--
			}
		}
		if got != 0 {
			f.take(i, got)
			f.n.Pinned += bits.OnesCount32(got)
		}
	}
	return dst, OK
}

func (f *Frames) allocHuge(dst []uint64, n int) []uint64 {
	const roots = HugeBytes / RootBytes
	for first := 0; first+roots <= f.cfg.Roots && n > 0; first += roots {
		run := first
		for run < first+roots && f.free[run] == rootMask {
			run++
		}
		if run < first+roots {
			continue
		}
		for i := first; i < run; i++ {
			f.take(i, rootMask)
		}
		f.n.Pinned += roots * FramesPerRoot
		dst = append(dst, uint64(first)*RootBytes)
		n--
	}
	return dst
}

// FindFree returns the lowest run of n wholly free roots, or -1.
func (f *Frames) FindFree(n int, nowNs int64) int {
	f.Poll(nowNs)
	for at := f.full.next(0); at >= 0; {
		end := at + 1
		for end < at+n && end < f.cfg.Roots && f.free[end] == rootMask {
			end++
		}
		if end == at+n {
			return at
		}
		at = f.full.next(end)
	}
	return -1
}

// FindRange returns the lowest run of n roots in which every frame is free or unpinned, none being scrubbed or pinned, or
// -1: what a contiguous request of the resource manager may evict.
func (f *Frames) FindRange(n int, nowNs int64) int {
	f.Poll(nowNs)
	run := 0
	for i := range f.free {
		if f.free[i]|f.unpinned[i] == rootMask && f.evicting[i] == 0 {
			if run++; run == n {
				return i - n + 1
			}
			continue
		}
		run = 0
	}
	return -1
}

// PinFree pins the free frames of a root, for a client that takes what is there before it asks for evictions, and returns
// them.
func (f *Frames) PinFree(root int) uint32 {
	m := f.free[root]
	if m != 0 {
		f.take(root, m)
		f.n.Pinned += bits.OnesCount32(m)
	}
	return m
}

// MarkEvicting sets or clears the mark of a root that is being emptied for a client: Pin refuses it, and what is given back
// meanwhile becomes pinned, the client's, instead of free.
func (f *Frames) MarkEvicting(root int, on bool) {
	f.evicting[root] = 0
	if on {
		f.evicting[root] = rootMask
	}
}

// PinRoot turns an unpinned root into a pinned one. A root being evicted is InUse, any other state InvalidState.
func (f *Frames) PinRoot(root int) Result {
	if f.unpinned[root] != rootMask {
		return InvalidState
	}
	if f.evicting[root] != 0 {
		return InUse
	}
	f.unpinned[root] = 0
	f.n.Unpinned -= FramesPerRoot
	f.n.Pinned += FramesPerRoot
	return OK
}

// Free gives frames of a root back. zero says that their contents are known to be zero, which skips the scrub. It returns
// InvalidState, changing nothing, when one of them is free or being scrubbed.
func (f *Frames) Free(root int, mask uint32, zero bool, nowNs int64) Result {
	if (f.free[root]|f.scrubbing[root])&mask != 0 {
		return InvalidState
	}
	if mask == 0 {
		return OK
	}
	u := bits.OnesCount32(f.unpinned[root] & mask)
	n := bits.OnesCount32(mask)
	f.unpinned[root] &^= mask
	f.n.Unpinned -= u
	f.n.Pinned -= n - u
	if f.evicting[root]&mask != 0 {
		f.n.Pinned += n // kept for the client that is emptying the range
		return OK
	}
	if zero || !f.cfg.Scrub || f.cfg.ScrubNsPerFrame == 0 {
		f.put(root, mask)
		return OK
	}
	f.scrubbing[root] |= mask
	f.n.Scrubbing += n
	if f.scrubEnd < nowNs {
		f.scrubEnd = nowNs
	}
	f.scrubEnd += int64(n) * f.cfg.ScrubNsPerFrame
	f.jobs = append(f.jobs, scrubJob{int32(root), mask, f.scrubEnd})
	return OK
}

// Poll collects the scrubs that have finished by nowNs.
func (f *Frames) Poll(nowNs int64) {
	if len(f.jobs) == 0 {
		return
	}
	for f.head < len(f.jobs) && f.jobs[f.head].doneNs <= nowNs {
		j := f.jobs[f.head]
		f.head++
		f.scrubbing[j.root] &^= j.frames
		f.n.Scrubbing -= bits.OnesCount32(j.frames)
		f.put(int(j.root), j.frames)
	}
	if f.head == len(f.jobs) {
		f.jobs, f.head = f.jobs[:0], 0
	} else if f.head > len(f.jobs)/2 {
		n := copy(f.jobs, f.jobs[f.head:])
		f.jobs, f.head = f.jobs[:n], 0
	}
}

// ScrubDoneNs returns when the scrubber will have finished all that is queued; at most the caller's present when idle.
func (f *Frames) ScrubDoneNs() int64 { return f.scrubEnd }
