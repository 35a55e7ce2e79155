package pmm_test

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

// TestDefrag: defragmentation drains the queue and hands back free roots, moves nothing and is idempotent.
func TestDefrag(t *testing.T) {
	m := newModel(t, 16)
	c, s := m.AllocUser(4<<10, pmm.None, 1) // a batch takes all 16 roots: 15 are prefetched
	if s != pmm.OK {
		t.Fatal(s)
	}
	d, s := m.AllocUser(4<<10, pmm.None, 2)
	if s != pmm.OK {
		t.Fatal(s)
	}
	if s := m.LazyFree(d); s != pmm.OK {
		t.Fatal(s)
	}
	addr := m.Addr(c)
	if got := m.Defrag(); got != (pmm.DefragResult{Roots: 15, Bytes: 15 * pmm.RootBytes}) {
		t.Errorf("first: %+v", got)
	}
	if got := m.Defrag(); got != (pmm.DefragResult{}) {
		t.Errorf("second: %+v", got)
	}
	if m.Addr(c) != addr {
		t.Error("a live chunk moved")
	}
	if v := m.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestFragStats: one 4 KiB chunk in a device of four roots, the other three with PMA. Free: 15 chunks of 4 KiB and 31 of
// 64 KiB in the split root, 3 whole roots.
func TestFragStats(t *testing.T) {
	m := newModel(t, 4)
	if _, s := m.AllocUser(4<<10, pmm.None, 1); s != pmm.OK {
		t.Fatal(s)
	}
	m.ReleaseFreeRoots()
	s := m.FragStats()
	free := uint64(15*4<<10 + 31*64<<10)
	whole := uint64(3 * pmm.RootBytes)
	want := 1 - float64(whole)/float64(free+whole)
	if s.FreeBytes != free || s.PMAFreeBytes != whole || s.External != want || s.LargestUser != pmm.RootBytes {
		t.Errorf("%+v, want %d bytes free, %d in PMA, external %v", s, free, whole, want)
	}
	if got := s.Sizes[pmm.User][0]; got != (pmm.SizeStats{Size: 4 << 10, Free: 15, Allocated: 1}) {
		t.Errorf("4 KiB: %+v", got)
	}
	if _, st := m.RMAlloc(nil, 3, pmm.RootBytes, false); st != pmm.OK {
		t.Fatal(st)
	}
	if s := m.FragStats(); s.LargestUser != 64<<10 || s.LargestKernel != 0 || s.External != 1 {
		t.Errorf("with PMA empty: %+v", s)
	}
}

// TestEmergencyDefrag evicts in the driver's order, oldest first, and says when it cannot go on.
func TestEmergencyDefrag(t *testing.T) {
	m := newModel(t, 8)
	var cs [8]pmm.Chunk
	for i := range cs {
		c, s := m.AllocUser(pmm.RootBytes, pmm.None, pmm.Block(i))
		if s != pmm.OK {
			t.Fatal(s)
		}
		cs[i] = c
	}
	m.MarkRoot(cs[5], pmm.Unused)
	if n, s := m.EmergencyDefrag(2); n != 2 || s != pmm.OK {
		t.Fatalf("%d, %v", n, s)
	}
	for i, c := range cs {
		in, _ := m.Info(c)
		if gone := in.State == pmm.PMAOwned; gone != (i == 5 || i == 0) {
			t.Errorf("chunk %d is %s: want the unused one and the oldest gone", i, in.State)
		}
	}
	var pin [1]pmm.Chunk
	m.Alloc(pmm.User, pmm.RootBytes, pmm.DontBatch, pin[:], nil)
	if n, s := m.EmergencyDefrag(9); n != 7 || s != pmm.MoreProcessingRequired {
		t.Errorf("%d, %v: want 7 and to be told that a root is pinned", n, s)
	}
	if v := m.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestFragStatsFull: with nothing free there is no fragmentation.
func TestFragStatsFull(t *testing.T) {
	m := newModel(t, 2)
	if _, s := m.RMAlloc(nil, 2, pmm.RootBytes, false); s != pmm.OK {
		t.Fatal(s)
	}
	if f := m.FragStats(); f.External != 0 {
		t.Errorf("external fragmentation %v of a full device, want 0", f.External)
	}
}

// TestPoolSize: a pool takes the roots that its bytes need, no more.
func TestPoolSize(t *testing.T) {
	for bytes, roots := range map[uint64]int{1: 1, pmm.RootBytes: 1, pmm.RootBytes + 1: 2, 2 * pmm.RootBytes: 2, 4 * pmm.RootBytes: 4} {
		m := newModel(t, 4)
		if _, err := m.NewPool(pmm.Kernel, bytes); err != nil {
			t.Fatal(err)
		}
		if got := 4 - m.MemInfo().FreeRoots; got != roots {
			t.Errorf("a pool of %d bytes took %d roots, want %d", bytes, got, roots)
		}
	}
	if _, err := newModel(t, 4).NewPool(pmm.Kernel, 4*pmm.RootBytes+1); !errors.Is(err, pmm.NoMemory) {
		t.Errorf("a pool larger than the device: %v", err)
	}
}

// TestPool: a pool of two roots serves the smallest size that fits, never grows, merges eagerly, and is whole in the end.
func TestPool(t *testing.T) {
	for typ := pmm.User; typ <= pmm.Kernel; typ++ {
		m := newModel(t, 8)
		p, err := m.NewPool(typ, 3<<20)
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.Alloc(5000)
		if err != nil {
			t.Fatal(err)
		}
		if in, _ := m.Info(a); in.Size != 64<<10 || in.Type != typ {
			t.Fatalf("5000 bytes gave %d", in.Size)
		}
		if _, err := p.Alloc(3 << 20); !errors.Is(err, pmm.InvalidArgument) {
			t.Errorf("more than a root: %v", err)
		}
		live := []pmm.Chunk{a}
		for {
			c, err := p.Alloc(4 << 10)
			if err != nil {
				if !errors.Is(err, pmm.NoMemory) {
					t.Fatal(err)
				}
				break
			}
			live = append(live, c)
		}
		if want := 1 + 31*16 + 512; len(live) != want {
			t.Errorf("%d chunks, want %d", len(live), want)
		}
		if err := p.Destroy(); !errors.Is(err, pmm.ErrPoolBusy) {
			t.Errorf("destroyed while busy: %v", err)
		}
		for _, c := range live {
			if err := p.Free(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Free(a); !errors.Is(err, pmm.ErrPoolForeign) {
			t.Errorf("returned twice: %v", err)
		}
		if err := p.Destroy(); err != nil {
			t.Fatal(err)
		}
		m.ReleaseFreeRoots()
		if v := m.CheckEmpty(); len(v) > 0 {
			t.Error(v[0])
		}
	}
}

// TestPhases follows one root through every phase of a delayed free.
func TestPhases(t *testing.T) {
	cfg := pmm.DefaultConfig(8 * pmm.RootBytes)
	cfg.BatchOrder = 1
	cfg.ScrubNsPerFrame = 10
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := func(addr uint64, p pmm.Phase) {
		t.Helper()
		if got, s := m.PhaseOf(addr); s != pmm.OK || got != p {
			t.Fatalf("0x%x is %s, %v; want %s", addr, got, s, p)
		}
	}
	want(0, pmm.PhasePMAFree)
	c, s := m.AllocUser(4<<10, pmm.None, 1)
	if s != pmm.OK {
		t.Fatal(s)
	}
	d, _ := m.AllocUser(4<<10, pmm.None, 1)
	a := m.Addr(d)
	want(a, pmm.PhaseInUse)
	m.LazyFree(d)
	want(a, pmm.PhaseLazy)
	m.Flush()
	want(a, pmm.PhaseFree)
	d, _ = m.AllocUser(4<<10, pmm.None, 1)
	a = m.Addr(d)
	work := m.Issue(0)
	m.Free(d, work)
	want(a, pmm.PhaseFreePending)
	m.Complete(0)
	want(a, pmm.PhaseFree)
	// The merge hands back one free root, the prefetched one, which is zero and needs no scrub; releasing the other does.
	m.FreeChunk(c)
	m.ReleaseFreeRoots()
	want(a, pmm.PhaseScrubbing)
	m.AdvanceNs(32*10 - 1)
	want(a, pmm.PhaseScrubbing)
	m.AdvanceNs(1)
	want(a, pmm.PhasePMAFree)
	m.RMAlloc(nil, 1, 64<<10, false)
	want(0, pmm.PhasePMAUsed)
	if _, s := m.PhaseOf(1 << 40); s != pmm.InvalidAddress {
		t.Error(s)
	}
}

// TestClock: the price of a call is the advance of the clock, and a cold 4 KiB allocation costs two splits more than a warm
// one: 100 and 8 ns a child for 32 and 16 children.
func TestClock(t *testing.T) {
	cfg := pmm.DefaultConfig(64 * pmm.RootBytes)
	cfg.Costs = pmm.DefaultCosts()
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	price := func(f func()) int64 {
		t0 := m.NowNs()
		f()
		return m.NowNs() - t0
	}
	var out [1]pmm.Chunk
	alloc := func() {
		if s := m.Alloc(pmm.User, 4<<10, pmm.None, out[:], nil); s != pmm.OK {
			t.Fatal(s)
		}
	}
	m.AllocUser(pmm.RootBytes, pmm.None, 0) // fetches the batch
	cold, warm := price(alloc), price(alloc)
	if warm != 28 || cold != 28+100+32*8+100+16*8 {
		t.Errorf("warm %d ns, cold %d ns", warm, cold)
	}
	if names := cfg.Costs.Uncalibrated(); len(names) == 0 || names[0] != "unpin_ns" {
		t.Errorf("uncalibrated: %v", names)
	}
	cfg.Costs.AllocNs = pmm.Cost{Value: 5}
	if err := cfg.Validate(); err == nil {
		t.Error("a figure without a source was accepted")
	}
	if got := (pmm.Cost{Value: 25e9}).TransferNs(1 << 30); got != 42949672 {
		t.Errorf("1 GiB at 25 GB/s: %d ns", got)
	}
	if got := (pmm.Cost{Value: 1}).TransferNs(1 << 62); got != 1<<63-1 {
		t.Errorf("a transfer that never ends: %d ns", got)
	}
}

// TestScrubDelay: memory on its way through the scrubber is not free, and an allocation does not wait for it.
func TestScrubDelay(t *testing.T) {
	cfg := pmm.DefaultConfig(2 * pmm.RootBytes)
	cfg.ScrubNsPerFrame = 100
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pages, s := m.RMAlloc(nil, 2, pmm.RootBytes, false)
	if s != pmm.OK {
		t.Fatal(s)
	}
	m.RMFree(pages, pmm.RootBytes)
	if in := m.MemInfo(); in.FreeBytes != 0 || in.ScrubbingBytes != 2*pmm.RootBytes {
		t.Fatalf("%+v", in)
	}
	if _, s := m.RMAlloc(nil, 1, pmm.RootBytes, false); s != pmm.NoMemory {
		t.Fatalf("allocated memory that is being scrubbed: %v", s)
	}
	m.AdvanceNs(3200)
	if got, s := m.RMAlloc(nil, 1, pmm.RootBytes, false); s != pmm.OK || got[0] != 0 {
		t.Fatalf("after the first scrub: %v, %v", got, s)
	}
	if at := m.NextScrubNs(); at != 6400 {
		t.Errorf("the scrubber will be done at %d, want 6400", at)
	}
	if v := m.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}
