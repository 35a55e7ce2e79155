package pmm_test

import (
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

// TestRMAllocRangeFresh: the lowest run of a fresh device begins at address 0; the next follows it.
func TestRMAllocRangeFresh(t *testing.T) {
	m := newModel(t, 4)
	for want := uint64(0); want < 4; want += 2 {
		if at, s := m.RMAllocRange(2, false); s != pmm.OK || at != want*pmm.RootBytes {
			t.Fatalf("two roots: 0x%x, %v, want 0x%x", at, s, want*pmm.RootBytes)
		}
	}
	if _, s := m.RMAllocRange(1, false); s != pmm.NoMemory {
		t.Errorf("a full device: %v", s)
	}
}

// TestRMAlloc: pages of a client come lowest first, of each size that PMA serves; one that cannot be served in full leaves
// nothing behind, and its price is the call and the pages.
func TestRMAlloc(t *testing.T) {
	cfg := pmm.DefaultConfig(2 * pmm.RootBytes)
	cfg.Costs = pmm.Costs{PMACallNs: pmm.Cost{Value: 100, Source: "made up"}, PMARootNs: pmm.Cost{Value: 7, Source: "made up"}}
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	small, s := m.RMAlloc(nil, 3, 64<<10, false)
	if s != pmm.OK || len(small) != 3 || small[0] != 0 || small[2] != 2*64<<10 || m.NowNs() != 121 {
		t.Fatalf("three small pages: %x, %v, %d ns", small, s, m.NowNs())
	}
	twin, s := m.RMAlloc(nil, 1, 128<<10, false)
	if s != pmm.OK || twin[0] != 4*64<<10 {
		t.Fatalf("a page of 128 KiB: %x, %v, want the lowest aligned place", twin, s)
	}
	if got, s := m.RMAlloc([]uint64{99}, 2, pmm.RootBytes, false); s != pmm.NoMemory || len(got) != 1 {
		t.Fatalf("two roots of which one is whole: %x, %v", got, s)
	}
	if in := m.MemInfo(); in.FreeBytes != 2*pmm.RootBytes-5*64<<10 || in.FreeRoots != 1 {
		t.Errorf("after the failure: %+v", in)
	}
	for _, bad := range []struct {
		addr, page uint64
		want       pmm.Status
	}{
		{64 << 10, 128 << 10, pmm.InvalidAddress}, // not aligned
		{2 * pmm.RootBytes, 64 << 10, pmm.InvalidAddress},
		{3 * 64 << 10, 64 << 10, pmm.InvalidState}, // free
		{0, 4 << 10, pmm.InvalidArgument},
	} {
		if s := m.RMFree([]uint64{bad.addr}, bad.page); s != bad.want {
			t.Errorf("freeing 0x%x of %d bytes: %v, want %v", bad.addr, bad.page, s, bad.want)
		}
	}
	if s := m.RMFree(small, 64<<10); s != pmm.OK {
		t.Fatal(s)
	}
	if s := m.RMFree(twin, 128<<10); s != pmm.OK || m.MemInfo().FreeRoots != 2 {
		t.Errorf("%v, %+v", s, m.MemInfo())
	}
	if v := m.CheckEmpty(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestRMAllocRange: contiguous roots come from a free run when there is one, else by emptying a range, scrubbed before they
// are handed out; a pinned chunk in the only range makes it fail, and everything that is free then is free again.
func TestRMAllocRange(t *testing.T) {
	cfg := pmm.DefaultConfig(6 * pmm.RootBytes)
	cfg.BatchOrder = 0
	cfg.ScrubNsPerFrame = 100
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Audit()
	check := func() {
		t.Helper()
		if v := m.Check(); len(v) > 0 {
			t.Fatal(v[0])
		}
	}
	var cs [4]pmm.Chunk
	for i := range cs {
		c, s := m.AllocUser(pmm.RootBytes, pmm.None, pmm.Block(i))
		if s != pmm.OK {
			t.Fatal(s)
		}
		cs[i] = c
	}
	if at, s := m.RMAllocRange(2, false); s != pmm.OK || at != 4*pmm.RootBytes {
		t.Fatalf("the free run: 0x%x, %v", at, s)
	}
	check()
	if _, s := m.RMAllocRange(2, false); s != pmm.NoMemory {
		t.Fatalf("without eviction: %v", s)
	}
	m.RMFree([]uint64{4 * pmm.RootBytes}, pmm.RootBytes)
	m.AdvanceNs(3200)
	t0 := m.NowNs()
	if at, s := m.RMAllocRange(3, true); s != pmm.OK || at != 0 {
		t.Fatalf("roots 0 to 2: 0x%x, %v", at, s)
	}
	if got := m.NowNs() - t0; got != 3*32*100 {
		t.Errorf("scrubbing three roots took %d ns, want %d", got, 3*32*100)
	}
	check()
	if in, _ := m.Info(cs[3]); in.State != pmm.Allocated {
		t.Errorf("root 3 was not asked for and is %s", in.State)
	}
	var pin [1]pmm.Chunk
	m.FreeChunk(cs[3])
	m.AdvanceNs(3200)
	if s := m.Alloc(pmm.User, pmm.RootBytes, pmm.None, pin[:], nil); s != pmm.OK || m.Addr(pin[0]) != 3*pmm.RootBytes {
		t.Fatalf("%v at 0x%x", s, m.Addr(pin[0]))
	}
	if _, s := m.RMAllocRange(2, true); s != pmm.NoMemory {
		t.Fatalf("root 3 is pinned: %v", s)
	}
	m.AdvanceNs(3200)
	if in := m.MemInfo(); in.FreeRoots != 1 {
		t.Errorf("%d roots free after the failure, want root 4", in.FreeRoots)
	}
	check()
	if _, s := m.RMAllocRange(7, true); s != pmm.InvalidArgument {
		t.Errorf("more than there is: %v", s)
	}
}
