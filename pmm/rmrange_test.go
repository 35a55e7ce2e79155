package pmm_test

import (
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

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
