package pma

import (
	"fmt"
	"math/bits"
)

// Check verifies the package's invariants and returns one error for the first that is broken, nil when all hold.
func (f *Frames) Check() error {
	var n Counts
	for i := range f.free {
		fr, un, sc := f.free[i], f.unpinned[i], f.scrubbing[i]
		if fr&un != 0 || fr&sc != 0 || un&sc != 0 {
			return fmt.Errorf("pma: root %d has a frame in two states (free %08x unpinned %08x scrubbing %08x)", i, fr, un, sc)
		}
		n.Free += bits.OnesCount32(fr)
		n.Unpinned += bits.OnesCount32(un)
		n.Scrubbing += bits.OnesCount32(sc)
		if got := f.full.next(i) == i; got != (fr == rootMask) {
			return fmt.Errorf("pma: root %d: set of free roots says %v, mask is %08x", i, got, fr)
		}
		if got := f.any.next(i) == i; got != (fr != 0) {
			return fmt.Errorf("pma: root %d: set of roots with free frames says %v, mask is %08x", i, got, fr)
		}
	}
	n.Pinned = f.cfg.Roots*FramesPerRoot - n.Free - n.Unpinned - n.Scrubbing
	if n != f.n {
		return fmt.Errorf("pma: counts %+v, masks say %+v", f.n, n)
	}
	return nil
}

// CopyFrom makes f equal to another device of the same configuration, allocating nothing in the steady state.
func (f *Frames) CopyFrom(o *Frames) {
	f.cfg = o.cfg
	copy(f.free, o.free)
	copy(f.unpinned, o.unpinned)
	copy(f.evicting, o.evicting)
	copy(f.scrubbing, o.scrubbing)
	f.full.copyFrom(&o.full)
	f.any.copyFrom(&o.any)
	f.n = o.n
	f.jobs = append(f.jobs[:0], o.jobs[o.head:]...)
	f.head = 0
	f.scrubEnd = o.scrubEnd
}

// Reset makes every frame free, as New does.
func (f *Frames) Reset() {
	for i := range f.free {
		f.put(i, rootMask&^f.free[i])
	}
	clear(f.unpinned)
	clear(f.evicting)
	clear(f.scrubbing)
	f.n = Counts{Free: f.cfg.Roots * FramesPerRoot}
	f.jobs, f.head, f.scrubEnd = f.jobs[:0], 0, 0
}

// LoadRoot sets the state of one root of a device that has been Reset: the frames of free stay free, the others become
// unpinned or pinned.
func (f *Frames) LoadRoot(root int, free uint32, unpinned bool) {
	used := rootMask &^ free
	if used == 0 {
		return
	}
	f.take(root, used)
	if unpinned {
		f.unpinned[root] = used
		f.n.Unpinned += bits.OnesCount32(used)
		return
	}
	f.n.Pinned += bits.OnesCount32(used)
}
